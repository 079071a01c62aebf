"""A whole service in one task tree: fake engine, inline store, no thread, no socket; its app is called as ASGI.

Under `autojump_clock` hours pass in milliseconds. `Client.start` gives a `Call` whose pieces arrive with the times at
which they were sent; `Call.leave` is what Hypercorn does when a client has gone.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio
import trio.testing

from tandem.actors.host import InlineHost
from tandem.actors.kit import Inline
from tandem.actors.store import Record, Store
from tandem.actors.watchdog import Look, Sight
from tandem.config import Settings
from tandem.engine.fake import FakeEngine
from tandem.http.access.rules import Access
from tandem.http.app import create_app
from tandem.http.images import ImageLoader
from tandem.secrets import Secrets
from tandem.service import Parts, Service, open_service
from tandem.store.outcome import Outcome

__all__ = ["Call", "Client", "Event", "Harness", "chat", "fake", "open_harness"]


class FixedWall:
    """A wall clock that goes with trio's."""

    def now(self) -> datetime.datetime:
        start = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
        return start + datetime.timedelta(seconds=trio.current_time())


class MemoryStore(Store):
    """The store actor without a file; keeps the outcomes it was offered."""

    def __init__(self) -> None:
        super().__init__(None, FixedWall())
        self.outcomes: list[Outcome] = []

    def _take(self, message: Any) -> None:
        if isinstance(message, Record):
            self.outcomes.append(message.outcome)
        super()._take(message)


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event: when it was sent, its JSON (None for `[DONE]`), or its comment."""

    at: float
    data: Any = None
    comment: str | None = None


@dataclass(slots=True)
class Call:
    """One request: what has come of it so far."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    opened_at: float | None = None
    finished: trio.Event = field(default_factory=trio.Event)
    _stalled: bool = False
    _gone: trio.Event = field(default_factory=trio.Event)
    _changed: trio.Event = field(default_factory=trio.Event)

    def leave(self) -> None:
        """The client closes its connection."""
        self._gone.set()

    def stall(self) -> None:
        """The client reads no more: the server's next write blocks until it leaves."""
        self._stalled = True

    async def wait_for_piece(self, count: int = 1) -> None:
        """Returns once `count` pieces of the body have been sent, or the response has ended."""
        while len(self.pieces) < count and not self.finished.is_set():
            await self._changed.wait()

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Event]:
        events = []
        for at, piece in self.pieces:
            for block in piece.decode().split("\n\n"):
                if block.startswith(": "):
                    events.append(Event(at, comment=block[2:]))
                elif block:
                    assert block.startswith("data: "), block
                    payload = block[6:]
                    events.append(Event(at, data=None if payload == "[DONE]" else json.loads(payload)))
        return events

    @property
    def comments(self) -> list[tuple[float, str]]:
        return [(event.at, event.comment) for event in self.events if event.comment is not None]

    @property
    def chunks(self) -> list[Any]:
        return [event.data for event in self.events if event.data is not None]

    @property
    def is_done(self) -> bool:
        return self.body.endswith(b"data: [DONE]\n\n")

    @property
    def text(self) -> str:
        """The joined content of a stream, or of a body's first choice."""
        if not self.headers.get("content-type", "").startswith("text/event-stream"):
            choice = self.json["choices"][0]
            return str(choice["message"]["content"] if "message" in choice else choice["text"])
        choices = [choice for chunk in self.chunks for choice in chunk["choices"]]
        return "".join(
            (choice["delta"].get("content") or "") if "delta" in choice else choice["text"] for choice in choices
        )

    @property
    def finish(self) -> str | None:
        reasons = [choice["finish_reason"] for chunk in self.chunks for choice in chunk["choices"]]
        return next((reason for reason in reasons if reason), None)


class Client:
    """Calls the app as Hypercorn would."""

    def __init__(self, app: Any, nursery: trio.Nursery) -> None:
        self._app = app
        self._nursery = nursery

    def start(
        self,
        path: str,
        body: Any = None,
        *,
        method: str | None = None,
        headers: Mapping[str, str | None] | None = None,
        peer: str | None = "127.0.0.1",
        scheme: str = "http",
    ) -> Call:
        """Send a request; its call fills while the test goes on. A header of None is left out."""
        call = Call()
        self._nursery.start_soon(self._run, call, path, body, method, headers or {}, peer, scheme)
        return call

    async def send(self, path: str, body: Any = None, **more: Any) -> Call:
        """Send a request and wait for the end of its response."""
        call = self.start(path, body, **more)
        await call.finished.wait()
        return call

    async def _run(
        self,
        call: Call,
        path: str,
        body: Any,
        method: str | None,
        headers: Mapping[str, str | None],
        peer: str | None,
        scheme: str,
    ) -> None:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        fields = {"host": "127.0.0.1:8000", "content-length": str(len(raw)), **headers}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method or ("GET" if body is None else "POST"),
            "scheme": scheme,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in fields.items() if value is not None],
            "client": None if peer is None else (peer, 40000),
            "server": ("127.0.0.1", 8000),
            "state": {},
            "extensions": {},
        }
        sent_body = False

        async def receive() -> Any:
            nonlocal sent_body
            if not sent_body:  # without a checkpoint, as where the body came with the headers
                sent_body = True
                return {"type": "http.request", "body": raw, "more_body": False}
            await call._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            await trio.lowlevel.checkpoint()
            if call._stalled:
                await call._gone.wait()
            if message["type"] == "http.response.start":
                call.status = message["status"]
                call.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
                call.opened_at = trio.current_time()
            elif message["type"] == "http.response.body":
                if message.get("body"):
                    call.pieces.append((trio.current_time(), bytes(message["body"])))
                if not message.get("more_body", False):
                    call._gone.set()
            call._changed.set()
            call._changed = trio.Event()

        try:
            await self._app(scope, receive, send)
        finally:
            call.finished.set()
            call._changed.set()


@dataclass(frozen=True, slots=True)
class Harness:
    """A service that runs, its client, and what it has written down."""

    service: Service
    client: Client
    engine: FakeEngine
    store: MemoryStore

    @property
    def outcomes(self) -> Sequence[Outcome]:
        return self.store.outcomes

    async def look(self) -> Sight:
        """What the watchdog sees, once every actor has come to rest."""
        await trio.testing.wait_all_tasks_blocked()
        return await self.service.context.watchdog.ask(Look)


@asynccontextmanager
async def open_harness(
    *,
    engine: FakeEngine | None = None,
    secrets: Secrets | None = None,
    images: ImageLoader | None = None,
    **settings: Any,
) -> AsyncIterator[Harness]:
    """A service with these settings and secrets; everything ends with the block."""
    engine = engine or FakeEngine()
    store = MemoryStore()
    parts = Parts(
        engine=engine, host=InlineHost(engine), store=store, blocking=Inline(), wall=FixedWall(), images=images
    )
    access = Access.from_settings(Settings(**settings), secrets or Secrets(), ["tandem-box"])
    async with open_service(Settings(**settings), parts, access) as service, trio.open_nursery() as nursery:
        yield Harness(service, Client(create_app(service.context), nursery), engine, store)
        nursery.cancel_scope.cancel()


def fake(**script: Any) -> str:
    """The text of a message that scripts the fake engine."""
    return f"@fake {json.dumps(script)}"


def chat(content: Any, **more: Any) -> dict[str, Any]:
    """A chat request with one user message; a dict scripts the fake engine."""
    text = fake(**content) if isinstance(content, dict) else content
    return {"model": "M", "messages": [{"role": "user", "content": text}], **more}
