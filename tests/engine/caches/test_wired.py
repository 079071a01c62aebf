"""What each cache may change and what it may not, on engines: time to first token, never a token (section 10)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tandem.engine.caches.disk_writes import write
from tandem.engine.caches.settings import CacheSettings
from tandem.engine.errors import EngineError
from tandem.engine.text.prompt import Prompt
from tests.engine.caches.wired import ALL, BARE, MIB, flush, on_disk, served, turn
from tests.engine.decoding.engines import GRID, PROMPT, ids_of, trace

pytestmark = pytest.mark.usefixtures("kind")

GUEST = ids_of(20, 7)
"""A prompt that has nothing in common with the others."""
OTHER = ids_of(110, 8)
"""One that is too long for a guest."""


def next_turn(ids: Sequence[int], written: Sequence[int], seed: int = 9) -> list[int]:
    return [*ids, *written, *ids_of(6, seed)]


@pytest.mark.spec("ENG-109", "ENG-106")
def test_after_a_guest_the_conversation_goes_on_as_if_none_had_come() -> None:
    with served() as engine, served() as undisturbed:
        first, _ = turn(engine, PROMPT), turn(undisturbed, PROMPT)
        following = next_turn(PROMPT, first.ids)
        guest = turn(engine, GUEST, 8)
        assert guest.source == ""
        assert guest.is_cold_run(GUEST)
        back, alone = turn(engine, following), turn(undisturbed, following)
    assert back.source == "end"
    assert back.resumed == alone.resumed == len(PROMPT) + 3
    assert all((a == b).all() for a, b in zip(back.rows, alone.rows, strict=True))
    assert engine.state()["resident_guests"] == 1


@pytest.mark.spec("ENG-109")
def test_a_guest_may_come_back_and_the_conversation_waits_on() -> None:
    with served() as engine:
        first = turn(engine, PROMPT)
        guest = turn(engine, GUEST)
        again = turn(engine, next_turn(GUEST, guest.ids))
        assert (again.source, again.resumed) == ("end", len(GUEST) + 3)
        assert engine.state()["resident_guests"] == 1
        assert turn(engine, next_turn(PROMPT, first.ids)).resumed == len(PROMPT) + 3
        # The guest lost its place and is in the state store.
        third = next_turn(next_turn(GUEST, guest.ids), again.ids)
        assert turn(engine, third).source == "store"


@pytest.mark.spec("ENG-109", "ENG-113")
def test_a_guest_that_outgrows_it_has_become_a_conversation() -> None:
    with served() as engine:
        first = turn(engine, PROMPT)
        guest = turn(engine, GUEST)
        longer = [*GUEST, *guest.ids, *ids_of(90, 3)]
        assert turn(engine, longer).source == "end"
        assert engine.state()["parked_rows"] == len(PROMPT) + 3
        following = next_turn(PROMPT, first.ids)
        back = turn(engine, following)
        assert (back.source, back.resumed) == ("parked", len(PROMPT) + 3)
        assert back.writes_as_cold(following)


@pytest.mark.spec("ENG-109")
def test_a_stash_without_room_costs_the_conversation_its_later_rows() -> None:
    with served() as engine:
        each = engine.cost()["bytes_per_token"]
        # `decide` has the prompt's rows in its budget; the answer's are more.
    with served(replace(BARE, guest_max=100, stash=40 * each)) as engine:
        first = turn(engine, PROMPT)
        turn(engine, ids_of(40, 7), 8)
        following = next_turn(PROMPT, first.ids)
        back = turn(engine, following)
        assert engine.state()["stash_cuts"] == 1
        assert back.resumed < len(PROMPT)
        assert back.writes_as_cold(following)


@pytest.mark.spec("ENG-113", "ENG-073")
def test_a_parked_conversation_comes_back_as_it_was() -> None:
    with served() as engine, served() as undisturbed:
        first, _ = turn(engine, PROMPT), turn(undisturbed, PROMPT)
        following = next_turn(PROMPT, first.ids)
        other = turn(engine, OTHER)
        assert other.is_cold_run(OTHER)
        back, alone = turn(engine, following), turn(undisturbed, following)
        assert (back.source, back.resumed) == ("parked", len(PROMPT) + 3)
        assert all((a == b).all() for a, b in zip(back.rows, alone.rows, strict=True))
        # The two have changed places.
        assert turn(engine, next_turn(OTHER, other.ids)).source == "parked"
        assert engine.caches()["parked"].hits == 2


@pytest.mark.spec("ENG-114", "ENG-073", "ENG-105")
def test_the_store_answers_a_prefix_bit_for_bit_and_a_session_but_for_near_ties() -> None:
    with served(replace(BARE, store=8 * MIB)) as engine:
        first = turn(engine, PROMPT)
        turn(engine, OTHER)
        retried = turn(engine, PROMPT)
        assert (retried.source, retried.resumed) == ("store", 2 * GRID)
        assert retried.is_cold_run(PROMPT)
        turn(engine, OTHER)
        following = next_turn(PROMPT, first.ids)
        back = turn(engine, following)
        assert (back.source, back.resumed) == ("store", len(PROMPT) + 3)
        assert back.writes_as_cold(following)


@pytest.mark.spec("ENG-114")
@pytest.mark.parametrize(("off", "resumed"), [("prefix_cache", len(PROMPT) + 3), ("session_cache", 2 * GRID)])
def test_each_use_of_the_store_can_be_switched_off(off: str, resumed: int) -> None:
    settings = replace(BARE, store=8 * MIB, prefix_cache=off != "prefix_cache", session_cache=off != "session_cache")
    with served(settings) as engine:
        first = turn(engine, PROMPT)
        turn(engine, OTHER)
        assert turn(engine, next_turn(PROMPT, first.ids)).resumed == resumed


@pytest.mark.spec("ENG-112")
def test_a_new_conversation_resumes_in_a_head_that_is_known() -> None:
    head = ids_of(GRID + 5, 4)
    with served(BARE) as engine:
        cost = engine.cost()["bytes_per_anchor"]
    with served(BARE, anchor_bytes=cost) as engine:
        turn(engine, [*head, *ids_of(150, 5)], head=len(head))
        new = [*head, *ids_of(20, 6)]
        answer = turn(engine, new, head=len(head))
        assert (answer.source, answer.resumed) == ("resident", GRID)
        assert answer.is_cold_run(new)


@pytest.mark.spec("ENG-116", "ENG-073", "ENG-106")
def test_after_a_restart_files_answer_bit_for_bit(tmp_path: Path) -> None:
    with served(on_disk(tmp_path)) as engine:
        turn(engine, PROMPT)
        assert flush(engine) >= 2
    with served(on_disk(tmp_path)) as engine:
        again = turn(engine, PROMPT)
        assert (again.source, again.resumed) == ("disk", 2 * GRID)
        assert again.is_cold_run(PROMPT)
        assert flush(engine) == 0


@pytest.mark.spec("ENG-116")
def test_files_go_on_from_a_line_in_memory(tmp_path: Path) -> None:
    with served(on_disk(tmp_path)) as engine:
        turn(engine, OTHER)
        flush(engine)
        turn(engine, [*OTHER[: GRID + 3], *GUEST])
        again = turn(engine, OTHER)
        assert (again.source, again.resumed) == ("disk", 3 * GRID)
        assert again.is_cold_run(OTHER)


@pytest.mark.spec("ENG-116")
def test_rows_that_are_gone_are_not_written(tmp_path: Path) -> None:
    with served(on_disk(tmp_path)) as engine:
        turn(engine, PROMPT)
        assert flush(engine, most=1) == 1
        turn(engine, OTHER)
        flush(engine)
    with served(on_disk(tmp_path)) as engine:
        for ids in (PROMPT, OTHER):
            assert turn(engine, ids).is_cold_run(ids)


@pytest.mark.spec("ENG-116")
def test_nothing_is_written_while_a_sequence_is_open_or_the_engine_is_lent(tmp_path: Path) -> None:
    with served(on_disk(tmp_path)) as engine:
        turn(engine, PROMPT)
        loan = engine.borrow(None, 50)
        assert engine.upkeep(0) is None
        engine.give_back(loan)
        seq = engine.open(Prompt.of_client(GUEST))
        assert engine.upkeep(0) is None
        engine.close(seq)
        assert engine.upkeep(0) is not None


@pytest.mark.spec("ENG-116", "ENG-132")
def test_the_disk_is_switched_from_the_next_request_on(tmp_path: Path) -> None:
    with served(replace(on_disk(tmp_path), disk=replace(on_disk(tmp_path).disk, mode="off"))) as engine:
        turn(engine, PROMPT)
        assert flush(engine) == 0
        engine.configure(on_disk(tmp_path).disk, 0)
        turn(engine, PROMPT)
        assert flush(engine) >= 2


@pytest.mark.spec("ENG-116", "ENG-110", "ENG-106", "ENG-073")
def test_a_process_that_was_killed_goes_on_where_the_answer_ended(tmp_path: Path) -> None:
    with served(on_disk(tmp_path)) as engine:
        first = turn(engine, PROMPT)
        talk = [*PROMPT, *first.ids, *ids_of(GRID, 7)]
        again = turn(engine, talk)
        assert again.source == "end"
        flush(engine)
    talk = [*talk, *again.ids, 5, 6]
    with served(on_disk(tmp_path)) as engine:
        third = turn(engine, talk)
        assert (third.source, third.resumed) == ("disk_end", len(talk) - 3)
        assert third.writes_as_cold(talk)
        edited = [*talk[: len(PROMPT)], 9]
        other = turn(engine, edited)
        assert other.resumed == 2 * GRID, "the edited turn goes back to a line, in files where memory has none"
        assert other.is_cold_run(edited)


@pytest.mark.spec("ENG-116", "ENG-109")
@pytest.mark.parametrize("count", [20, 60])
def test_a_conversation_under_a_guest_is_written_too(tmp_path: Path, count: int) -> None:
    settings = replace(on_disk(tmp_path), stash=MIB, guest_max=100)
    with served(settings) as engine:
        first = turn(engine, PROMPT)
        turn(engine, ids_of(count, 7))
        assert engine.state()["resident_guests"] == 1
        flush(engine)
        assert flush(engine) == 0
        talk = [*PROMPT, *first.ids, 5, 6]
        assert turn(engine, talk).source == "end", "it was not moved for it"
    with served(settings) as engine:
        again = turn(engine, talk)
        assert (again.source, again.resumed) == ("disk_end", len(PROMPT) + 3)
        assert again.writes_as_cold(talk)


@pytest.mark.spec("SCH-042", "ENG-116")
def test_a_piece_that_is_being_written_has_its_own_copy_of_the_rows(tmp_path: Path) -> None:
    """So a guest of the lane, which comes while a thread writes, need not stop it."""
    with served(on_disk(tmp_path)) as engine:
        first = turn(engine, PROMPT)
        jobs, now = [], time.time()
        while (job := engine.upkeep(now)) is not None:
            loan = engine.borrow(None, 60)
            turn(engine, ids_of(40, 7), 8)  # over the rows that the piece was made of
            engine.give_back(loan)
            jobs.append(write(job))
            engine.kept(job, jobs[-1], now)
        assert len(jobs) >= 2
        assert all(isinstance(size, int) for size in jobs)
    with served(on_disk(tmp_path)) as engine:
        talk = [*PROMPT, *first.ids, 5, 6]
        again = turn(engine, talk)
        assert (again.source, again.resumed) == ("disk_end", len(PROMPT) + 3)
        assert again.writes_as_cold(talk)


@pytest.mark.spec("ENG-110", "ENG-073")
def test_without_end_anchors_files_hold_lines_alone(tmp_path: Path) -> None:
    with served(on_disk(tmp_path), end_anchor=False) as engine:
        turn(engine, PROMPT)
        flush(engine)
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".end", ".text")]


@pytest.mark.spec("ENG-116")
def test_choices_that_begin_anew_leave_what_is_to_be_written(tmp_path: Path) -> None:
    with served(on_disk(tmp_path), end_anchor=False) as engine:
        seq = engine.open(Prompt.of_client(PROMPT))
        while engine.prefill(seq, len(PROMPT)).done < len(PROMPT):
            pass
        stood = engine.snapshot(seq)
        trace(engine, seq, 4)
        engine.restore(seq, stood)
        trace(engine, seq, 2)
        engine.close(seq)
        assert flush(engine) >= 2
    with served(on_disk(tmp_path)) as engine:
        assert turn(engine, PROMPT).is_cold_run(PROMPT)


def spilling(folder: Path) -> CacheSettings:
    return replace(ALL, store=0, spill_folder=folder)


def test_where_nothing_is_there_a_drain_spills_nothing_and_says_nothing(tmp_path: Path) -> None:
    with served(spilling(tmp_path)) as engine:
        assert engine.spill() == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("ENG-121", "ENG-073")
def test_after_a_drain_the_next_turn_resumes_where_the_answer_ended(tmp_path: Path) -> None:
    with served(spilling(tmp_path)) as engine, served() as undisturbed:
        first, _ = turn(engine, PROMPT), turn(undisturbed, PROMPT)
        other = turn(engine, OTHER)
        turn(engine, GUEST)  # it is not spilled: what it came upon is
        told = engine.spill()
        assert (told["resident_rows"], told["parked_rows"]) == (len(OTHER) + 3, len(PROMPT) + 3)
        assert not [name for name in told if name.endswith("_failed")]
    following = next_turn(PROMPT, first.ids)
    with served(spilling(tmp_path)) as engine:
        assert list(tmp_path.iterdir()) == []
        third = next_turn(OTHER, other.ids)
        answer = turn(engine, third)
        assert (answer.source, answer.resumed) == ("end", len(OTHER) + 3)
        assert answer.writes_as_cold(third)
        back, alone = turn(engine, following), turn(undisturbed, following)
        assert (back.source, back.resumed) == ("parked", len(PROMPT) + 3)
        assert all((a == b).all() for a, b in zip(back.rows, alone.rows, strict=True))


@pytest.mark.spec("ENG-121")
def test_a_guest_that_is_longer_than_what_it_came_upon_is_spilled_as_well(tmp_path: Path) -> None:
    with served(spilling(tmp_path)) as engine:
        small, long = turn(engine, GUEST), turn(engine, PROMPT)
        assert engine.state()["resident_guests"] == 1
        told = engine.spill()
        assert (told["resident_rows"], told["parked_rows"]) == (len(PROMPT) + 3, len(GUEST) + 3)
    with served(spilling(tmp_path)) as engine:
        for ids, source in ((next_turn(PROMPT, long.ids), "end"), (next_turn(GUEST, small.ids), "parked")):
            answer = turn(engine, ids)
            assert answer.source == source
            assert answer.writes_as_cold(ids)


@pytest.mark.spec("ENG-121", "ENG-117")
def test_a_spill_of_another_model_or_one_that_is_damaged_is_a_cold_start(tmp_path: Path) -> None:
    for fault in ("model", "flip"):
        with served(spilling(tmp_path)) as engine:
            turn(engine, PROMPT)
            engine.spill()
        if fault == "flip":
            [path] = tmp_path.iterdir()
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        with served(
            spilling(tmp_path), fingerprint="another" if fault == "model" else "0123456789abcdef" * 2
        ) as engine:
            again = turn(engine, PROMPT)
            assert again.source == ""
            assert again.is_cold_run(PROMPT)
            assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("ENG-121")
def test_a_spill_that_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with served(spilling(tmp_path / "file")) as engine:
        turn(engine, PROMPT)
        assert engine.spill() == {"resident_failed": 1}
        assert "was not spilled" in engine.memory().notes[-1]


@pytest.mark.spec("ENG-117", "ENG-176")
def test_a_second_engine_on_a_folder_runs_without_it(tmp_path: Path) -> None:
    with served(on_disk(tmp_path)) as engine, served(on_disk(tmp_path)) as second:
        assert "in use" in second.memory().notes[0]
        assert "disk" not in second.caches()
        assert turn(second, PROMPT).is_cold_run(PROMPT)
        assert flush(second) == 0
        turn(engine, PROMPT)
        assert flush(engine) >= 2


@pytest.mark.spec("ENG-123")
def test_clear_empties_each_cache_by_its_name(tmp_path: Path) -> None:
    with served(replace(ALL, disk=on_disk(tmp_path).disk, disk_folder=tmp_path)) as engine:
        for ids in (PROMPT, OTHER, GUEST, ids_of(120, 2)):
            turn(engine, ids)
        flush(engine)
        held = engine.caches()
        assert set(held) == {"resident", "sessions", "parked", "disk"}
        assert all(stats.bytes > 0 for stats in held.values())
        given = engine.clear()
        assert given == {name: stats.bytes for name, stats in held.items()}
        assert all(stats.bytes == 0 for stats in engine.caches().values())
        for ids in (OTHER, PROMPT):
            assert turn(engine, ids).source == ""
        with pytest.raises(EngineError, match="no cache is called attic"):
            engine.clear(["attic"])


@pytest.mark.spec("ENG-132")
def test_a_budget_that_is_lowered_holds_at_once() -> None:
    with served() as engine:
        turn(engine, PROMPT)
        turn(engine, OTHER)
        turn(engine, GUEST)
        assert engine.caches()["parked"].bytes > 0
        engine.resize(BARE)
        state = engine.state()
        assert (state["parked_bytes"], state["stash_bytes"], state["state_store_bytes"]) == (0, 0, 0)
        following = next_turn(OTHER, [])
        assert turn(engine, following).is_cold_run(following)
