"""A1: a call that repeats itself, and what the requests behind it hear (MON-101 to MON-117)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.state import MonitorDelta, Monitored, remembered
from tandem.conductor.monitor.stopped_calls import cut_history
from tests.conductor.monitor.calling import USER, shipped_task
from tests.conductor.monitor.guarding import asked_again, calling, cut, first

RNG = random.Random(5)
MARKER = shipped_task("A1").params["marker"]


def good(tokens: int, size: int = 3) -> list[str]:
    return ["".join(RNG.choices("abcdefghij(){} ", k=size)) for _ in range(tokens)]


@pytest.mark.spec("MON-101", "MON-105", "MON-109")
def test_a_tile_row_is_stopped_once_it_fills_the_newest_1024_tokens() -> None:
    row = cut("".join(RNG.choices("#.~T", k=97)), 3)
    found = first(calling, good(1_121) + row * 60)
    assert found is not None
    tokens, action = found
    assert (tokens, action.kind, action.reason) == (2_176, "GIVE_UP", "tool_arg_loop(periodic)")
    assert action.detail == {
        "tool": "write",
        "tokens": 2_176,
        "stop_detail": "tool_arg_loop",
        "rule": "periodic",
        "unit": 97,
        "copies": int(((2_176 - 1_121) * 97 / len(row)) / 97),
    }
    assert "cut off the write call at 2176 tokens, because one piece of 97 characters came" in (action.text or "")


@pytest.mark.spec("MON-105")
def test_a_long_unit_is_stopped_at_its_third_copy() -> None:
    unit = [*good(125, 3), *good(15, 2)]
    assert (sum(map(len, unit)), len(unit)) == (405, 140)
    found = first(calling, good(1_100) + unit * 8)
    assert found is not None
    assert found[0] - 1_100 < 3 * 140 + 64
    assert found[1].detail["copies"] == 3


@pytest.mark.spec("MON-106")
def test_the_borders() -> None:
    zeros = cut("0, " * 14, 0)[:28]
    line = ["0,"] * 27 + ["\n"]
    assert first(calling, [*good(40), *(line * 38), *zeros]) is not None
    frame = cut("".join(RNG.choices("<>/abc ", k=393)), 3)
    assert len(frame) == 131
    frames = (frame * 3)[:353]
    assert first(calling, good(1_024 + 31) + frames) is None


@pytest.mark.spec("MON-104")
def test_a_block_without_exact_copies_is_stopped_by_size() -> None:
    lines = [piece for at in range(2_200) for piece in ["    row(", str(at), *[", 'the same again'"] * 14, ");\n"]]
    assert len(lines) > 32_768
    action = calling(lines[:32_832])
    assert action is not None
    assert action.detail["rule"] == "size"
    assert action.detail["ratio"] >= 16
    assert "kept saying almost the same" in (action.text or "")
    assert calling(lines[:32_768]) is None
    asked = ({"role": "user", "content": "x" * 60_000},)
    assert calling(lines[:32_832], messages=asked) is None, "what was asked is a third as long"
    assert calling(good(32_832)) is None


def kept_after(action: Action, session: Monitored) -> Monitored:
    return remembered(session, MonitorDelta(kept={"A1": action.delta}), 0.0)


@pytest.mark.spec("MON-110", "MON-115")
def test_the_next_request_hears_of_a_stop_once() -> None:
    row = cut("".join(RNG.choices("#.~T", k=97)), 3)
    session = Monitored()
    for wording in ("ended in a repetition", "same repetition once more"):
        stop = calling(good(1_024) + row * 60, session=session)
        assert stop is not None
        session = kept_after(stop, session)
        assert asked_again([USER], session=session, tools=()) is None
        note = asked_again([USER], session=session)
        assert note is not None
        assert note.kind == "PROMPT_TAIL_NOTE"
        assert wording in (note.text or "")
        session = kept_after(note, session)
    forgotten = asked_again([USER], session=session)
    assert forgotten is not None
    assert (forgotten.kind, forgotten.reason) == ("PASS", "")
    assert asked_again([USER], session=kept_after(forgotten, session)) is None


def attempt(arguments: str, name: str = "write") -> list[dict[str, Any]]:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    failed = {"role": "tool", "tool_call_id": "c", "content": "invalid JSON"}
    return [{"role": "assistant", "content": "", "tool_calls": [call]}, failed]


def endless(unit: str = "row(1, 2, 3);\\n", name: str = "write") -> list[dict[str, Any]]:
    return attempt('{"path": "a.js", "content": "' + "".join(good(400)).replace("{", "") + unit * 200, name)


@pytest.mark.spec("MON-114", "MON-116", "MON-117")
def test_five_equal_attempts_cost_two_generations() -> None:
    messages: list[Any] = [USER]
    generations = 0
    for _ in range(5):
        found = asked_again(cut_history(messages, MARKER)[0])
        if found is None or found.kind != "GIVE_UP":
            generations += 1
            messages += endless()
            continue
        assert found.reason == "tool_arg_loop_retries(2)"
        assert "2 write calls ended in one repetition" in (found.text or "")
        assert "thinking" not in (found.text or "")
    assert generations == 2
    off = asked_again(cut_history(messages, MARKER)[0], client_thinking_off=True)
    assert off is not None
    assert ", or turn thinking on.]" in (off.text or "")


@pytest.mark.spec("MON-114", "MON-116", "API-123")
def test_different_stops_of_a_tool_are_tried_three_times() -> None:
    units = ["row(1, 2, 3);\\n", "tile(4, 5);\\n", "wall(6);\\n"]
    messages: list[Any] = [USER]
    kinds = []
    for unit in units:
        messages += endless(unit)
        found = asked_again(cut_history(messages, MARKER)[0])
        assert found is not None
        kinds.append(found.kind)
    assert kinds == ["PROMPT_TAIL_NOTE", "PROMPT_TAIL_NOTE", "GIVE_UP"]
    assert asked_again(cut_history([*messages, USER], MARKER)[0]) is None
    assert asked_again(cut_history([*messages, *attempt("{}")], MARKER)[0]) is None
