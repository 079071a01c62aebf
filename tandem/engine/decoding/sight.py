"""What a `TorchEngine` needs to read prompts with images: a tower, what it made of images, and what is read now.

An image is encoded when the first chunk that holds one of its rows is read (ENG-098). One that goes on in the next
chunk is held until its last row, whatever the cache's budget.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tandem.engine.caches.embeddings import IMAGE_BYTES, EmbeddingCache
from tandem.engine.models.model import SeeingModel, Sight
from tandem.engine.models.state import State
from tandem.engine.models.vision import Tower, row_positions
from tandem.engine.text.images import Patches, PromptImage
from tandem.engine.text.prompt import Prompt

__all__ = ["Eyes"]


class Eyes:
    """The tower of a model, and its cache of at most `cache_bytes`."""

    def __init__(self, model: SeeingModel, tower: Tower, cache_bytes: int = IMAGE_BYTES) -> None:
        self._model = model
        self._tower = tower
        self._cache = EmbeddingCache(cache_bytes)
        self._held: tuple[bytes, Tensor] | None = None
        self._images = 0
        self._rows = 0

    def read(self, prompt: Prompt, start: int, end: int, state: State) -> Tensor | None:
        """Hidden states of rows `start` to below `end` of a prompt; None where none of them is an image's."""
        seen = [image for image in prompt.images if image.start < end and start < image.stop]
        if not seen:
            return None
        rows, at = zip(*(self._part(image, start, end) for image in seen), strict=True)
        sight = Sight(torch.cat(rows), torch.cat(at), row_positions(prompt.images, start, end))
        return self._model.forward_seen(torch.tensor(prompt.ids[start:end]), start, state, sight)

    def _part(self, image: PromptImage, start: int, end: int) -> tuple[Tensor, Tensor]:
        """The image's rows of this chunk, and which rows of the chunk they are."""
        low, high = max(image.start, start), min(image.stop, end)
        rows = self._rows_of(image.patches)
        self._held = (image.patches.digest, rows) if image.stop > end else None
        return rows[low - image.start : high - image.start].float(), torch.arange(low - start, high - start)

    def _rows_of(self, patches: Patches) -> Tensor:
        if self._held is not None and self._held[0] == patches.digest:
            return self._held[1]
        rows = self._cache.get(patches.digest)
        if rows is None:
            rows = self._tower(patches.pixels, patches.across, patches.down)
            self._images += 1
            self._rows += patches.rows
            self._cache.put(patches.digest, rows)
        return rows

    def release(self) -> None:
        """No sequence is open any more."""
        self._held = None

    def clear(self) -> int:
        """Empty the cache: the bytes given up."""
        return self._cache.clear()

    def state(self) -> Mapping[str, int]:
        """Plain counters since the load (ENG-174)."""
        return {"encoded_images": self._images, "encoded_image_rows": self._rows, **self._cache.state()}
