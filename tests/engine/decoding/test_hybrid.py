"""What is different where a model has recurrent layers: anchors cost memory, and nothing resumes without one.

All that holds for every model is in the modules with the fixture `kind`, which run on a tiny Qwen3.5 as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.errors import EngineError
from tandem.engine.models.matrix import DenseMatrix
from tandem.engine.models.qwen3_5 import Qwen35Model
from tandem.engine.verbs import EMPTY_TREE
from tests.engine.decoding.engines import (
    GRID,
    KIND,
    PROMPT,
    ids_of,
    kept_row,
    read,
    rounds,
    same,
    state_of,
    tiny,
    tiny_engine,
    trace,
)
from tests.engine.models.memory import VOCAB

LONG = ids_of(7 * GRID + 9, 4)


@pytest.fixture(autouse=True, scope="module")
def hybrid() -> Iterator[None]:
    token = KIND.set("qwen3_5")
    yield
    KIND.reset(token)


def limited(anchors: int) -> TorchEngine:
    """An engine that has memory for so many anchors."""
    engine = tiny_engine()
    return tiny_engine(anchor_bytes=anchors * engine.cost()["bytes_per_anchor"])


def turn(engine: TorchEngine, ids: list[int], count: int = 3) -> tuple[int, list[int]]:
    seq = read(engine, ids)
    written = rounds(engine, seq, count)
    engine.close(seq)
    return seq.resumed, written


@pytest.mark.spec("ENG-133")
def test_an_anchor_and_a_snapshot_cost_the_recurrent_part() -> None:
    engine = tiny_engine()
    anchor = 3 * 4 * (4 * 16 * 16 + 3 * 128)
    assert engine.cost() == {
        "bytes_per_anchor": anchor,
        "bytes_per_snapshot": anchor + VOCAB * 4,
        "bytes_per_token": 2 * 2 * 32 * 4,
    }


@pytest.mark.spec("ENG-107", "ENG-073")
def test_at_every_line_it_resumes_bit_for_bit() -> None:
    for line in range(GRID, len(LONG), GRID):
        engine, cold = tiny_engine(), tiny_engine(resident=False)
        turn(engine, LONG)
        other = [*LONG[: line + 5], (LONG[line + 5] + 1) % VOCAB, *ids_of(12, 2)]
        seq, fresh = read(engine, other), read(cold, other)
        assert seq.resumed == line
        assert torch.equal(state_of(engine, seq), state_of(cold, fresh))
        assert same([kept_row(engine, seq)], [kept_row(cold, fresh)])
        assert trace(engine, seq)[0] == trace(cold, fresh)[0]


@pytest.mark.spec("ENG-108")
def test_anchors_stay_within_their_bytes_and_the_newest_four_are_spared() -> None:
    engine = limited(6)
    _, written = turn(engine, LONG)
    assert engine.state()["resident_anchors"] == 6
    assert engine.state()["resident_bytes"] == (
        (len(LONG) + 2) * engine.cost()["bytes_per_token"] + 6 * engine.cost()["bytes_per_anchor"]
    )
    assert turn(engine, [*LONG, *written])[0] == len(LONG) + 2, "the end"
    for line in (7, 6, 5):
        engine = limited(6)
        turn(engine, LONG)
        other = [*LONG[: line * GRID + 1], *ids_of(3)]
        assert turn(engine, other) == (line * GRID, turn(tiny_engine(resident=False), other)[1])


@pytest.mark.spec("ENG-108")
@pytest.mark.parametrize(("anchors", "row"), [(0, 0), (1, 0), (2, 7 * GRID)])
def test_few_anchors_or_none_are_enough(anchors: int, row: int) -> None:
    engine = limited(anchors)
    turn(engine, LONG)
    assert engine.state()["resident_anchors"] == anchors
    other = [*LONG[:-1], *ids_of(3)]
    assert turn(engine, other) == (row, turn(tiny_engine(resident=False), other)[1])


@pytest.mark.spec("ENG-110", "ENG-107")
def test_one_id_less_than_the_end_is_read_from_the_line_below() -> None:
    engine = tiny_engine()
    _, written = turn(engine, PROMPT, 8)
    for cut, row in ((0, 75 + 7), (1, 64)):
        engine = tiny_engine()
        turn(engine, PROMPT, 8)
        ids = [*PROMPT, *written[: 7 - cut], (written[7 - cut] + 1) % VOCAB, 5]
        resumed, again = turn(engine, ids, 8)
        assert (resumed, again) == (row, turn(tiny_engine(resident=False), ids, 8)[1])


def test_a_sequence_that_ended_leaves_no_memory_but_its_anchors() -> None:
    engine = tiny_engine(resident=False)
    seq = read(engine, PROMPT)
    assert seq.anchors.all == ()
    engine.close(seq)
    assert engine._state.keep() is engine._state.empty
    assert engine.state()["resident_bytes"] == 0


@pytest.mark.spec("ENG-123")
def test_clear_gives_back_the_anchors() -> None:
    engine = tiny_engine()
    turn(engine, PROMPT)
    cost = engine.cost()
    assert engine.clear() == {"resident": 77 * cost["bytes_per_token"] + 3 * cost["bytes_per_anchor"]}
    assert read(engine, PROMPT).resumed == 0


class Broken(DenseMatrix):
    """A matrix whose product fails."""

    def __call__(self, x: Tensor) -> Tensor:
        raise RuntimeError("no memory")


@pytest.mark.spec("ENG-043")
@pytest.mark.parametrize("layer", range(4))
@pytest.mark.parametrize("verb", ["force", "ask", "verify"])
def test_a_fault_in_any_layer_leaves_the_sequence_where_it_stood(
    layer: int, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny().model
    assert isinstance(model, Qwen35Model)
    engine, plain = tiny_engine(model=model), tiny_engine(model=model)
    seq, other = read(engine, PROMPT), read(plain, PROMPT)
    assert rounds(engine, seq, 1) == rounds(plain, other, 1)
    verbs: dict[str, Callable[[], object]] = {
        "force": lambda: engine.force(seq, ids_of(40)),
        "ask": lambda: engine.ask(seq, ids_of(40), [1, 2]),
        "verify": lambda: engine.verify([(seq, EMPTY_TREE)]),
    }
    layers = list(model._layers)
    layers[layer] = replace(layers[layer], down=Broken(torch.zeros(1, 1)))
    with monkeypatch.context() as patch:
        patch.setattr(model, "_layers", layers)
        with pytest.raises(EngineError, match=f"{verb} failed"):
            verbs[verb]()
    (ids, rows), (wanted, wanted_rows) = trace(engine, seq), trace(plain, other)
    assert ids == wanted
    assert same(rows, wanted_rows)


@pytest.mark.spec("ENG-041", "ENG-083")
@given(st.lists(st.sampled_from(("round", "force", "ask", "keep", "back")), max_size=12), st.integers(1, 80))
@settings(max_examples=20, deadline=None)
def test_any_order_of_verbs_leaves_what_the_ids_alone_would(verbs: list[str], length: int) -> None:
    """A sequence that was asked, kept and put back holds the bits of one that only read and wrote the same ids."""
    engine, plain = tiny_engine(), tiny_engine()
    ids = ids_of(length)
    seq = read(engine, ids)
    point = engine.snapshot(seq)
    kept: list[str] = []
    steps: list[str] = []
    for verb in verbs:
        if verb == "ask":
            engine.ask(seq, [3, 1, 2], [7, 8])
        elif verb == "keep":
            point, kept = engine.snapshot(seq), list(steps)
        elif verb == "back":
            engine.restore(seq, point)
            steps = list(kept)
        else:
            step(engine, seq, verb)
            steps.append(verb)
    other = read(plain, ids)
    for verb in steps:
        step(plain, other, verb)
    assert list(seq.history.ids) == list(other.history.ids)
    assert torch.equal(state_of(engine, seq), state_of(plain, other))
    assert torch.equal(kept_row(engine, seq), kept_row(plain, other))


def step(engine: TorchEngine, seq: TorchSequence, verb: str) -> None:
    if verb == "round":
        rounds(engine, seq, 1)
    else:
        engine.force(seq, [5, 9])
