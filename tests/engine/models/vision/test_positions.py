"""Where rows stand, against the reference's `get_rope_index` (ENG-099)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tandem.engine.models.vision import row_positions
from tandem.engine.models.vision.preprocess import Cutter
from tests.engine.models.vision.seeing import picture, positions_of, prompt_of

LAYOUTS: dict[str, tuple[int | tuple[int, int], ...]] = {
    "text": (9,),
    "image": ((64, 64),),
    "text before": (7, (130, 64)),
    "text after": ((64, 260), 5),
    "between": (3, (96, 160), 4, (320, 64), 6),
    "three, and text of one row": (1, (64, 64), 1, (64, 64), 1, (200, 300), 40),
}


@pytest.mark.spec("ENG-099")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_positions_equal_the_references(cutter: Cutter, oracle: Any, layout: tuple[int | tuple[int, int], ...]) -> None:
    prompt = prompt_of(399, *(part if isinstance(part, int) else cutter.cut(picture(*part)) for part in layout))
    rows = len(prompt.ids)
    expected, offset = positions_of(oracle, prompt, cutter)
    positions = row_positions(prompt.images, 0, rows)
    assert torch.equal(positions, expected)
    assert int(positions.max()) + 1 - rows == offset
    for step in (1, 7, 32):
        parts = [row_positions(prompt.images, at, min(at + step, rows)) for at in range(0, rows, step)]
        assert torch.equal(torch.cat(parts, dim=1), expected)
    assert torch.equal(
        row_positions(prompt.images, rows, rows + 3), (torch.arange(rows, rows + 3) + offset).repeat(3, 1)
    )
