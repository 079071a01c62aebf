"""What other servers have broken at, under a monitor whose tasks all act; a test's name has its cases' numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tests.conductor.monitor.calling import called, round_of
from tests.service.cases.asking import written
from tests.service.harness import Harness
from tests.service.monitor.fixtures import WROTE
from tests.service.monitor.stage import CODE, open_stage, row_of, rows, send, words
from tests.service.said import Said, said
from tests.service.test_plan import profile, put

FINDINGS = ("CLOSE_REASONING", "CONTINUE_HIDDEN", "REPAIR_CALL", "REGENERATE_CALL", "GIVE_UP", "PROMPT_TAIL_NOTE")


async def got(
    harness: Harness, script: Any, *before: Any, **more: Any
) -> tuple[Said, list[tuple[str, str | None, str]]]:
    """What a client gets of it, and what was found: task, what was done, and why."""
    call = await send(harness, script, *before, **more)
    found = await rows(harness, call)
    return said(call), [(row["task"], row["action"], row["reason"]) for row in found if row["decision"] in FINDINGS]


@pytest.mark.spec("MON-053", "MON-054", "API-261", "MON-038")
@pytest.mark.parametrize("stream", [False, True])
async def test_b_a_budget_under_a_plan(autojump_clock: trio.testing.MockClock, tmp_path: Path, stream: bool) -> None:
    call = written("bash", command="x y z")
    async with open_stage(tmp_path, params={}) as harness:
        # B-01: the closer waits for the call, which stays in the reasoning and goes out as the answer.
        answer, found = await got(harness, {"say": f"<think>a b c {call}"}, thinking_token_budget=6, stream=stream)
        assert [(each.name, each.values) for each in answer.calls] == [("bash", {"command": "x y z"})]
        assert answer.reasoning == f"a b c {call}"
        assert (answer.content, answer.finish) == (None, "tool_calls")
        assert found == [("client", "CLOSE_REASONING", "budget(6)"), ("E1", "CONTINUE_HIDDEN", "empty(C)")]
        # B-02: closed by itself just below the budget.
        own = {"say": f"<think>{words(237)}</think>Five.", "block": 32}
        answer, found = await got(harness, own, thinking_token_budget=242, stream=stream)
        assert (answer.content, answer.reasoning, found) == ("Five.", words(237), [])
        # B-04: the model thinks although the template has closed the block.
        off = {"thinking_budget": 10, "chat_template_kwargs": {"enable_thinking": False}}
        answer, found = await got(harness, {"say": f"<think>{words(30)}</think>Five."}, stream=stream, **off)
        assert answer.content == "Five."
        assert answer.usage["completion_tokens_details"]["reasoning_tokens"] == 10
        # B-07: a flood of closers, none of which is sent, is a repetition like any other.
        flood = {"say": "<think>a b c d e\n" + "</think>\n" * 1_500, "block": 32}
        answer, found = await got(harness, flood, thinking_token_budget=4, stream=stream)
        assert (answer.content or "").startswith(
            "[TandemLLM ended this answer, because one piece of 9 characters came "
        )
        assert answer.finish == "stop"
        assert [each[0] for each in found] == ["client", "D3"]
        raw, found = await got(harness, flood, thinking_token_budget=4, stream=stream, mode="raw", max_tokens=1_200)
        assert ((raw.content or "").count("</think>") > 400, raw.finish, found) == (True, "length", [])


@pytest.mark.spec("MON-093", "MON-094", "API-107", "API-115")
async def test_d_a_call_that_is_wrong(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    then = [written("bash", command="ls")]
    prose = (
        "<tool_call>\n<function=write>\n<parameter=path>\na.py\nNow let me explain\n<parameter=content>\nx\n"
        "</parameter>\n</function>\n</tool_call>"
    )
    async with open_stage(tmp_path) as harness:
        for stream in (False, True):
            # D-11
            answer, found = await got(harness, {"say": prose}, stream=stream)
            values = {"path": "a.py\nNow let me explain", "content": "x"}
            assert [each.values for each in answer.calls] == [values]  # its schema allows the value
            assert found == []
            # D-13: a name that nobody offers is accepted in history, and written again where the model writes it.
            past = called(("unknown", "{}", "no such tool"))
            answer, found = await got(harness, {"say": written("unknown"), "then": then}, *past, stream=stream)
            assert [each.name for each in answer.calls] == ["bash"]
            assert found == [("C4", "REGENERATE_CALL", "malformed(unknown_tool)")]
            # D-14, and D-08: arguments that are no JSON in history; a call that was sent decides the finish.
            broken = round_of(("bash", '{"a":', "bad"))
            answer, found = await got(harness, {"say": f"I look. {then[0]}"}, *broken, stream=stream)
            assert (answer.finish, found) == ("tool_calls", [])
            # D-10: without the tags it is text.
            bare = '{"name": "bash", "arguments": {"command": "ls"}}'
            answer, found = await got(harness, {"say": bare}, stream=stream)
            assert (answer.content, answer.calls, found) == (bare, [], [])


DRIFT = (
    "Wait, I write each line of part {} now, as a whole and with all of its cells, so that the table of the page comes "
    "out right and {} of them fit."
)
SOUND = (
    "ok " * 100,
    "| a | b |\n|---|---|\n" + "| 0 | 0 |\n" * 20,
    "0,0,0,0\n" * 40,
    "\n".join(f"    case {at}: return value_{at} * {at + 1};" for at in range(30)),
    "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 12,
    "  /\\_/\\  \n ( o.o ) \n  > ^ <  \n" * 9,
)


@pytest.mark.spec("MON-045", "MON-046", "MON-106", "MON-156")
async def test_h_loops_and_what_is_none(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_stage(tmp_path, params={}) as harness:
        # H-02
        drift = "\n\n".join(DRIFT.format(at, at + 2) for at in range(40))
        answer, found = await got(harness, {"say": f"<think>{drift}</think>Five.", "block": 32})
        assert found == [("D1", "CLOSE_REASONING", "loop(drift)")]
        assert answer.content == "Five."
        assert len(answer.reasoning or "") < len(drift) / 2
        # H-05
        for text in SOUND:
            answer, found = await got(harness, {"say": f"<think>{text}</think>{text}.", "block": 32})
            assert (answer.content, answer.reasoning, found) == (f"{text}.", text, []), text[:20]


@pytest.mark.spec("MON-158", "MON-092", "MON-087")
async def test_i04_only_a_number_differs(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """A note, and no call is held, where the router has not given it; not at two calls, nor at other results."""
    waits = [("bash", f'{{"command": "sleep {count}"}}', "nothing") for count in (1, 2, 3)]
    async with open_stage(tmp_path) as harness:
        script = {"say": written("bash", command="sleep 4")}
        call = await send(harness, script, *called(*waits))
        assert ("PASS", None, "near(3)") in row_of(await rows(harness, call), "C3"), "the router's own note is there"
        document = await profile(harness, "coding")
        await put(harness, "profiles/coding", {**document, "sampling": {"loop_escape": "off"}})
        for stream in (False, True):
            answer, found = await got(harness, script, *called(*waits), stream=stream)
            assert [each.values for each in answer.calls] == [{"command": "sleep 4"}]
            assert found == [("C3", "PROMPT_TAIL_NOTE", "near(3)")]
        other = [*waits[:2], ("bash", '{"command": "sleep 3"}', "a.py")]
        for before in (waits[:2], other):
            answer, found = await got(harness, script, *called(*before))
            assert ([each.name for each in answer.calls], found) == (["bash"], [])


@pytest.mark.spec("MON-057", "MON-058", "MON-061", "MON-065", "MON-068", "MON-070")
async def test_t_claims(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    claim = "All 42 tests pass."
    passed = [*WROTE, *called(("bash", '{"command": "pytest"}', "42 passed in 1.2s"), start=1)]
    failed = round_of(("write", '{"path": "a.py", "content": "x"}', "error: read-only file system"))
    async with open_stage(tmp_path) as harness:

        async def judged(
            say: str, choose: dict[str, float], *before: Any, **more: Any
        ) -> tuple[str, dict[str, Any] | None]:
            script = {"say": say, "then": ["More."], "choose": {**CODE, **choose}}
            call = await send(harness, script, *before, **more)
            found = [row for row in await rows(harness, call) if row["task"] == "E2"]
            assert len(found) <= 1
            return said(call).content or "", found[0] if found else None

        # T-01, and where nothing is asked: without a write, in another class.
        text, row = await judged(claim, {"A": 0.45, "B": 0.55}, *WROTE)
        assert row is not None
        assert (text, row["reason"]) == (f"{claim}\n\nMore.", "claim_check(no_run_after_last_write)")
        assert await judged(claim, {"A": 0.45, "B": 0.55}) == (claim, None)
        writing = {"A": 0.45, "B": 0.55, "code_edit": 0, "writing": 0.9}
        for before in ((), WROTE):
            assert await judged(claim, writing, *before, session="writes", rounds=1) == (claim, None)
        # T-02
        text, row = await judged(claim, {"A": 0.97}, *passed)
        assert row is not None
        assert (text, row["action"], row["reason"]) == (claim, None, "claim_check(supported)")
        assert (row["detail"]["twin"], row["detail"]["since"]) == ("ran", ["bash"])
        assert row["detail"]["evidence"] == ["k1-0"]
        # T-04
        text, row = await judged("I created a.py.", {"A": 0.45, "C": 0.55}, *failed)
        assert row is not None
        assert (text, row["reason"]) == ("I created a.py.\n\nMore.", "claim_check(errors_in_evidence)")
        # T-05
        text, row = await judged("Paris is the capital of France.", {"B": 0.97}, *WROTE)
        assert row is not None
        assert (text, row["action"], row["reason"]) == (
            "Paris is the capital of France.",
            None,
            "claim_check(no_claim)",
        )
