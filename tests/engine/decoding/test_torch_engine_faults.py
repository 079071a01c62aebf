"""Faults inside a verb end one request and leave the engine exact (ENG-043)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Ask, Force, Prefill, Round, Work, perform
from tandem.engine.errors import EngineError, NumericalError
from tandem.engine.models.kv import KVRows
from tandem.engine.text.prompt import Prompt
from tests.engine.decoding.engines import (
    GREEDY,
    PROMPT,
    read,
    rounds,
    same,
    tiny,
    tiny_engine,
    trace,
)
from tests.engine.models.memory import VOCAB

pytestmark = pytest.mark.usefixtures("kind")


def do(engine: TorchEngine, seq: TorchSequence, work: Work) -> None:
    """Often enough that a prefill gets to its end."""
    for _ in range(3):
        perform(engine, seq, work, GREEDY)


FAULTS: dict[str, Exception] = {
    "allocation": RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory\nstack"),
    "python memory": MemoryError(),
    "index": IndexError("index out of range in self"),
}


@pytest.mark.spec("ENG-043")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("verb", ["prefill", "round", "force", "ask"])
def test_a_fault_ends_one_request_and_the_next_is_exact(verb: str, fault: Exception) -> None:
    model = tiny().model
    clean = tiny_engine(model=model)
    wanted, wanted_rows = trace(clean, read(clean, PROMPT))
    engine = tiny_engine(model=model)
    seq = read(engine, PROMPT) if verb != "prefill" else engine.open(Prompt.of_client(PROMPT))
    if verb == "round":
        rounds(engine, seq, 2)
    logits = model._head

    def broken(hidden: Tensor) -> Tensor:
        # What a fault half-way leaves behind: rows written, no result.
        engine._state.kv.keys[:, :, seq.length :] = torch.nan
        raise fault

    model._head = broken  # type: ignore[assignment]
    work: dict[str, Work] = {
        "prefill": Prefill(75),
        "round": Round(1),
        "force": Force((1, 2), True),
        "ask": Ask((1, 2), (3, 4)),
    }
    with pytest.raises(EngineError) as caught:
        do(engine, seq, work[verb])
    assert type(fault).__name__ in str(caught.value)
    assert "stack" not in str(caught.value)
    model._head = logits
    engine.close(seq)
    again = read(engine, PROMPT)
    assert again.resumed == 64, "rows below those that the fault may have touched are as they were"
    ids, rows = trace(engine, again)
    assert ids == wanted
    assert same(rows, wanted_rows)
    assert engine.state()["errors"] == 1


@pytest.mark.spec("ENG-043", "ENG-076")
def test_a_row_of_nan_ends_the_request_with_its_position() -> None:
    model = tiny().model
    engine = tiny_engine(model=model)
    seq = read(engine, PROMPT)
    rounds(engine, seq, 4)
    head = model._head
    model._head = lambda hidden: torch.full((len(hidden), VOCAB), torch.nan)  # type: ignore[assignment]
    with pytest.raises(NumericalError) as caught:
        rounds(engine, seq, 1)
    assert caught.value.position == 75 + 4 - 1
    model._head = head
    engine.close(seq)
    again = read(engine, PROMPT)
    assert again.resumed == 0, "nobody knows which row the NaN came from"
    rounds(engine, again, 4)


@pytest.mark.spec("ENG-043")
def test_a_restore_that_breaks_off_leaves_nothing_to_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    point = engine.snapshot(seq)

    def broken(rows: KVRows) -> None:
        raise MemoryError

    monkeypatch.setattr(engine._state.kv, "load", broken)
    with pytest.raises(EngineError, match="restore failed"):
        engine.restore(seq, point)
    engine.close(seq)
    assert read(engine, PROMPT).resumed == 0


def test_unknown_ids_are_an_engine_error() -> None:
    engine = tiny_engine()
    with pytest.raises(EngineError, match="prefill failed"):
        read(engine, [1, VOCAB])
