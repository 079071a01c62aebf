"""The tasks that look at a session: D1b, S1, S2, S4 and S5, each firing and not (MON-151)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.conductor.monitor.calling import called
from tests.service.harness import Call, Harness
from tests.service.monitor.stage import Row, open_stage, row_of, rows, send, words
from tests.service.recorded import masked
from tests.service.said import said
from tests.service.test_plan import CHAT, SeenFake
from tests.service.test_plan_effects import notes

PASS_BY = called(("bash", '{"command": "ls"}', "a.py"))
CHECK = ("bash", '{"command": "python check.py"}', "RESULT: FAIL <- page-check: contrast")
LOOK = [("bash", f'{{"command": "cat {name}.py"}}', name) for name in "abcde"]
OK = {"say": "Fine."}
ROUNDS = len(LOOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A session's requests up to the one that is looked at, and the row of that one; None: there is none."""

    before: Sequence[Sequence[Any]] = ((),)
    """What stands behind the user's message in earlier requests."""
    compacted: bool = False
    minutes: float = 0
    messages: Sequence[Any]
    reason: str | None = None
    words: str = ""
    """Some of the note's."""


COURSES: Mapping[str, Sequence[Course]] = {
    "S1": (
        Course(messages=called(*[CHECK] * 3), reason="gate(page-check,fails=3)", words="page-check has failed 3 times"),
        Course(messages=called(*[CHECK] * 2)),
    ),
    "S2": (
        Course(compacted=True, messages=called(*LOOK), reason="compaction(steps=5)", words="Read PROGRESS.yaml"),
        Course(messages=called(*LOOK)),
    ),
    "S4": (
        Course(minutes=5, messages=PASS_BY, reason="stalled(5 min)", words="No progress for 5 minutes"),
        Course(minutes=2, messages=PASS_BY),
    ),
    "S5": (
        Course(minutes=4, messages=PASS_BY, reason="first_write(4 min)", words="Nothing is written yet"),
        Course(minutes=2, messages=PASS_BY),
    ),
}
OF_SESSIONS = ("D1b", *COURSES)


async def run(harness: Harness, course: Course, session: str, mode: str) -> Call:
    for messages in course.before:
        await send(harness, OK, *messages, session=session, mode=mode, rounds=ROUNDS)
    if course.compacted:
        await compact(harness, session, mode)
    if mode != "raw":
        await trio.sleep(course.minutes * 60)
    return await send(harness, OK, *course.messages, session=session, mode=mode, rounds=ROUNDS)


async def compact(harness: Harness, session: str, mode: str) -> None:
    """OpenCode's request for a summary."""
    body = {"model": "M", "messages": [{"role": "user", "content": "Summarise. " + "history " * 300}]}
    told = {"x-tandem": mode, "x-session-id": session, "x-tandem-client": "opencode", "x-tandem-profile": "coding"}
    call = await harness.client.send(CHAT, body, headers=told)
    assert call.status == 200, call.body


@pytest.mark.spec("MON-149", "MON-151", "MON-119", "MON-034", "MON-120", "MON-003", "MON-002")
async def test_each_notes_what_it_finds_and_nothing_else(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """The answer is the same in every mode; the note is in the prompt where the mode is on, and there alone."""
    engine = SeenFake()
    async with open_stage(tmp_path, engine=engine, params={"S4": {"minutes": 5}}) as harness:
        for task, courses in COURSES.items():
            for at, course in enumerate(courses):
                case = f"{task} {at}"
                raw = await run(harness, course, f"{case} raw", "raw")
                plain = engine.prompts[-1]
                shadow = await run(harness, course, f"{case} shadow", "shadow")
                assert engine.prompts[-1].ids == plain.ids, case
                assert masked(shadow.body.decode()) == masked(raw.body.decode()), case
                on = await run(harness, course, f"{case} on", "on")
                assert said(on).content == said(raw).content == "Fine.", case
                assert said(on).usage["prompt_tokens"] == said(raw).usage["prompt_tokens"], case
                assert await rows(harness, raw) == [], case
                due = [] if course.reason is None else [("PROMPT_TAIL_NOTE", course.reason)]
                for call, does in ((shadow, False), (on, True)):
                    expected: list[Row] = [(kind, kind if does else None, reason) for kind, reason in due]
                    found = [row for row in row_of(await rows(harness, call), task) if row[0] != "PASS"]
                    assert found == expected, case
                told = [note for note in notes(engine, engine.prompts[-1]) if course.words and course.words in note]
                assert len(told) == len(due), case


@pytest.mark.spec("MON-047", "MON-149", "MON-151")
async def test_d1b_closes_a_plan_that_is_derived_again(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    call = "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>"
    plan = f"<think>\n{words(700)}</think>"
    first = {"say": plan + call, "block": 32}
    again = {"say": f"{plan}Five.", "block": 32}
    other = {"say": f"<think>\n{words(700, 5_000)}</think>Five.", "block": 32}
    async with open_stage(
        tmp_path, params={"D1b": {"min_tokens": 512, "window": 512}, "D2": {"max_tokens": 9_000}}
    ) as harness:
        for mode, second, row in (
            ("on", again, [("CLOSE_REASONING", "CLOSE_REASONING", "loop(history)")]),
            ("shadow", again, [("CLOSE_REASONING", None, "loop(history)")]),
            ("on", other, []),
        ):
            session = f"{mode} {len(row)}"
            await send(harness, first, session=session, mode=mode)
            got = await send(harness, second, *PASS_BY, session=session, mode=mode)
            assert said(got).content == "Five."
            assert row_of(await rows(harness, got), "D1b") == row
            is_cut = mode == "on" and bool(row)
            assert (said(got).usage["completion_tokens_details"]["reasoning_tokens"] < 600) == is_cut
