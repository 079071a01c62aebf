"""A side slot's caches: the state store that all slots have in common, and nothing else (ENG-160, SCH-052)."""

from __future__ import annotations

import pytest

from tandem.engine.caches.budget import Limits, WorkspaceEstimate
from tandem.engine.caches.caching import MemoryRefused
from tandem.engine.caches.policy import Policy
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.text.prompt import Prompt
from tests.engine.caches.test_wired_gate import Simulated
from tests.engine.caches.wired import ALL, served, turn
from tests.engine.decoding.engines import GRID, PROMPT, ids_of, read, tiny_engine

pytestmark = pytest.mark.usefixtures("kind")

OTHER = ids_of(90, 8)


@pytest.mark.spec("SCH-052", "ENG-160")
def test_a_side_slot_resumes_from_the_store_what_it_has_put_there() -> None:
    with served(ALL) as engine:
        side = engine.add_side(128)
        first = turn(side, PROMPT)
        assert first.source == ""
        assert first.is_cold_run(PROMPT)
        following = [*PROMPT, *first.ids, *ids_of(6, 9)]
        again = turn(side, following)
        assert (again.source, again.resumed) == ("store", len(PROMPT) + 3)
        assert again.writes_as_cold(following)
        # At a grid line it goes on as a cold run does.
        other = [*PROMPT[: 2 * GRID + 3], *ids_of(9, 4)]
        line = turn(side, other)
        assert (line.source, line.resumed) == ("store", 2 * GRID)
        assert line.is_cold_run(other)


@pytest.mark.spec("ENG-160", "SCH-052")
def test_what_one_slot_has_put_into_the_store_serves_the_others() -> None:
    with served(ALL) as engine:
        one, two = engine.add_side(128), engine.add_side(160)
        turn(one, PROMPT)
        assert turn(two, [*PROMPT[: 2 * GRID], *ids_of(5, 1)]).source == "store"
        assert turn(engine, [*PROMPT[: 2 * GRID], *ids_of(7, 2)]).source == "store"
        # What is resident in slot 0 is of no use to a side slot before it has lost its place there.
        turn(engine, OTHER)
        assert turn(one, [*OTHER, 5]).resumed == 0


@pytest.mark.spec("ENG-160")
def test_a_side_slot_leaves_slot_0s_conversation_where_it_is() -> None:
    with served(ALL) as engine:
        side = engine.add_side(128)
        first = turn(engine, PROMPT)
        turn(side, OTHER)
        following = [*PROMPT, *first.ids, *ids_of(6, 9)]
        assert turn(engine, following).source == "end"
        assert engine.state()["resident_guests"] == 0
        assert engine.resident()[1] == len(following)


@pytest.mark.spec("SCH-051")
def test_a_conversation_under_a_guest_is_told_and_not_the_guest() -> None:
    with served(ALL) as engine:
        written = turn(engine, PROMPT).ids
        seq = read(engine, ids_of(20, 7))
        expected = ((*PROMPT, *written[:-1]), len(PROMPT))
        assert engine.resident() == expected
        engine.close(seq)
        assert engine.resident() == expected
        turn(engine, [*PROMPT, *written, 3])
        assert engine.resident()[1] == len(PROMPT) + 5


@pytest.mark.spec("ENG-037")
def test_what_a_side_slot_has_read_of_a_prompt_stays_for_a_retry() -> None:
    with served(ALL) as engine:
        side = engine.add_side(128)
        seq = side.open(Prompt.of_client(PROMPT))
        side.prefill(seq, len(PROMPT))
        side.prefill(seq, len(PROMPT))
        side.close(seq)
        assert turn(side, PROMPT).resumed == 2 * GRID


@pytest.mark.spec("ENG-124", "SCH-074")
def test_a_side_slots_prefill_passes_the_gate_whose_limits_rise_by_its_bytes() -> None:
    memory = Simulated(1000)
    policy = Policy(WorkspaceEstimate(GRID, per_row=1), Limits(1100, 1100), memory)
    engine = _gated(policy)
    side = engine.add_side(128)
    view = engine.memory()
    assert view.ceiling == view.peak == 1100 + side._state.nbytes
    turn(side, PROMPT)
    memory.base += 100 + side._state.nbytes
    with pytest.raises(MemoryRefused):
        turn(side, OTHER)
    assert [event.kind for event in engine.memory().events][-1] == "refuse"


@pytest.mark.spec("SCH-071", "ENG-133")
def test_the_worst_case_of_a_request_is_the_workspace_of_its_prefill_or_of_a_round() -> None:
    policy = Policy(WorkspaceEstimate(GRID, per_row=100, per_pair=1, least=10))
    engine = _gated(policy)
    assert engine.worst_case(GRID, 0) == GRID * 100 + GRID * GRID
    assert engine.worst_case(4 * GRID, 10) == policy.workspace(4 * GRID + 10, 3 * GRID + 10)
    assert engine.worst_case(1, 0) == 101
    assert tiny_engine().worst_case(100, 100) == 0


def _gated(policy: Policy) -> TorchEngine:
    return tiny_engine(caches=ALL, policy=policy)
