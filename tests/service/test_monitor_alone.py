"""The monitor without a router: the policy file alone, and the sessions that it tells by their prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tandem import conducting
from tandem.actors.store import Flush
from tandem.conductor.monitor.policy import shipped_body
from tests.service.harness import Harness, chat, fake, open_harness

SAID = {"role": "assistant", "content": "One."}


async def ask(harness: Harness, *messages: dict[str, Any], **headers: str) -> str:
    body = {"model": "M", "messages": list(messages)}
    call = await harness.client.send("/v1/chat/completions", body, headers=headers)
    assert call.status == 200, call.body
    content: str = call.json["choices"][0]["message"]["content"]
    return content


def keys(harness: Harness) -> dict[str, int]:
    """The monitored sessions, and how many acts each remembers."""
    states = [state.view for state in harness.service.context.sessions.states()]
    return {view.key: len(view.monitor.acts) for view in states if view.monitor.asked_at is not None}


@pytest.mark.spec("MON-008", "MON-138", "MON-139", "MON-141")
async def test_conversations_are_told_apart(autojump_clock: trio.testing.MockClock) -> None:
    user = {"role": "user", "content": fake(say="", then=["One."], turns=[{"say": "Two."}])}
    async with open_harness(conductor="on") as harness:
        assert await ask(harness, user) == "One."
        [(key, acts)] = keys(harness).items()
        assert (key[:2], acts) == ("p:", 1), "an empty finish was acted upon"
        assert await ask(harness, user, SAID, {"role": "user", "content": "and?"})
        assert keys(harness) == {key: acts}, "the same conversation"
        await ask(harness, {"role": "user", "content": "else"})
        await ask(harness, user, **{"x-session-id": "mine"})
        assert sorted(found[:2] for found in keys(harness)) == ["c:", "p:", "p:"]


@pytest.mark.spec("MON-001", "MON-002", "MON-007")
async def test_without_the_option_nothing_is_watched(autojump_clock: trio.testing.MockClock) -> None:
    user = {"role": "user", "content": fake(say="", then=["One."])}
    async with open_harness() as harness:
        assert not await ask(harness, user)
        assert keys(harness) == {}


@pytest.mark.spec("MON-039", "MON-141")
async def test_an_answer_that_its_client_leaves_has_its_acts_all_the_same(
    autojump_clock: trio.testing.MockClock,
) -> None:
    body = chat({"say": "", "then": ["la " * 200], "token_ms": 100}, stream=True, max_tokens=1_000)
    async with open_harness(conductor="on") as harness:
        call = harness.client.start("/v1/chat/completions", body, headers={"x-session-id": "mine"})
        await trio.sleep(5)
        call.leave()
        await trio.sleep(5)
        assert keys(harness) == {"c:mine": 1}


@pytest.mark.spec("MON-012")
@pytest.mark.parametrize("broken", ["monitor.begin", "metrics.monitored"])
async def test_a_fault_of_the_monitor_costs_the_request_nothing(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broken: str
) -> None:
    def break_(*_: Any, **__: Any) -> None:
        if broken == "metrics.monitored":
            monkeypatch.undo()
        raise RuntimeError("a secret")

    async with open_harness(conductor_config=tmp_path) as harness:
        owner, name = broken.split(".")
        monkeypatch.setattr(getattr(harness.service.context, owner), name, break_)
        assert await ask(harness, {"role": "user", "content": fake(say="Hello.")}) == "Hello."
        monkeypatch.undo()
        await harness.service.context.store.ask(Flush)
        call = await harness.client.send("/v1/conductor/events?kind=monitor&limit=100")
        assert ("PASS", "error(RuntimeError)") in [(row["decision"], row["reason"]) for row in call.json["events"]]
        assert b"secret" not in call.body


@pytest.mark.spec("MON-023")
def test_a_policy_that_cannot_be_taken_over_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        version = 0

        def reload(self, *_: Any) -> None:
            raise RuntimeError("a secret")

    conducting._reload(Broken(), shipped_body(), 3)  # type: ignore[arg-type]
    assert "version 3 of the monitor document cannot be used: RuntimeError" in caplog.text
    assert "secret" not in caplog.text
