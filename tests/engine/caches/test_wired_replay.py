"""Hidden tokens of a turn, put back for the next: it resumes at the end and writes what a cold run would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.replay import finalise
from tests.engine.caches.wired import ALL, served, turn
from tests.engine.decoding.engines import PROMPT, ids_of, trace

pytestmark = pytest.mark.usefixtures("kind")

NOTE = ids_of(5, 31)
OTHER = ids_of(110, 8)
WINDOW = 256


def first_turn(engine: TorchEngine, session: str | None = "mine", dropped: int = 0) -> list[int]:
    """A turn in whose answer a note is forced unseen, and the tokens before it dropped; what its client has of it."""
    seq = engine.open(replace(Prompt.of_client(PROMPT), session=session))
    while engine.prefill(seq, len(PROMPT)).done < len(PROMPT):
        pass
    before, _ = trace(engine, seq, 3)
    engine.force(seq, NOTE, hidden=True, dropped=dropped)
    after, _ = trace(engine, seq, 3)
    engine.close(seq)
    return [*PROMPT, *before[: len(before) - dropped], *after]


def next_turn(engine: TorchEngine, ids: Sequence[int], session: str | None = "mine") -> tuple[str, bool, int]:
    """What answered the finished prompt, whether its rows are a cold run's, and how many hidden tokens it has."""
    prompt = finalise(replace(Prompt.of_client(ids), session=session), engine.written(), WINDOW)
    answer = turn(engine, prompt.ids)
    return answer.source, answer.writes_as_cold(prompt.ids), prompt.hidden_tokens


@pytest.mark.spec("ENG-111", "SCH-114")
@pytest.mark.parametrize("between", ["nothing", "a guest", "another conversation"])
def test_the_next_turn_of_the_session_goes_on_at_the_end(between: str) -> None:
    with served() as engine:
        talk = first_turn(engine)
        if between != "nothing":
            turn(engine, ids_of(20, 7) if between == "a guest" else OTHER)
        source, right, hidden = next_turn(engine, [*talk, 4, 5])
        assert source == ("parked" if between == "another conversation" else "end")
        assert right
        assert hidden == len(NOTE)


@pytest.mark.spec("ENG-111", "SCH-114", "ENG-114")
def test_a_snapshot_in_the_state_store_knows_what_is_hidden_in_it() -> None:
    with served(replace(ALL, park=0)) as engine:
        talk = first_turn(engine)
        turn(engine, OTHER)
        assert next_turn(engine, [*talk, 4, 5], "another")[2] == 0
        assert next_turn(engine, [*talk, 4, 5]) == ("store", True, len(NOTE))


@pytest.mark.spec("ENG-111", "MON-137")
def test_what_was_dropped_is_put_back_with_the_note_behind_it() -> None:
    with served() as engine:
        talk = first_turn(engine, dropped=2)
        assert next_turn(engine, [*talk, 4, 5]) == ("end", True, len(NOTE) + 2)


@pytest.mark.spec("ENG-111")
@pytest.mark.parametrize(("wrote", "asks"), [("mine", "another"), ("mine", None), (None, "mine"), (None, None)])
def test_without_the_session_that_wrote_the_rows_it_falls_back_to_the_grid(wrote: str | None, asks: str | None) -> None:
    with served() as engine:
        talk = [*first_turn(engine, wrote), 4, 5]
        assert next_turn(engine, talk, asks) == ("resident", True, 0)


@pytest.mark.spec("ENG-111")
def test_choices_that_begin_anew_are_not_put_back() -> None:
    with served() as engine:
        seq = engine.open(replace(Prompt.of_client(PROMPT), session="mine"))
        while engine.prefill(seq, len(PROMPT)).done < len(PROMPT):
            pass
        engine.restore(seq, engine.snapshot(seq))
        engine.close(seq)
        assert engine.written() == ()
