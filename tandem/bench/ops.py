"""Times every call into torch, sorted by what it is for."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from types import FrameType
from typing import Any

from torch.overrides import TorchFunctionMode

__all__ = ["GROUPS", "OpTimer", "group_of"]

GROUPS = (
    "layer matmuls",
    "head matmul",
    "attention",
    "recurrence",
    "norms",
    "rotary",
    "casts",
    "KV cache",
    "sampler",
    "other",
)

_MATMUL = ("linear", "matmul", "addmm", "baddbmm", "bmm", "mm", "mv", "einsum")
_HEAD = "logits"
_FILES = {
    "rotary": "rotary",
    "matrix": "casts",
    "packed": "casts",
    "digits": "casts",
    "conv": "recurrence",
    "delta": "recurrence",
    "recurrent": "recurrence",
    "kv": "KV cache",
    "sampler": "sampler",
    "penalties": "sampler",
    "ranking": "sampler",
    "noise": "sampler",
    "logprobs": "sampler",
}


def group_of(op: str, callers: Sequence[tuple[str, str]]) -> str:
    """The group of a call of `op` from `callers`: (file stem, function) of Tandem's frames, innermost first."""
    if op in _MATMUL or op.startswith("qlinear") or ("int" in op and "mm" in op):
        return "head matmul" if any(function == _HEAD for _, function in callers) else "layer matmuls"
    if "attention" in op:
        return "attention"
    if "norm" in op:
        return "norms"
    return next((_FILES[stem] for stem, _ in callers if stem in _FILES), "other")


class OpTimer(TorchFunctionMode):
    """While entered: `seconds` and `calls` by group of everything that this thread calls in torch.

    Only the calls themselves are timed, not what the timer adds around them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        elapsed = time.perf_counter() - start
        group = group_of(getattr(func, "__name__", ""), _callers(sys._getframe(1)))
        self.seconds[group] += elapsed
        self.calls[group] += 1
        return result


def _callers(frame: FrameType | None) -> list[tuple[str, str]]:
    found = []
    while frame is not None:
        path = PurePath(frame.f_code.co_filename)
        if "tandem" in path.parts:
            found.append((path.stem, frame.f_code.co_name))
        frame = frame.f_back
    return found
