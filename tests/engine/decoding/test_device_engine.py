"""An engine over the device model, whose passes write the same buffers again and again: what it promises holds there.

The CPU's engine over the same weights says what the ids are. Where a value is kept, it is compared with a run that
keeps none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import torch

from tandem.engine.drafting.tree import chain
from tandem.engine.errors import EngineError
from tandem.engine.models.placement import CPU, CUDA, Placement
from tandem.engine.models.qwen3_5 import DeviceQwen35
from tandem.engine.text.prompt import Prompt
from tests.engine.decoding.drafters import Scripted, half_right, random_trees
from tests.engine.decoding.engines import (
    GREEDY,
    GRID,
    KIND,
    PROMPT,
    ids_of,
    kept_row,
    read,
    rounds,
    same,
    state_of,
    tiny_engine,
    trace,
)
from tests.engine.decoding.slotted import Asked, together
from tests.engine.kernels.running import absence
from tests.engine.models.device import device_model, replayed
from tests.engine.models.hybrid import TinyHybrid, tiny_hybrid

LENGTH = 20


@pytest.fixture(autouse=True, scope="module")
def hybrid() -> Iterator[None]:
    token = KIND.set("qwen3_5")
    yield
    KIND.reset(token)


@pytest.fixture(autouse=True, params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def placement(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Placement:
    """Where the model is; on the CPU something like graphs stands in for those of CUDA."""
    if request.param == "cuda":
        if reason := absence("cuda"):
            pytest.skip(reason)
        return CUDA
    monkeypatch.setattr("tandem.engine.models.device_passes.capture", replayed)
    return CPU


@cache
def made() -> TinyHybrid:
    return tiny_hybrid()


@cache
def written(placement: Placement) -> list[int]:
    """What the CPU's own engine writes; for the types of CUDA what an engine writes that makes new values always."""
    plain = made().model if placement == CPU else device_model(made().config, made().tensors, placement, static=False)
    engine = tiny_engine(model=plain)
    return rounds(engine, read(engine, PROMPT), LENGTH)


@pytest.fixture
def text(placement: Placement) -> list[int]:
    return written(placement)


@pytest.fixture
def model(placement: Placement) -> DeviceQwen35:
    return device_model(made().config, made().tensors, placement)


@pytest.mark.spec("ENG-029")
def test_it_writes_what_an_engine_without_graphs_writes(model: DeviceQwen35, text: list[int]) -> None:
    ours = tiny_engine(model=model)
    assert rounds(ours, read(ours, PROMPT), LENGTH) == text
    assert model.kernels["step pass"] == "graph"


@pytest.mark.spec("ENG-057", "ENG-058")
@pytest.mark.parametrize("proposes", [half_right, random_trees])
def test_drafts_make_fewer_rounds_of_the_same_text(
    model: DeviceQwen35, placement: Placement, text: list[int], proposes: object
) -> None:
    if placement == CUDA:
        pytest.skip("a tree's rows are of the text class: in bf16 a near tie may fall the other way")
    ours = tiny_engine(model=model, drafter=Scripted(proposes(text, len(PROMPT))))  # type: ignore[operator]
    seq = read(ours, PROMPT)
    written: list[int] = []
    while len(written) < LENGTH:
        [rows] = ours.verify([(seq, ours.draft(seq, min(8, LENGTH - len(written))))])
        written += ours.accept(seq, rows, GREEDY).ids
    assert written == text
    assert ours.state()["rounds"] < LENGTH
    ours.close(seq)


@pytest.mark.spec("ENG-107")
def test_a_next_turn_resumes_at_a_line_and_at_the_end_bit_for_bit(model: DeviceQwen35, text: list[int]) -> None:
    ours, cold = tiny_engine(model=model), tiny_engine(model=model, resident=False)
    seq = read(ours, PROMPT)
    rounds(ours, seq, 5)
    ours.close(seq)
    diverged = [*PROMPT[: GRID + 3], *ids_of(20, 3)]
    seq, fresh = read(ours, diverged), read(cold, diverged)
    assert seq.resumed == GRID
    assert torch.equal(state_of(ours, seq), state_of(cold, fresh))
    assert trace(ours, seq)[0] == trace(cold, fresh)[0]
    ours.close(seq)
    following = [*diverged, *seq.history.ids[len(diverged) :], 5]
    assert read(ours, following).resumed > len(diverged)


