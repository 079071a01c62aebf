"""Captured CUDA graphs, one a shape, with the eager way where a capture is not to be had (ENG-029).

A captured step reads its inputs, positions and lengths from tensors that stay where they are: whoever calls it fills
them first. It runs the very kernels that the eager step launches, so its results are the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

__all__ = ["Captured", "capture"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Captured(Generic[T]):
    """A step that can be taken again and again."""

    run: Callable[[], T]
    reason: str
    """Why it is eager; empty where a graph is replayed."""

    def __call__(self) -> T:
        """The result: of a graph the same tensors every time, written anew."""
        return self.run()


def capture(step: Callable[[], T], device: torch.device | str, warm: int = 2) -> Captured[T]:
    """A graph of `step`, which is run `warm` times first (that compiles its kernels), or `step` itself with the reason.

    `step` must be safe to run several times over. What it raises in those first runs is raised here: it would eagerly.
    """
    if torch.device(device).type != "cuda":
        return Captured(step, "no CUDA device")
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            result = step()
    except RuntimeError as error:
        return Captured(step, f"the capture failed: {str(error).splitlines()[0]}")

    def replay() -> T:
        graph.replay()
        return result

    return Captured(replay, "")
