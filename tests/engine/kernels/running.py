"""Runs an operation in one of three ways and compares: a twin with the fp64 oracle, a kernel with its twin."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from tandem.engine.kernels.choice import OPS, choose

__all__ = ["WAYS", "Way", "absence", "close", "moved", "tensors_of", "wide"]


@dataclass(frozen=True, slots=True)
class Way:
    """Where operations run, and by whom."""

    name: str
    device: str

    @property
    def is_twin(self) -> bool:
        return self.name == "torch"

    @property
    def narrow(self) -> torch.dtype:
        """The type of two bytes to check: the interpreter cannot multiply bf16, and cuts where it should round."""
        return torch.float16 if self.name == "interp" else torch.bfloat16

    def run(self, op: str, *args: Any, **more: Any) -> Any:
        """`op` on `args`, moved to the device; the result is back on the CPU."""
        return moved(self.function(op)(*moved(args, self.device), **moved(more, self.device)), "cpu")

    def function(self, op: str) -> Callable[..., Any]:
        if self.is_twin:
            return choose(op, "cpu").run
        entry = OPS[op]
        kernels = importlib.import_module(f"tandem.engine.kernels.triton.{entry.module}")
        return getattr(kernels, entry.kernel)  # type: ignore[no-any-return]

    def agrees(self, op: str, args: tuple[Any, ...], oracle: Callable[..., Any], bound: float) -> Any:
        """Check `op` on `args`, a twin against `oracle` in fp64, a kernel against the twin; give what it gave."""
        got = self.run(op, *args)
        expected = oracle(*wide(args)) if self.is_twin else choose(op, "cpu").run(*args)
        for one, other in zip(tensors_of(got), tensors_of(expected), strict=True):
            assert one.shape == other.shape
            assert close(one, other, bound), (one.double() - other.double()).abs().max()
        return got


WAYS = MappingProxyType({name: Way(name, device) for name, device in
                         (("torch", "cpu"), ("interp", "cpu"), ("cuda", "cuda"))})  # fmt: skip


def absence(name: str) -> str:
    """Why a way is not to be had here; empty where it is."""
    if name == "torch":
        return ""
    if not importlib.util.find_spec("triton"):
        return "triton is not installed (the extra `gpu`)"
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if name == "interp":
        return "" if interpreted else "needs TRITON_INTERPRET=1"
    if not torch.cuda.is_available():
        return "no CUDA device"
    return "Triton is interpreted: run `pytest -m gpu` alone" if interpreted else ""


def close(one: Tensor, other: Tensor, bound: float) -> bool:
    """Whether two tensors differ by at most `bound` of the larger of 1 and the other's largest number."""
    if one.numel() == 0:
        return True
    scale = max(1.0, other.double().abs().max().item())
    return bool(torch.isfinite(one).all()) and (one.double() - other.double()).abs().max().item() <= bound * scale


def wide(value: Any) -> Any:
    """Floating tensors in fp64."""
    return _each(value, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


def moved(value: Any, device: str) -> Any:
    return _each(value, lambda tensor: tensor.to(device))


def _each(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: _each(each, change) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_each(each, change) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(*(_each(getattr(value, field.name), change) for field in fields(value)))
    return value


def tensors_of(value: Any) -> list[Tensor]:
    """All tensors in a result."""
    if isinstance(value, Tensor):
        return [value]
    if is_dataclass(value) and not isinstance(value, type):
        return [tensor for field in fields(value) for tensor in tensors_of(getattr(value, field.name))]
    return [tensor for each in value for tensor in tensors_of(each)]