def test_a_question_and_a_snapshot_leave_the_text_as_it_was(model: DeviceQwen35, text: list[int]) -> None:
    ours = tiny_engine(model=model)
    seq = read(ours, PROMPT)
    rounds(ours, seq, 4)
    kept, shares = ours.snapshot(seq), ours.ask(seq, ids_of(3, 5), (1, 2, 3))
    assert sum(shares) == pytest.approx(1)
    assert rounds(ours, seq, LENGTH - 4) == text[4:]
    for _ in range(2):
        ours.restore(seq, kept)
        assert ours.ask(seq, ids_of(3, 5), (1, 2, 3)) == shares
        assert rounds(ours, seq, LENGTH - 4) == text[4:]


@pytest.mark.spec("ENG-043")
def test_a_pass_that_fails_leaves_the_sequence_where_it_stood(
    model: DeviceQwen35, text: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tiny_engine(model=model)
    seq = read(ours, PROMPT)
    rounds(ours, seq, 3)
    before = state_of(ours, seq)

    def broken(model: DeviceQwen35, hidden: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(DeviceQwen35, "logits", broken)
        with pytest.raises(EngineError, match="no memory"):
            ours.force(seq, ids_of(3, 6))
    assert torch.equal(state_of(ours, seq), before)
    assert rounds(ours, seq, LENGTH - 3) == text[3:]


@pytest.mark.spec("ENG-134")
def test_a_guest_between_verify_and_commit_changes_nothing(model: DeviceQwen35, text: list[int]) -> None:
    """Its verifies write the very buffers in which the holder's records lie."""
    found = []
    for guests in (0, 1):
        ours = tiny_engine(model=model)
        seq = read(ours, PROMPT)
        rounds(ours, seq, 1)
        [rows] = ours.verify([(seq, chain([*text[1:3], 7]))])
        assert len(ours.accept(seq, rows, GREEDY).ids) == 3
        for _ in range(guests):
            loan = ours.borrow(seq, 140)
            guest = ours.open(Prompt.of_client(ids_of(40, 9)))
            ours.prefill(guest, 40)
            ours.prefill(guest, 40)
            [rows] = ours.verify([(guest, chain([1, 2, 3]))])
            ours.accept(guest, rows, GREEDY)
            ours.close(guest)
            ours.give_back(loan)
        found.append([kept_row(ours, seq)])
        assert rounds(ours, seq, LENGTH - 4) == text[4:]
    assert same(*found)


def written_rows(before: torch.Tensor, after: torch.Tensor) -> list[int]:
    """Rows of a cache that differ."""
    return (before != after).any(-1).any(1).any(0).nonzero()[:, 0].tolist()


@pytest.mark.spec("ENG-109")
def test_the_caches_are_told_of_every_row_that_a_pass_fills(
    model: DeviceQwen35, text: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five rows are a pass of eight: the three behind them are written too, over what a guest may lie on."""
    engine, told = tiny_engine(model=model), list[tuple[int, int]]()
    seq = read(engine, PROMPT)
    monkeypatch.setattr(engine._hoard, "writing", lambda start, end: told.append((start, end)))
    before = engine._state.kv._rows.clone()
    engine.verify([(seq, chain(text[:5]))])
    rows = written_rows(before, engine._state.kv._rows)
    [(start, end)] = told
    assert start == rows[0] == len(PROMPT)
    assert rows[-1] < end


@pytest.mark.spec("ENG-134", "ENG-135")
def test_a_pass_fills_no_row_behind_those_that_are_lent(model: DeviceQwen35, text: list[int]) -> None:
    engine = tiny_engine(model=model)
    seq = read(engine, PROMPT)
    before = engine._state.kv._rows.clone()
    loan = engine.borrow(seq, 46)
    guest = read(engine, PROMPT[:40])
    engine.verify([(guest, chain(text[:5]))])
    engine.close(guest)
    engine.give_back(loan)
    assert written_rows(before, engine._state.kv._rows) == []


@pytest.mark.spec("ENG-160", "ENG-162", "SCH-056")
@pytest.mark.parametrize("drafted", [False, True])
def test_slots_without_a_joint_pass_are_verified_one_after_the_other(
    model: DeviceQwen35, text: list[int], drafted: bool
) -> None:
    def drafter() -> Scripted | None:
        return Scripted(half_right(text, len(PROMPT))) if drafted else None

    engine = tiny_engine(model=model, drafter=drafter())
    engine.add_side(200, drafter())
    for _ in range(2):
        requests = [Asked(PROMPT, count=LENGTH), Asked(PROMPT, count=LENGTH)]
        together(engine, requests)
        assert [asked.written[:LENGTH] for asked in requests] == [text, text]
        assert {each.together for each in requests[0].rounds} == {1}
        # Graphs of a slot hold the addresses of its buffers, and are made anew with them.
        for slot in engine.slots:
            slot.rebuild()
    assert engine.state()["joint_passes"] == 0
