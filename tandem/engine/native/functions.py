"""The functions of the C files, on tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache, wraps
from types import MethodType
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function

from tandem.engine.native.build import compiled, parallel
from tandem.engine.native.nibbles import BLOCK, GROUP, packed

__all__ = ["FEW", "Native", "native"]

FEW = 48
"""Rows up to which these are for; of more of them torch makes more (Xeon with AMX)."""
_SIZES = frozenset({64, 128, 256})
"""Numbers of a head."""
_ALONE = 1 << 17
"""Numbers of keys times queries below which a second thread costs more than it saves."""

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _shown(method: _Method) -> _Method:
    """Calls are told to a mode that watches torch's own, such as a timer."""

    @wraps(method)
    def told(self: object, *args: object) -> Any:
        if has_torch_function(args[:1]):
            return handle_torch_function(MethodType(told, self), args[:1], *args)
        return method(self, *args)

    return cast("_Method", told)


class Native:
    """Operations on tensors of few rows in fp32 on the CPU. They use torch's own threads, and a row has the same bits
    alone and among others.
    """

    def __init__(self, library: ctypes.CDLL, parallel: int) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._parallel = parallel
        self._four: Any = library.tandem_product4
        self._four.argtypes = [pointer] * 4 + [number] * 4
        self._eight: Any = library.tandem_product8
        self._eight.argtypes = [pointer] * 5 + [number] * 5
        self._rms: Any = library.tandem_rms
        self._rms.argtypes = [pointer] * 3 + [number] * 2 + [ctypes.c_float]
        self._rms.restype = None
        self._attend: Any = library.tandem_attend
        self._attend.argtypes = [pointer] * 6 + [number] * 9

    @_shown
    def int4_mm(self, codes: Tensor, x: Tensor) -> Tensor:
        """The product of (rows, K) with `packed` codes: (rows, N)."""
        blocks, groups, _ = codes.shape
        count, outputs, columns, x = x.shape[0], BLOCK * blocks, GROUP * groups, x.contiguous()
        y = torch.empty(count, outputs)
        numbers = (count, outputs, columns, torch.get_num_threads())
        _done(self._four(self._parallel, codes.data_ptr(), x.data_ptr(), y.data_ptr(), *numbers))
        return y

    @_shown
    def int8_mm(self, codes: Tensor, scales: Tensor, x: Tensor, y: Tensor) -> None:
        """The product of (rows, K) into `y` (rows, N), whose rows may lie apart: `codes` (N / 64, K / 4, 64) in int32,
        four neighbouring codes of an output as one number, and `scales` (N). K and N are multiples of 64.
        """
        blocks, fours, _ = codes.shape
        pointers = (codes.data_ptr(), scales.data_ptr(), x.data_ptr(), y.data_ptr())
        numbers = (x.shape[0], 64 * blocks, 4 * fours, y.stride(0), torch.get_num_threads())
        _done(self._eight(self._parallel, *pointers, *numbers))

    @_shown
    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor | None:
        """RMS norm of (rows, K), on one thread; None where it is not for such tensors."""
        if x.shape[0] > FEW or x.shape[1] % 16 or not _plain(x, weight):
            return None
        x = x.contiguous()
        y = torch.empty_like(x)
        self._rms(x.data_ptr(), weight.data_ptr(), y.data_ptr(), *x.shape, eps)
        return y

    @_shown
    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor | None:
        """As `layers.attend`; None where it is not for such tensors."""
        (rows, heads, size), (_, kv_heads, length, _) = q.shape, k.shape
        if rows > FEW or size not in _SIZES or not _plain(q, k, v):
            return None
        if q.stride()[1:] != (size, 1) or k.stride()[2:] != (size, 1) or k.stride() != v.stride():
            return None
        if mask is not None:
            mask = mask.contiguous()
        y = torch.empty(rows, heads * size)
        pointers = (q.data_ptr(), k.data_ptr(), v.data_ptr(), None if mask is None else mask.data_ptr(), y.data_ptr())
        strides = (q.stride(0), k.stride(1))
        threads = 1 if rows * heads * length * size < _ALONE else torch.get_num_threads()
        causal = mask is None and rows > 1
        _done(self._attend(self._parallel, *pointers, rows, heads, kv_heads, length, size, *strides, causal, threads))
        return y


def _plain(*tensors: Tensor) -> bool:
    return all(each.is_cpu and each.dtype == torch.float32 for each in tensors)


def _done(failed: int) -> None:
    if failed:
        raise MemoryError("no memory for the scratch of a product")


@lru_cache(maxsize=1)
def native() -> Native | None:
    """What serves this process; None where nothing could be compiled, or where it computes wrongly."""
    threads, library = parallel(), compiled("products.c", "attention.c")
    if threads is None or library is None:
        return None
    made = Native(library, threads)
    return made if _right(made) else None


@torch.inference_mode()
def _right(made: Native) -> bool:
    """Whether whole numbers are multiplied as they should be, in every count of rows that has code of its own."""
    generator = torch.Generator().manual_seed(0)
    codes, x = (
        torch.randint(low, high, shape, generator=generator)
        for low, high, shape in ((0, 16, (64, 64)), (-9, 10, (15, 64)))
    )
    scales = torch.full((64, 2), 2.0, dtype=torch.bfloat16)
    four = made.int4_mm(packed(codes, scales, torch.ones_like(scales)), x.float())
    blocks = (codes - 8).to(torch.int8).view(1, 64, 16, 4).transpose(1, 2).contiguous().view(torch.int32)[..., 0]
    eight = torch.empty(15, 64)
    made.int8_mm(blocks, torch.ones(64), x.float(), eight)
    expected = (x @ (codes - 8).T).float()
    off = [(four - 2 * expected - x.sum(dim=1, keepdim=True)).abs().max(), (eight - expected).abs().max()]
    rows = x.float()[None] / 9  # of one head, which is query, key and value at once
    mixed = made.attention(rows[0][:, None], rows[None], rows[None], None)
    plain = functional.scaled_dot_product_attention(rows, rows, rows, is_causal=True)[0]
    off.append(torch.full((), torch.inf) if mixed is None else (mixed - plain).abs().max())
    return bool(max(off) < 0.1)
