"""The embedding cache: what a tower made of images, so that one re-sent every turn is encoded once (ENG-101)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from torch import Tensor

__all__ = ["IMAGE_BYTES", "EmbeddingCache"]

IMAGE_BYTES: Final = 512 << 20
"""Its budget where nothing else is set."""


class EmbeddingCache:
    """Rows by the digest of an image's patches and grid, in at most `limit` bytes; the longest unused go first.

    What is handed out is the tensor that was put in: a hit is bit-equal to the encode it saves.
    """

    def __init__(self, limit: int = IMAGE_BYTES) -> None:
        self._limit = limit
        self._rows: OrderedDict[bytes, Tensor] = OrderedDict()
        self._bytes = 0
        self._hits = 0
        self._misses = 0
        self._saved = 0
        self._evictions = 0

    def get(self, digest: bytes) -> Tensor | None:
        """The image's rows, and it counts as used now."""
        rows = self._rows.get(digest)
        if rows is None:
            self._misses += 1
            return None
        self._rows.move_to_end(digest)
        self._hits += 1
        self._saved += rows.shape[0]
        return rows

    def put(self, digest: bytes, rows: Tensor) -> None:
        """Keep an image's rows, unless they alone are over the budget."""
        if digest in self._rows or rows.nbytes > self._limit:
            return
        self._rows[digest] = rows
        self._bytes += rows.nbytes
        while self._bytes > self._limit:
            self._bytes -= self._rows.popitem(last=False)[1].nbytes
            self._evictions += 1

    def clear(self) -> int:
        """Forget everything: the bytes given up."""
        held, self._bytes = self._bytes, 0
        self._rows.clear()
        return held

    def state(self) -> Mapping[str, int]:
        """What is held now, and what has come of it since the load."""
        return {
            "image_cache_bytes": self._bytes,
            "image_cache_evictions": self._evictions,
            "image_cache_hits": self._hits,
            "image_cache_images": len(self._rows),
            "image_cache_misses": self._misses,
            "image_cache_saved_rows": self._saved,
        }
