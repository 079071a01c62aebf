"""Session tasks and the watch through a whole service: the note that the model reads, its row, and /watch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trio
import trio.testing

import tandem
from tandem.actors.store import Flush
from tests.conductor.monitor.calling import declare, round_of
from tests.service.harness import Harness, fake, open_harness
from tests.service.test_plan import SeenFake

WATCH = "/v1/conductor/watch"
CONTRACT = Path(tandem.__file__).parent / "contract"
TOOLS = [declare("read", "path"), declare("bash", "command"), declare("write", "path", "content")]
FAIL = "RESULT: FAIL <- page-check: contrast, overlap"
DAY = "You are an agent; your state is in PROGRESS.yaml. Today is {day}."


def check(body: Any) -> None:
    schema = json.loads((CONTRACT / "conductor-watch.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(body)


def agent(rounds: Sequence[tuple[str, str, str]], day: str = "2026-01-02") -> dict[str, Any]:
    """A request of an agent that has made these calls."""
    made = [message for at, each in enumerate(rounds) for message in round_of(each, id=f"k{at}-")]
    user = {"role": "user", "content": fake(say="I go on.", turns=[{"say": "I go on."}] * 9)}
    return {"model": "M", "messages": [{"role": "system", "content": DAY.format(day=day)}, user, *made], "tools": TOOLS}


async def send(harness: Harness, body: dict[str, Any], profile: str) -> str:
    """The whole answer."""
    headers = {"x-session-id": f"s-{profile}", "x-tandem-profile": profile, "x-tandem-client": "opencode"}
    call = await harness.client.send("/v1/chat/completions", body, headers=headers)
    assert call.status == 200, call.body
    return call.text


async def rows(harness: Harness, task: str) -> list[Any]:
    await harness.service.context.store.ask(Flush)
    found = (await harness.client.send(f"/v1/conductor/events?kind=monitor&task={task}&limit=100")).json["events"]
    return list(reversed(found))


async def watch(harness: Harness) -> dict[str, Any]:
    call = await harness.client.send(WATCH)
    assert call.status == 200, call.body
    check(call.json)
    return {session["key"]: session for session in call.json["sessions"]}


def test_the_example_keeps_the_contract() -> None:
    check(json.loads((CONTRACT / "examples" / "conductor-watch.json").read_text("utf-8")))


@pytest.mark.spec(
    "MON-118",
    "MON-122",
    "MON-126",
    "MON-127",
    "MON-129",
    "MON-131",
    "MON-132",
    "MON-151",
    "OBS-026",
    "SCH-099",
    "SCH-100",
)
async def test_a_night_is_watched(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = SeenFake()
    rounds = [("write", '{"path": "a.py", "content": "x"}', "ok")]
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        await send(harness, agent(rounds), "overnight")
        rounds += [("bash", f'{{"command": "python check.py {at}"}}', FAIL) for at in range(3)]
        noted = await send(harness, agent(rounds, day="2026-01-03"), "overnight")
        assert noted.endswith("I go on."), "what the model said"
        assert "Gate page-check has failed 3 times" in "".join(map(engine.text.name, engine.prompts[-1].ids))
        await send(harness, agent(rounds), "coding")
        (row,) = await rows(harness, "S1")
        assert (row["decision"], row["action"], row["reason"]) == (
            "PROMPT_TAIL_NOTE",
            "PROMPT_TAIL_NOTE",
            "gate(page-check,fails=3)",
        )
        assert row["text_hash"]
        told = await watch(harness)
        assert list(told) == ["c:s-coding", "c:s-overnight"]
        night = told["c:s-overnight"]
        assert night["gates"] == [
            {"name": "page-check", "verdict": "FAIL", "value": 2, "best": 2, "fails": 3, "noted": True}
        ]
        assert night["compaction"] == {"watching": False, "steps": 0, "noted": False}, "a date line is no compaction"
        assert (night["client_kind"], night["progress"]["kind"], night["push"]) == ("opencode", "write", True)
        assert not told["c:s-coding"]["push"]
        await trio.sleep(1_100)
        assert await rows(harness, "S4") == []
        await trio.sleep(200)
        (row,) = await rows(harness, "S4")
        assert (row["sp"], row["decision"], row["action"], row["mode"]) == ("watch", "NOTIFY", None, "act")
        assert row["reason"].startswith("client_gone(20 min)")
        assert row["detail"]["notify"] == "failed: fake engine"
        assert (row["profile"], row["client_kind"], row["session_key"]) == ("overnight", "opencode", "c:s-overnight")
        await trio.sleep(3_000)
        assert len(await rows(harness, "S4")) == 1
        client = (await watch(harness))["c:s-overnight"]["client"]
        assert (client["gone"], client["idle_s"] > 4_000) == (True, True)
        assert (await harness.client.send(f"{WATCH}?x=1")).status == 400
    async with open_harness() as harness:
        assert (await harness.client.send(WATCH)).status == 404


@pytest.mark.spec("MON-123", "MON-124", "MON-151")
async def test_a_delivery_is_asked_for_and_the_client_sees_nothing_of_it(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path) as harness:
        idle, written = [("read", '{"path": "a"}', "x")], [("write", '{"path": "a", "content": "x"}', "ok")]
        for profile, rounds, reasons in (("general", idle, ["first_write(3 min)"]), ("coding", written, [])):
            first = await send(harness, agent(rounds), profile)
            await trio.sleep(185)
            assert await send(harness, agent(rounds), profile) == first
            found = [row for row in await rows(harness, "S5") if row["profile"] == profile]
            assert [(row["action"], row["reason"]) for row in found] == [("PROMPT_TAIL_NOTE", each) for each in reasons]


@pytest.mark.spec("MON-126")
async def test_a_client_that_leaves_its_answer_is_gone_too(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path, conductor_watch_s=60) as harness:
        body = {**agent([]), "stream": True}
        body["messages"][1]["content"] = fake(say="on and on " * 200)
        headers = {"x-session-id": "s", "x-tandem-profile": "overnight"}
        call = harness.client.start("/v1/chat/completions", body, headers=headers)
        await call.wait_for_piece(3)
        call.leave()
        await call.finished.wait()
        await trio.sleep(1_300)
        assert [row["reason"][:11] for row in await rows(harness, "S4")] == ["client_gone"]
