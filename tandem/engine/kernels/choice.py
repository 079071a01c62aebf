"""Which of the two serves: the torch twin or the Triton kernel (ENG-028).

A model asks once for each of its operations, while it loads, and keeps the function; its load report has the choices.
A kernel serves on CUDA where Triton is installed and takes the shape; the twin serves in every other case, with the
reason. Only a choice for CUDA imports Triton.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import torch

__all__ = ["OPS", "Choice", "Choose", "Chosen", "Op", "Sizes", "choose", "report"]

Sizes: TypeAlias = Mapping[str, int]
"""What an operation will be asked for, by the letters of its twin's docstring: `rows`, `n`, `k`, `dk`, `dv`, `size`."""
_HERE = "tandem.engine.kernels"


@dataclass(frozen=True, slots=True)
class Op:
    """One operation: where it is, and what its kernel takes."""

    module: str
    twin: str
    kernel: str
    lacks: Callable[[Sizes], str] = lambda _: ""
    """Why the kernel does not take sizes; empty where it does."""
    invariant: bool = False
    """Whether the kernel declares ENG-027: a row's bits are the same alone and among 2 to 32."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What serves an operation, and why it is not the kernel where it is not."""

    op: str
    kind: Literal["triton", "torch"]
    reason: str
    run: Callable[..., Any]


def choose(op: str, device: torch.device | str, sizes: Sizes = MappingProxyType({})) -> Choice:
    """What serves `op` on `device`. `KeyError` for an operation that is none."""
    entry = OPS[op]
    reason = _absence(torch.device(device)) or entry.lacks(sizes)
    if reason:
        return Choice(op, "torch", reason, getattr(importlib.import_module(f"{_HERE}.{entry.module}"), entry.twin))
    kernels = importlib.import_module(f"{_HERE}.triton.{entry.module}")
    return Choice(op, "triton", "", getattr(kernels, entry.kernel))


Choose: TypeAlias = Callable[[str, torch.device | str, Sizes], Choice]
"""`choose`, or what a test has in its place."""


class Chosen:
    """The choices of one model, as it makes them while it loads."""

    def __init__(self, device: torch.device, choose: Choose = choose) -> None:
        self._device = device
        self._choose = choose
        self._made: list[Choice] = []

    def __call__(self, op: str, **sizes: int) -> Callable[..., Any]:
        """What serves `op` at these sizes."""
        made = self._choose(op, self._device, sizes)
        self._made.append(made)
        return made.run

    def report(self) -> dict[str, str]:
        """For the load report; of an operation that is served in two ways the twin, with its reason."""
        return report(sorted(self._made, key=lambda each: each.kind == "torch"))


def report(choices: Iterable[Choice]) -> dict[str, str]:
    """For the load report: `triton`, or `torch` with the reason, by operation."""
    return {each.op: f"{each.kind}: {each.reason}" if each.reason else each.kind for each in choices}


def _absence(device: torch.device) -> str:
    if device.type != "cuda":
        return f"no kernels for the device {device.type}"
    return "" if importlib.util.find_spec("triton") else "triton is not installed"


def _delta(sizes: Sizes) -> str:
    keys, values = sizes.get("dk", 16), sizes.get("dv", 16)
    if keys < 16 or keys & (keys - 1) or keys > 256:
        return f"key heads of {keys}: the kernel takes powers of two from 16 to 256"
    if values < 16 or values & (values - 1):
        return f"value heads of {values}: the kernel takes powers of two from 16"
    return _few(sizes)


def _few(sizes: Sizes) -> str:
    rows = sizes.get("rows", 1)
    return f"{rows} rows: the kernel takes at most 32" if rows > 32 else ""


def _nvfp4(sizes: Sizes) -> str:
    k = sizes.get("k", 16)
    return f"{k} inputs are no multiple of 16" if k % 16 else _few(sizes)


def _attention(sizes: Sizes) -> str:
    size = sizes.get("size", 16)
    if size < 16 or size & (size - 1) or size > 256:
        return f"heads of {size}: the kernel takes powers of two from 16 to 256"
    return _few(sizes)


OPS: Mapping[str, Op] = MappingProxyType(
    {
        "delta_step": Op("delta", "delta_step", "delta_step", _delta),
        "delta_verify_chain": Op("delta", "delta_verify", "delta_verify_chain", _delta),
        "delta_verify_tree": Op("delta", "delta_verify", "delta_verify", _delta),
        "delta_commit": Op("delta", "delta_commit", "delta_commit", _delta),
        "delta_chunk": Op("delta", "delta_chunk", "delta_chunk", lambda sizes: _delta({**sizes, "rows": 1})),
        "causal_conv": Op("conv", "causal_conv", "causal_conv", invariant=True),
        "conv_verify": Op("conv", "conv_verify", "conv_verify", _few),
        "conv_commit": Op("conv", "conv_commit", "conv_commit", _few),
        "rms_norm": Op("norms", "rms_norm", "rms_norm", invariant=True),
        "gated_rms_norm": Op("norms", "gated_rms_norm", "gated_rms_norm", invariant=True),
        "delta_gates": Op("pointwise", "delta_gates", "delta_gates", invariant=True),
        "gated_silu": Op("pointwise", "gated_silu", "gated_silu", invariant=True),
        "rotary": Op("rotary", "rotary", "rotary", invariant=True),
        "nvfp4_linear": Op("linear", "nvfp4_linear", "nvfp4_linear", _nvfp4, invariant=True),
        "fp8_linear": Op("linear", "fp8_linear", "fp8_linear", _few, invariant=True),
        "head": Op("linear", "head", "head", _few, invariant=True),
        "decode_attention": Op("attention", "decode_attention", "decode_attention", _attention),
    }
)
"""Every operation that has a kernel."""
