"""Tiny Qwen3.5 models as a device serves them, run wherever a test wants: see `tests/engine/kernels/running.py`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.weights import Coded
from tandem.engine.kernels.choice import OPS, Choice, choose
from tandem.engine.kernels.graphs import Captured
from tandem.engine.models.placement import CPU, CUDA, Placement
from tandem.engine.models.qwen3_5 import DeviceQwen35, load_qwen3_5_device
from tests.engine.kernels.running import Way, tensors_of
from tests.engine.models.hybrid import hybrid_spec
from tests.engine.models.memory import MemoryWeights, quiet

__all__ = ["NARROW", "CodedMemory", "device_model", "interpreted", "placement_of", "replayed", "teacher_forced"]

NARROW = Placement(torch.device("cpu"), torch.bfloat16, torch.bfloat16)
"""The types of CUDA on the CPU."""


@dataclass(frozen=True, slots=True)
class CodedMemory(MemoryWeights):
    """`CodedWeights` over dicts of canonical names; what is in `codes` is in `tensors` by its values."""

    codes: Mapping[str, Coded]

    def coded(self, name: str) -> Coded | None:
        return self.codes.get(name)


def interpreted(op: str, device: torch.device | str, sizes: Mapping[str, int]) -> Choice:
    """The kernel under Triton's interpreter, as `choose` would take it on CUDA."""
    entry = OPS[op]
    if reason := entry.lacks(sizes):
        return Choice(op, "torch", reason, choose(op, "cpu").run)
    kernels = importlib.import_module(f"tandem.engine.kernels.triton.{entry.module}")
    return Choice(op, "triton", "", getattr(kernels, entry.kernel))


def replayed(step: Callable[[], Any], device: torch.device) -> Captured[Any]:
    """A graph as the CPU can have one: in the place of `capture` it gives the same tensors every time, written anew."""
    result = step()

    def replay() -> Any:
        for kept, new in zip(tensors_of(result), tensors_of(step()), strict=True):
            kept.copy_(new)
        return result

    return Captured(replay, "")


def placement_of(way: Way) -> Placement:
    return CUDA if way.device == "cuda" else CPU


def device_model(
    config: dict[str, Any],
    tensors: Mapping[str, Tensor],
    placement: Placement = CPU,
    codes: Mapping[str, Coded] | None = None,
    **options: Any,
) -> DeviceQwen35:
    """The model of tensors under Hugging Face's names."""
    spec: ModelConfig = hybrid_spec(config)
    canonical = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    return load_qwen3_5_device(spec, CodedMemory(canonical, codes or {}), quiet, placement, **options)


@torch.inference_mode()
def teacher_forced(model: Any, ids: Tensor, prompt: int) -> Tensor:
    """Logits (rows, vocab) of a prompt's last row and of every row behind it, read one by one."""
    state = model.new_state(len(ids))
    rows = [model.logits(model.forward(ids[:prompt], 0, state)[-1:])]
    rows += [model.logits(model.forward(ids[at : at + 1], at, state)) for at in range(prompt, len(ids))]
    return torch.cat(rows)
