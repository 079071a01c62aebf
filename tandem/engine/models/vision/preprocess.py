"""From pixels to a tower's patches, as the reference image processor cuts them (ENG-175).

The reference is `Qwen2VLImageProcessorPil` of transformers, its "slow" one: a bicubic resize by Pillow in whole levels,
then levels to numbers in two roundings, then patches in the order of merged patches. The "fast" one, which cards may
name, differs in the resize alone, torchvision's: up to two of 255 levels.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from tandem.engine.checkpoints.config import VisionConfig
from tandem.engine.models.vision.tower import encode_bytes
from tandem.engine.text.images import Geometry, Patches, Picture, grid

__all__ = ["Cutter"]

RGB = range(3)


class Cutter:
    """An `ImageReader` for one tower. Immutable, so any thread may use it.

    All work on pixels is numpy's: torch would start a team of threads for every worker thread that comes by, beside
    the engine's own.
    """

    def __init__(self, config: VisionConfig, dtype: torch.dtype = torch.float32) -> None:
        """`dtype` is the tower's: patches wait in it (ENG-102)."""
        self._config = config
        self._dtype = dtype
        levels = (np.arange(256, dtype=np.float64) * config.rescale_factor).astype(np.float32)[:, None]
        mean, std = (np.array(each, dtype=np.float32) for each in (config.image_mean, config.image_std))
        numbers = torch.from_numpy((levels - mean) / std).t().contiguous().to(dtype)
        # Of every level of every channel the bits of its number, (channels, 256): numpy knows no bf16.
        self._bits = numbers.view(torch.int16 if dtype.itemsize == 2 else torch.int32).numpy()
        self.geometry = Geometry(
            patch=config.patch_size,
            merge=config.spatial_merge_size,
            min_pixels=config.min_pixels,
            max_pixels=config.max_pixels,
            row_bytes=encode_bytes(config, dtype),
        )

    def cut(self, picture: Picture) -> Patches:
        """The picture resized and cut; `pixels` is (4 rows, patch_numbers) where four patches are merged."""
        across, down = grid(picture.width, picture.height, self.geometry)
        side = self.geometry.side
        image = Image.frombytes("RGB", (picture.width, picture.height), picture.rgb)
        levels = np.asarray(image.resize((across * side, down * side), Image.Resampling.BICUBIC))
        digest = hashlib.sha256(f"{across} {down} ".encode())
        digest.update(levels.tobytes())
        bits = np.stack([self._bits[channel][levels[..., channel]] for channel in RGB])
        patches = torch.from_numpy(self._patches(bits, across, down)).view(self._dtype)
        return Patches(across, down, digest.digest(), patches)

    def _patches(self, bits: NDArray[Any], across: int, down: int) -> NDArray[Any]:
        """(channels, height, width) to (patches, channels x frames x side x side)."""
        config = self._config
        patch, merge, frames = config.patch_size, config.spatial_merge_size, config.temporal_patch_size
        # Rows and columns of merged patches, of patches in them; then channels and pixels.
        cut = bits.reshape(-1, down, merge, patch, across, merge, patch).transpose(1, 4, 2, 5, 0, 3, 6)[
            :, :, :, :, :, None
        ]
        repeated = np.broadcast_to(cut, (*cut.shape[:5], frames, *cut.shape[6:]))
        return repeated.reshape(-1, config.patch_numbers)
