"""The notifier: pushes a message when a session's client is gone, to an address that the monitor's policy names.

Owns nothing. Pushes go out one after another, each tried once, and nobody waits for one: what has become of it is told
to `on_result`. The credential is read from its file for each push, and stands in no message, row or log line (MON-128
to MON-130).

| message in | from  | answer or effect                |
|------------|-------|---------------------------------|
| `Push`     | watch | sent, or not; told `on_result`  |
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import trio

from tandem.actors.kit import Actor, Blocking
from tandem.conductor.monitor.events import MonitorEvent
from tandem.conductor.monitor.policy import Notify

if TYPE_CHECKING:
    import httpx2

__all__ = ["Notifier", "Push"]

TIMEOUT_S = 10.0
KEY_SHOWN = 14
"""Characters of a session's key in a push, as many as in a log line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    session: str
    """The whole key."""
    profile: str | None
    client_kind: str | None
    event: MonitorEvent
    """Its detail has the minutes and the last progress."""
    target: Notify


class Notifier(Actor[Push]):
    name = "notifier"
    essential = False
    inbox_size = 16

    def __init__(
        self,
        *,
        url: str | None,
        state_dir: Path,
        blocking: Blocking,
        on_result: Callable[[Push, str], None],
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`url` is where pushes go that a policy names no address for; `transport` takes the network's place."""
        super().__init__()
        self._url = url
        self._state_dir = state_dir
        self._blocking = blocking
        self._on_result = on_result
        self._transport = transport

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        async for message in self.inbox:
            match message:
                case Push():
                    self._on_result(message, await self._pushed(message))
                case _:
                    assert_never(message)

    async def _pushed(self, push: Push) -> str:
        """What the row says of it (MON-129)."""
        url = push.target.url or self._url
        if not url:
            return "failed: no url"
        try:
            with trio.fail_after(TIMEOUT_S):
                token = await self._blocking.run("documents", _read_token, self._state_dir / push.target.token_file)
                if token is None:
                    return "failed: no token file"
                return f"sent {await self._post(url, token, push)}"
        except Exception as error:  # whatever it is: a watch that cannot push goes on
            return f"failed: {type(error).__name__}"

    async def _post(self, url: str, token: str, push: Push) -> int:
        """The status of the answer, whatever it is."""
        import httpx2  # it takes a while, and most servers never push

        ca_file = str(self._state_dir / push.target.ca_file) if push.target.ca_file else None
        tls = await self._blocking.run("documents", _trusting, ca_file)
        client = httpx2.AsyncClient(verify=tls, trust_env=False, timeout=TIMEOUT_S, transport=self._transport)
        detail = push.event.detail
        said = {
            "profile": push.profile,
            "session": push.session[:KEY_SHOWN],
            "minutes_idle": detail["minutes"],
            "last_progress": detail["last"],
        }
        async with client:
            answer = await client.post(url, json=said, headers={"Authorization": f"Bearer {token}"})
        return answer.status_code


def _read_token(path: Path) -> str | None:
    """None where there is none. Raises `PermissionError` for a file that others can use."""
    try:
        file = path.open(encoding="ascii")
    except FileNotFoundError:
        return None
    with file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise PermissionError
        return file.read().strip() or None


def _trusting(ca_file: str | None) -> ssl.SSLContext:
    """Of the system's certificates, or of those in the file alone."""
    return ssl.create_default_context(cafile=ca_file)
