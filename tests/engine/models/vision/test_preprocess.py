"""Patches and grids against the reference's image processor, on a fixed set of images (ENG-175).

That is the "slow" one of transformers, which resizes with Pillow. The "fast" one needs torchvision, which is not
installed for the tests; its resize is compared by the function of torch that it calls.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from tandem.engine.checkpoints.config import VisionConfig
from tandem.engine.checkpoints.hf_vision import CARD, read_vision
from tandem.engine.errors import CheckpointError
from tandem.engine.models.vision.preprocess import Cutter
from tandem.engine.text.images import Geometry, Picture, grid
from tests.engine.models.vision.seeing import picture

SIZES = [(64, 64), (65, 47), (200, 130), (37, 301), (8, 8), (10, 1500), (333, 333), (900, 700), (512, 512), (1, 1)]
"""Within the card's bounds, below them, above them, and at them; sides that are rounded up, down and to nothing."""


def processor_of(checkpoint: Path, **overrides: Any) -> Any:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    card = json.loads((checkpoint / CARD).read_text()) | overrides
    names = ("patch_size", "merge_size", "temporal_patch_size", "size", "image_mean", "image_std")
    return Qwen2VLImageProcessorPil(**{name: card[name] for name in names})


def pillows(image: Picture) -> Image.Image:
    return Image.frombytes("RGB", (image.width, image.height), image.rgb)


@pytest.mark.spec("ENG-175")
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("mean", [[0.5, 0.5, 0.5], [0.48145466, 0.4578275, 0.40821073]], ids=["even", "clip"])
def test_patches_and_grid_equal_the_references(checkpoint: Path, size: tuple[int, int], mean: list[float]) -> None:
    vision = read_vision(checkpoint)
    assert vision is not None
    overrides = {"image_mean": mean, "image_std": [0.5, 0.25, 0.3]}
    names = VisionConfig.__dataclass_fields__
    given = {name: getattr(vision, name) for name in names} | {name: tuple(overrides[name]) for name in overrides}
    cutter, image = Cutter(VisionConfig(**given)), picture(*size)
    expected = processor_of(checkpoint, **overrides)(images=[pillows(image)], return_tensors="pt")
    patches = cutter.cut(image)
    assert expected["image_grid_thw"].tolist() == [[1, 2 * patches.down, 2 * patches.across]]
    assert torch.equal(patches.pixels, expected["pixel_values"])


@pytest.mark.spec("ENG-175")
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_fast_processors_resize_is_within_two_levels(cutter: Cutter, size: tuple[int, int]) -> None:
    """torchvision resizes bytes on the CPU by this call."""
    width, height = (32 * merged for merged in grid(*size, cutter.geometry))
    image = pillows(picture(*size))
    ours = image.resize((width, height), Image.Resampling.BICUBIC)
    [levels] = torch.nn.functional.interpolate(
        pil_to_tensor(image)[None], size=(height, width), mode="bicubic", antialias=True
    )
    assert (levels.int() - pil_to_tensor(ours).int()).abs().max() <= 2


def pil_to_tensor(image: Image.Image) -> torch.Tensor:
    """Bytes (channels, height, width)."""
    return (
        torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(image.height, image.width, 3).movedim(2, 0)
    )


@pytest.mark.spec("ENG-175", "ENG-098")
@pytest.mark.parametrize("bounds", [(65_536, 16_777_216), (4096, 262_144), (3136, 1_003_520)])
def test_the_resize_rule_is_the_references(bounds: tuple[int, int]) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    low, high = bounds
    geometry = Geometry(min_pixels=low, max_pixels=high)
    draw = torch.Generator().manual_seed(0)
    for scale in (40, 400, 9000):
        for width, height in (1 + torch.randint(scale, (400, 2), generator=draw)).tolist():
            if max(width, height) <= 200 * min(width, height):
                across, down = grid(width, height, geometry)
                assert (32 * down, 32 * across) == smart_resize(height, width, 32, low, high), (width, height)
    assert grid(640, 480, Geometry()) == (20, 15), "300 rows"


@pytest.mark.spec("ENG-102")
def test_patches_wait_in_the_towers_type(config: VisionConfig) -> None:
    image = picture(100, 80)
    narrow, wide = Cutter(config, torch.bfloat16).cut(image), Cutter(config).cut(image)
    assert torch.equal(narrow.pixels, wide.pixels.to(torch.bfloat16))
    assert narrow.pixels.nbytes == 12 * 1024 * narrow.rows


@pytest.mark.spec("ENG-100", "ENG-101")
def test_the_digest_tells_pixels_and_nothing_else(cutter: Cutter) -> None:
    one, other = picture(100, 80), picture(100, 80, seed=1)
    assert cutter.cut(one).digest == cutter.cut(Picture(100, 80, one.rgb)).digest != cutter.cut(other).digest
    plain = [cutter.cut(Picture(width, height, bytes(3 * width * height))) for width, height in ((64, 128), (128, 64))]
    assert plain[0].digest != plain[1].digest, "the same bytes in another form"


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (CARD, {"do_normalize": False}, "do_normalize"),
        (CARD, {"resample": 2}, "resample"),
        (CARD, {"merge_size": 3}, "spatial_merge_size of the tower is 2"),
        (CARD, {"size": {"shortest_edge": 5000, "longest_edge": 4000}}, "max_pixels"),
        (CARD, {"image_mean": [0.5]}, "one number a channel"),
        (CARD, {"patch_size": None}, "vision_config or"),
        ("config.json", {"deepstack_visual_indexes": [1]}, "deepstack_visual_indexes"),
        ("config.json", {"model_type": "other"}, "vision tower other is not served"),
        ("config.json", {"num_position_embeddings": 60}, "no square"),
        ("config.json", {"out_hidden_size": 32}, "not the decoder's 64"),
        ("config.json", {"num_heads": 5}, "no multiple"),
        ("config.json", {"depth": 0}, "depth of the tower is 0"),
    ],
)
def test_what_is_not_served_is_named(
    checkpoint: Path, tmp_path: Path, file: str, change: dict[str, Any], message: str
) -> None:
    for name in ("config.json", CARD):
        raw = json.loads((checkpoint / name).read_text())
        if name == file:
            (raw if name == CARD else raw["vision_config"]).update(change)
        (tmp_path / name).write_text(json.dumps(raw))
    with pytest.raises(CheckpointError, match=message):
        read_vision(tmp_path)


@pytest.mark.spec("ENG-175")
def test_bounds_may_have_their_old_names_or_none(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((checkpoint / "config.json").read_text())
    card = json.loads((checkpoint / CARD).read_text())
    del card["size"]
    for given, bounds in (({}, (3136, 1_003_520)), ({"min_pixels": 4096, "max_pixels": 8192}, (4096, 8192))):
        (tmp_path / CARD).write_text(json.dumps(card | given))
        vision = read_vision(tmp_path)
        assert vision is not None
        assert (vision.min_pixels, vision.max_pixels) == bounds
    (tmp_path / CARD).unlink()
    assert read_vision(tmp_path) is None
