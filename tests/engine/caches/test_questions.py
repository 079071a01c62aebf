"""What a question about a prompt leaves on the disk: the prompt's own rows, and nothing of the question (RTR-021)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.engine.decoding.asking import ask_in_prompt
from tandem.engine.text.prompt import Prompt, Span
from tests.engine.caches.wired import ALL, flush, on_disk, served, turn
from tests.engine.decoding.engines import GRID, ids_of

pytestmark = pytest.mark.usefixtures("kind")

TURN = ids_of(2 * GRID + 20)
PARTING = 2 * GRID + 10
QUESTION = ids_of(GRID + 5, seed=9)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.name != "lock")


@pytest.mark.spec("RTR-021", "ENG-042")
def test_a_question_writes_no_end_and_no_line_of_its_own(tmp_path: Path) -> None:
    one, other = tmp_path / "asked", tmp_path / "plain"
    with served(on_disk(one)) as engine:
        ask_in_prompt(engine, Prompt.of_client(TURN), PARTING, QUESTION, (3, 5))
        flush(engine)
        asked = names(one)
        turn(engine, TURN)
        flush(engine)
    with served(on_disk(other)) as engine:
        turn(engine, TURN)
        flush(engine)
    assert asked, "the prompt's rows up to the parting point are kept as they would be"
    assert all(name.split("-")[1].lstrip("0") in (str(GRID), str(2 * GRID)) for name in asked)
    assert names(one) == names(other), "afterwards there is what there is without the question"


@pytest.mark.spec("RTR-010", "RTR-021")
def test_a_question_alone_leaves_nothing_behind() -> None:
    alone = Prompt((*QUESTION,), (Span("question", 0, len(QUESTION)),), len(QUESTION))
    with served(ALL) as engine:
        side = engine.add_side(128)
        for slot in (side, engine):
            seq = slot.open(alone)
            while slot.prefill(seq, len(alone.ids)).done < len(alone.ids):
                pass
            assert len(slot.ask(seq, (), (3, 5))) == 2
            slot.close(seq)
            assert slot.state()["state_store_entries"] == 0
        assert engine.resident()[1] == 0


@pytest.mark.spec("RTR-020")
def test_on_a_side_slot_the_turn_goes_on_behind_its_question_too() -> None:
    with served(ALL) as engine:
        side = engine.add_side(128)
        ask_in_prompt(side, Prompt.of_client(TURN), PARTING, QUESTION, (3, 5))
        after = turn(side, TURN)
        assert after.resumed == 2 * GRID
        assert after.is_cold_run(TURN)
