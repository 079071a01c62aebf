"""What the memory gives: the rate at which torch's own kernels get through a buffer with the threads that are set."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

__all__ = ["read_bandwidth"]

COLUMNS = 1024
SMALLEST, LARGEST = 1 << 26, 1 << 31
REPEATS = 7


def read_bandwidth(nbytes: int) -> float:
    """Bytes a second: the best of a sum, a matrix-vector product and a copy over a buffer of about `nbytes`.

    The buffer is as large as what is read a token, so that a cache holds of the one what it holds of the other. A copy
    counts twice, read and written. `nbytes` is clamped to 64 MiB … 2 GiB.
    """
    rows = min(max(nbytes, SMALLEST), LARGEST) // (COLUMNS * torch.float32.itemsize)
    buffer = torch.ones(rows, COLUMNS)
    vector, target = torch.ones(COLUMNS), torch.empty_like(buffer)
    with torch.inference_mode():
        return max(
            _rate(lambda: buffer.sum(), buffer.nbytes),
            _rate(lambda: torch.mv(buffer, vector), buffer.nbytes),
            _rate(lambda: target.copy_(buffer), 2 * buffer.nbytes),
        )


def _rate(work: Callable[[], object], nbytes: int) -> float:
    work()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return nbytes / min(times)
