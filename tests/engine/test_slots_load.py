"""Side slots at a start: what one takes is known before it is built, and it is built only where the floor holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tandem.engine.caches.resident import SPARED
from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.choice import DrafterKind, Drafting
from tandem.engine.load import load_engine
from tandem.engine.models.kv import KVCache
from tandem.engine.models.placement import CPU
from tandem.engine.models.recurrent import Recurrent
from tandem.engine.models.state import State
from tandem.engine.slots import Sides, add_sides, side_bytes
from tests.engine.decoding.engines import read, rounds, tiny, tiny_engine
from tests.engine.models.hybrid import tiny_hybrid
from tests.engine.models.memory import tiny_llama
from tests.tiny import build_llama

WINDOW = 64


def built(room: int | None, floor: int, count: int = 2) -> tuple[TorchEngine, dict[str, object]]:
    """Up to `count` sides of a tiny engine, each of which takes what it is said to."""
    model = tiny().model
    engine = tiny_engine(model=model)
    need = side_bytes(model.config, WINDOW, CPU, drafts=False)

    def left() -> int | None:
        return None if room is None else room - need * (len(engine.slots) - 1)

    return engine, dict(add_sides(engine, model, CPU, Drafting(), Sides(count, WINDOW, floor), left))


@pytest.mark.spec("ENG-161", "SCH-055")
def test_a_side_slot_is_built_only_where_the_floor_still_holds() -> None:
    need = side_bytes(tiny_llama().model.config, WINDOW, CPU, drafts=False)
    engine, told = built(2 * need + 10, 10)
    assert told == {"slots": 3}
    assert [slot.card.max_len for slot in engine.slots] == [256, WINDOW, WINDOW]
    engine, told = built(2 * need + 9, 10)
    assert told == {"slots": 2, "slots_refused": [{"slot": 2, "need": need, "available": need + 9, "floor": 10}]}
    assert len(engine.slots) == 2
    assert built(0, 10, count=3)[1]["slots"] == 1
    assert built(None, 10)[1] == {"slots": 3}, "where the system does not say"


@pytest.mark.spec("ENG-161")
@pytest.mark.parametrize("make", [lambda: tiny_llama().model.config, lambda: tiny_hybrid().model.config])
def test_the_bytes_of_one_are_its_rows_its_memory_and_what_drafts(make: Callable[[], ModelConfig]) -> None:
    config = make()
    own = State.bytes_for(config, WINDOW) + SPARED * Recurrent.bytes_for(config)
    rows = KVCache.bytes_for(1, config.num_key_value_heads, WINDOW, config.head_dim)
    assert side_bytes(config, WINDOW, CPU, drafts=False) == own
    assert side_bytes(config, WINDOW, CPU, drafts=True) == own + rows


@pytest.mark.spec("ENG-161", "ENG-160")
@pytest.mark.parametrize("drafter", ["none", "lookup"])
def test_a_start_with_slots_says_how_many_there_are(tmp_path: Path, drafter: DrafterKind) -> None:
    path = build_llama(tmp_path / "tiny", tied=False)
    engine = load_engine(path, parallel=2, side_max_len=WINDOW, floor=0, drafter=drafter)
    assert engine.card.weights["slots"] == 2
    assert [slot.card.max_len for slot in engine.slots] == [512, WINDOW]
    ids = engine.text.encode("the quick brown fox")
    first, second = (rounds(slot, read(slot, ids), 4) for slot in engine.slots)
    assert first == second
    assert load_engine(path, parallel=2, floor=1 << 50).card.weights["slots"] == 1


@pytest.mark.spec("ENG-165")
def test_a_start_with_one_slot_says_nothing_of_slots(tmp_path: Path) -> None:
    engine = load_engine(build_llama(tmp_path / "tiny", tied=False), floor=0)
    assert engine.slots == (engine,)
    assert not [key for key in (*engine.card.weights, *engine.state()) if "slot" in key or "joint" in key]
