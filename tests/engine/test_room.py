"""What a start reserves beside the weights, and what a refusal says of it (ENG-031)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tandem.engine.caches.settings import NO_CACHES, CacheSettings
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.errors import CheckpointError
from tandem.engine.load import load_engine
from tandem.engine.memory import GIB
from tandem.engine.models.placement import CPU, CUDA
from tandem.engine.models.recurrent import Recurrent
from tandem.engine.room import Budgets, Need, cache_needs, fitted, needs, require_room
from tandem.engine.tiny.kinds import make_tiny
from tests.engine.decoding.engines import read

SMALL = Budgets(anchors=GIB, encode=6 * GIB, images=GIB, margin=0)


def figures(path: Path, *, vision: bool = True, window: int = 64, budgets: Budgets = SMALL) -> dict[str, int]:
    checkpoint = open_checkpoint(path, vision=vision)
    asked = needs(checkpoint.weights.stored(), checkpoint.config, "fp32", window, budgets)
    return {each.setting: each.nbytes for each in asked}


@pytest.mark.spec("ENG-031", "ENG-108")
def test_anchors_are_reserved_for_recurrent_layers_alone(tmp_path: Path) -> None:
    hybrid, llama = (make_tiny(kind, tmp_path / kind) for kind in ("qwen3_5", "llama"))
    one = Recurrent.bytes_for(open_checkpoint(hybrid).config)
    assert figures(hybrid)["--resident-gb"] == 64 * one, "a small window has room for fewer than the budget"
    assert figures(hybrid, budgets=Budgets(anchors=5 * one, margin=0))["--resident-gb"] == 5 * one
    assert sorted(figures(llama)) == ["--cpu-weights", "--max-len"]
    assert sorted(figures(llama, budgets=Budgets(margin=7))) == ["--cpu-weights", "--load-margin-gib", "--max-len"]


@pytest.mark.spec("ENG-108")
def test_anchors_have_more_where_the_memory_is_the_models_own() -> None:
    assert (Budgets().anchors_on(CPU), Budgets().anchors_on(CUDA)) == (GIB, 4 * GIB)
    assert Budgets(anchors=0).anchors_on(CUDA) == 0


@pytest.mark.spec("ENG-031", "ENG-102")
def test_a_tower_reserves_its_largest_encode_and_its_cache(tmp_path: Path) -> None:
    path = make_tiny("qwen3_5-vision", tmp_path / "tiny")
    engine = load_engine(path, cpu_weights="fp32", max_len=1024, budgets=Budgets(margin=0))
    geometry = engine.card.geometry
    assert geometry is not None
    seen = figures(path, window=1024)
    assert seen["--image-act-gb"] == geometry.most_rows * geometry.row_bytes
    assert seen["--image-cache-mb"] == GIB
    assert figures(path, window=64)["--image-act-gb"] == 64 * geometry.row_bytes, "no larger one fits the window"
    assert figures(path, window=1024, budgets=Budgets(encode=1000))["--image-act-gb"] == 1000
    assert not {"--image-act-gb", "--image-cache-mb"} & figures(path, vision=False).keys()


@pytest.mark.spec("ENG-031")
def test_a_refusal_names_every_figure_and_what_lowers_it() -> None:
    asked = [Need("weights", 2 * GIB, "--cpu-weights"), Need("a window", GIB, "--max-len"), Need("a margin", 1, "-m")]
    require_room("tiny", asked, None)
    require_room("tiny", asked, 3 * GIB + 1)
    with pytest.raises(CheckpointError) as refusal:
        require_room("tiny", asked, 3 * GIB)
    assert str(refusal.value) == (
        "tiny does not fit: weights of 2.00 GiB (--cpu-weights), a window of 1.00 GiB (--max-len) "
        "and a margin of 0.00 GiB (-m) are more than the 3.00 GiB available"
    )


@pytest.mark.spec("ENG-031", "ENG-132")
def test_budgets_that_somebody_has_set_are_counted_and_the_others_share_what_is_left() -> None:
    asked = CacheSettings(stash=0, park=3 * GIB)
    assert cache_needs(asked) == [Need("a parked conversation", 3 * GIB, "--park-gb")]
    assert cache_needs(CacheSettings()) == cache_needs(NO_CACHES) == []
    assert fitted(asked, None, device=False) == fitted(asked, GIB, device=False) == asked.on(device=False)
    assert fitted(asked, 1000, device=False) == replace(asked, store=1000), "the only one that nobody has set"
    assert fitted(asked, -5, device=True) == replace(asked, store=0)
    half = fitted(CacheSettings(), CacheSettings().on(device=True).total // 2, device=True)
    assert (half.stash, half.park, half.store) == (GIB, 2 * GIB, 4 * GIB)
    assert fitted(NO_CACHES, 0, device=True) == NO_CACHES


@pytest.mark.spec("ENG-031", "ENG-124")
def test_a_load_refuses_a_cache_for_which_there_is_no_room(tmp_path: Path) -> None:
    path = make_tiny("llama", tmp_path / "tiny")
    with pytest.raises(CheckpointError, match=r"conversations that are kept of 1048576.00 GiB \(--cache-budget-gb\)"):
        load_engine(path, caches=CacheSettings(store=1 << 50))


@pytest.mark.spec("ENG-124")
def test_anchors_that_a_model_has_not_are_in_no_sum(tmp_path: Path) -> None:
    hybrid, llama = (open_checkpoint(make_tiny(kind, tmp_path / kind)).config for kind in ("qwen3_5", "llama"))
    assert Budgets().anchors_of(llama, CPU, 64) == 0
    assert Budgets().anchors_of(hybrid, CPU, 64) == 64 * Recurrent.bytes_for(hybrid)
    ceilings = list[int]()
    for anchors in (0, 8 * GIB):
        engine = load_engine(tmp_path / "llama", budgets=Budgets(anchors=anchors, margin=0), caches=CacheSettings())
        ceilings.append(engine.memory().ceiling or 0)
    assert abs(ceilings[1] - ceilings[0]) < GIB


@pytest.mark.spec("ENG-108", "ENG-110")
def test_anchors_and_the_end_anchor_are_settings(tmp_path: Path) -> None:
    path = make_tiny("qwen3_5", tmp_path / "tiny")
    for end_anchor, anchors, resumed in ((True, GIB, 47), (False, GIB, 32), (False, 0, 0)):
        engine = load_engine(path, grid=16, budgets=Budgets(anchors=anchors), end_anchor=end_anchor)
        engine.close(read(engine, range(47)))
        assert read(engine, range(48)).resumed == resumed
