"""The notifier: what a push holds and where it goes, and that nothing that goes wrong stops it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
import trio
import trio.testing

from tandem.actors.kit import Inline
from tandem.actors.notifier import Notifier, Push
from tandem.conductor.monitor.events import MonitorEvent
from tandem.conductor.monitor.policy import Notify

TARGET = Notify(enabled=True, url="http://push.test/night", token_file="conductor/ntfy.token", ca_file="")
PUSH = Push(
    session="c:0123456789abcdefghij",
    profile="overnight",
    client_kind="opencode",
    event=MonitorEvent(
        task="S4",
        rule="stalled",
        tier=0,
        sp="watch",
        mode="act",
        decision="NOTIFY",
        acted=None,
        reason="client_gone(21 min)",
        detail={"minutes": 21, "last": "write"},
    ),
    target=TARGET,
)
Answer = Callable[[httpx2.Request], httpx2.Response]


async def results(state: Path, answer: Answer, *pushes: Push, url: str | None = None) -> list[str]:
    """What is told of each push, in order."""
    told: list[str] = []
    done = trio.Event()

    def on_result(push: Push, result: str) -> None:
        told.append(result)
        if len(told) == len(pushes):
            done.set()

    async def served(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/slow":
            await trio.sleep(60)
        return answer(request)

    notifier = Notifier(
        url=url, state_dir=state, blocking=Inline(), on_result=on_result, transport=httpx2.MockTransport(served)
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(notifier.run)
        for push in pushes:
            assert notifier.ref.offer(push)
        await done.wait()
        nursery.cancel_scope.cancel()
    return told


@pytest.mark.spec("MON-128", "MON-129", "MON-130", "SCH-100")
async def test_a_push_says_who_and_how_long(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200 if len(asked) == 1 else 403)

    token = tmp_path / "conductor" / "ntfy.token"
    token.parent.mkdir()
    token.write_text("tk_secret\n")
    token.chmod(0o600)
    elsewhere = replace(PUSH, target=replace(TARGET, url=""))
    slow = replace(PUSH, target=replace(TARGET, url="http://push.test/slow"))
    odd = replace(PUSH, target=replace(TARGET, url="http://push.test:bad/"))
    untrusted = replace(PUSH, target=replace(TARGET, ca_file="no.pem"))
    with caplog.at_level(logging.WARNING):
        told = await results(tmp_path, answer, PUSH, elsewhere, slow, odd, untrusted, PUSH, url="http://other.test/a")
    assert told[:3] == ["sent 200", "sent 403", "failed: TooSlowError"]
    assert told[3] == "failed: InvalidURL"
    assert told[4:] == ["failed: FileNotFoundError", "sent 403"], "one that fails does not stop the next"
    assert [str(request.url) for request in asked[:2]] == ["http://push.test/night", "http://other.test/a"]
    assert asked[0].headers["authorization"] == "Bearer tk_secret"
    assert json.loads(asked[0].content) == {
        "profile": "overnight",
        "session": "c:0123456789ab",
        "minutes_idle": 21,
        "last_progress": "write",
    }
    assert not [each for each in (*told, caplog.text) if "secret" in each]


@pytest.mark.spec("MON-128", "MON-129")
async def test_without_address_or_credential_nothing_is_sent(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise AssertionError(request)

    nowhere = replace(PUSH, target=replace(TARGET, url=""))
    shared = tmp_path / "shared.token"
    shared.write_text("tk_secret")
    shared.chmod(0o644)
    seen = replace(PUSH, target=replace(TARGET, token_file="shared.token"))
    told = await results(tmp_path, answer, nowhere, PUSH, seen)
    assert told == ["failed: no url", "failed: no token file", "failed: PermissionError"]
