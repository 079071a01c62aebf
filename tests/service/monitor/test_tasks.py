"""Every task of the monitor in a whole service: what the client gets, and what is journaled (MON-149, MON-151).

The tasks that look at a whole session are in `test_session_tasks`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tandem.conductor.monitor.policy import shipped_body
from tests.service.harness import Call, Harness
from tests.service.monitor.fixtures import FIXTURES, Fixture
from tests.service.monitor.stage import open_stage, row_of, rows, send
from tests.service.monitor.test_session_tasks import OF_SESSIONS
from tests.service.recorded import masked
from tests.service.said import Said, said


def test_no_task_is_forgotten() -> None:
    fire = {each.task for each in FIXTURES if each.rows} | set(OF_SESSIONS)
    rest = {each.task for each in FIXTURES if not each.rows} | set(OF_SESSIONS)
    assert fire == rest == {task["id"] for task in shipped_body()["tasks"]}


async def asked(harness: Harness, each: Fixture, **more: Any) -> Call:
    return await send(harness, each.script, *each.before, **{**each.more, **more})


def check(each: Fixture, got: Said, case: str) -> None:
    """That a client got what the fixture says."""
    assert [(call.name, call.values) for call in got.calls] == list(each.calls), case
    assert got.finish == each.finish, case
    for found, expected in ((got.content, each.content), (got.reasoning, each.reasoning)):
        if each.begins and expected:
            assert (found or "").startswith(expected), (case, found)
        else:
            assert (found or "") == (expected or ""), (case, found)


@pytest.mark.spec("MON-149", "MON-151", "MON-004", "MON-148", "MON-031", "MON-055")
async def test_each_task_acts_where_it_fires_and_nowhere_else(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_stage(tmp_path) as harness:
        for each in FIXTURES:
            for stream in (False, True):
                case = f"{each.name}, stream {stream}"
                call = await asked(harness, each, stream=stream)
                check(each, said(call), case)
                found = await rows(harness, call)
                assert row_of(found, each.task) == list(each.rows), case
                others = [
                    row for row in found if row["task"] != each.task and row["decision"] not in ("OUTCOME", "COUNTS")
                ]
                assert not others, case


@pytest.mark.spec("MON-002", "MON-003", "MON-151")
async def test_in_shadow_only_rows_are_written_and_in_raw_none(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """Byte for byte; of what does not fire the body alone."""
    async with open_stage(tmp_path) as harness:
        for each in FIXTURES:
            for stream in (False, True) if each.rows else (False,):
                case = f"{each.name}, stream {stream}"
                raw, shadow = [await asked(harness, each, stream=stream, mode=mode) for mode in ("raw", "shadow")]
                assert masked(shadow.body.decode()) == masked(raw.body.decode()), case
                assert (raw.headers["x-tandem"], shadow.headers["x-tandem"]) == ("raw", "shadow")
                assert await rows(harness, raw) == [], case
                found = await rows(harness, shadow)
                due = [(decision, None, reason) for decision, _, reason in each.rows[:1]]
                assert row_of(found, each.task) == due, case
                assert {row["action"] for row in found} <= {None}, case


@pytest.mark.spec("MON-031", "MON-151")
async def test_in_tags_the_closer_is_seen_and_the_phrase_is_not(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    thinking = [each for each in FIXTURES if each.task in ("D1", "D2", "E1") and each.rows]
    async with open_stage(tmp_path) as harness:
        for each in thinking:
            apart = said(await asked(harness, each))
            answer = (apart.content or "").lstrip()
            for form, stream in (("tags", True), ("tags", False), ("both", True)):
                call = await asked(harness, each, stream=stream, reasoning_format=form)
                got = said(call)
                opened, closer, behind = (got.content or "").partition("</think>")
                if not each.calls:  # the reasoning may hold calls, but no closer
                    assert (opened, behind.lstrip()) == (f"<think>{apart.reasoning}", answer), each.name
                assert closer
                assert got.reasoning == (apart.reasoning if form == "both" else None)
                assert [call.name for call in got.calls] == [name for name, _ in each.calls]
                assert row_of(await rows(harness, call), each.task) == list(each.rows)


@pytest.mark.spec("MON-148", "OBS-019", "OBS-043")
async def test_a_row_says_whose_it_is_and_no_word_of_the_answer(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    each = next(each for each in FIXTURES if each.task == "E1" and each.rows)
    async with open_stage(tmp_path) as harness:
        with caplog.at_level("INFO"):
            call = await asked(harness, replace(each, more={"stream": True}), session="mine")
        row = next(row for row in await rows(harness, call) if row["task"] == "E1")
        usage = said(call).usage
    assert row["session_key"] == "c:mine"
    told = ("kind", "sp", "tier", "mode", "rule", "profile", "class", "policy_version")
    assert [row[name] for name in told] == ["monitor", "SP2", 0, "act", "empty_finish", "coding", "code_edit", 0]
    assert row["hidden_tokens"] > 0
    assert row["text_hash"]
    assert (
        row["position"] == usage["prompt_tokens"] + usage["prompt_tokens_details"]["hidden_tokens"] + 4
    )  # Hm. and its tag
    lines = [record.getMessage() for record in caplog.records if "[conductor]" in record.getMessage()]
    assert any("task=E1" in line and "reason=empty(A)" in line for line in lines)
    assert not [line for line in lines if "Hm." in line or "Five" in line]
