"""A CUDA device's allocator as the memory gate sees it (ENG-125)."""

from __future__ import annotations

import gc

import torch

__all__ = ["DeviceMemory"]


class DeviceMemory:
    """Torch's caching allocator on the current device; no role has a pool of its own yet."""

    def reserved(self) -> int:
        return torch.cuda.memory_reserved()

    def allocated(self) -> int:
        return torch.cuda.memory_allocated()

    def pooled(self) -> int:
        return 0

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()

    def collect(self) -> None:
        gc.collect()

    def measured(self) -> int:
        """The most that was in use since the last call, beyond what is now."""
        most = torch.cuda.max_memory_allocated() - self.allocated()
        torch.cuda.reset_peak_memory_stats()
        return most
