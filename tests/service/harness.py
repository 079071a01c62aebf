"""A whole service in one task tree: fake engine, inline store, no thread, no socket; its app is called as ASGI.

Under `autojump_clock` hours pass in milliseconds. `Client.start` gives a `Call` whose pieces arrive with the times at
which they were sent; `Call.leave` is what Hypercorn does when a client has gone. `Client.connect` gives a `Socket`, the
same for a websocket. A path may have a query.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
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
from tandem.store.inline import open_inline
from tandem.store.outcome import Outcome

__all__ = ["Call", "Client", "Event", "Harness", "Socket", "chat", "fake", "open_harness"]


class FixedWall:
    """A wall clock that goes with trio's."""

    def now(self) -> datetime.datetime:
        start = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
        return start + datetime.timedelta(seconds=trio.current_time())


class MemoryStore(Store):
    """The store actor, without a file where none is named; keeps the outcomes it was offered."""

    def __init__(self, ledger: Path | None = None) -> None:
        super().__init__(None if ledger is None else partial(open_inline, ledger), FixedWall())
        self.outcomes: list[Outcome] = []

    def _take(self, message: Any) -> None:
        if isinstance(message, Record):
            self.outcomes.append(message.outcome)
        super()._take(message)


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event: when it was sent, its JSON (None for `[DONE]`), or its comment; its type and id if any."""

    at: float
    data: Any = None
    comment: str | None = None
    kind: str | None = None
    id: str | None = None


def _event(at: float, block: str) -> Event:
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    payload = fields.pop("data")
    data = None if payload == "[DONE]" else json.loads(payload)
    event = Event(at, data=data, kind=fields.pop("event", None), id=fields.pop("id", None))
    assert not fields, block
    return event


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
                    events.append(_event(at, block))
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


@dataclass(slots=True)
class Socket:
    """One websocket: what has come of it so far. Refused, it has a status, headers and a body instead of messages."""

    accepted: bool = False
    messages: list[tuple[float, Any]] = field(default_factory=list)
    """The JSON of each, with the time at which it was sent."""
    code: int | None = None
    """That of the server's close."""
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    finished: trio.Event = field(default_factory=trio.Event)
    _inbox: list[dict[str, Any]] = field(default_factory=lambda: [{"type": "websocket.connect"}])
    _stalled: bool = False
    _gone: bool = False
    _changed: trio.Event = field(default_factory=trio.Event)

    def say(self, text: str) -> None:
        """The peer sends a message."""
        self._inbox.append({"type": "websocket.receive", "text": text, "bytes": None})
        self._note()

    def leave(self) -> None:
        """The peer closes its connection."""
        self._gone = True
        self._note()

    def stall(self) -> None:
        """The peer reads no more: the server's next write blocks until it leaves."""
        self._stalled = True

    def resume(self) -> None:
        self._stalled = False
        self._note()

    async def wait_for(self, count: int = 1) -> None:
        """Returns once `count` messages have been sent, or the websocket has ended."""
        await self._until(lambda: len(self.messages) >= count or self.finished.is_set())

    def of(self, kind: str) -> list[Any]:
        """The data of the messages of a type."""
        return [message["data"] for _, message in self.messages if message["type"] == kind]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def _note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    async def _receive(self) -> dict[str, Any]:
        await self._until(lambda: bool(self._inbox) or self._gone)
        return self._inbox.pop(0) if self._inbox else {"type": "websocket.disconnect", "code": 1006}

    async def _send(self, message: Any) -> None:
        """As Hypercorn: without a checkpoint, and to a peer that has gone without an error."""
        if self._stalled:
            await self._until(lambda: not self._stalled or self._gone)
        if self._gone:
            return
        match message["type"]:
            case "websocket.accept":
                self.accepted = True
            case "websocket.send":
                self.messages.append((trio.current_time(), json.loads(message["text"])))
            case "websocket.close":
                self.code = message["code"]
                self._gone = True
            case "websocket.http.response.start":
                self.status = message["status"]
                self.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            case "websocket.http.response.body":
                self.body += bytes(message["body"])
            case other:
                raise AssertionError(other)
        self._note()


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

    def connect(
        self,
        path: str,
        *,
        headers: Mapping[str, str | None] | None = None,
        peer: str | None = "127.0.0.1",
        can_refuse: bool = True,
    ) -> Socket:
        """Ask for a websocket. `can_refuse`: the server can send a response in place of the handshake."""
        socket = Socket()
        self._nursery.start_soon(self._talk, socket, path, headers or {}, peer, can_refuse)
        return socket

    async def _talk(
        self, socket: Socket, path: str, headers: Mapping[str, str | None], peer: str | None, can_refuse: bool
    ) -> None:
        fields = {"host": "127.0.0.1:8000", "connection": "Upgrade", "upgrade": "websocket", **headers}
        scope = {
            **_scope("websocket", path, fields, peer),
            "scheme": "ws",
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}} if can_refuse else {},
        }
        try:
            await self._app(scope, socket._receive, socket._send)
        finally:
            socket.finished.set()
            socket._note()

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
            **_scope("http", path, fields, peer),
            "method": method or ("GET" if body is None else "POST"),
            "scheme": scheme,
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


def _scope(kind: str, target: str, fields: Mapping[str, str | None], peer: str | None) -> dict[str, Any]:
    path, _, query = target.partition("?")
    return {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in fields.items() if value is not None],
        "client": None if peer is None else (peer, 40000),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }


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
    engine_host: InlineHost | None = None,
    secrets: Secrets | None = None,
    images: ImageLoader | None = None,
    ledger: Path | None = None,
    more: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Harness]:
    """A service with these settings and secrets, and a ledger's file if it is named; everything ends with the block.

    `more` are further parts.
    """
    engine = engine or FakeEngine()
    store = MemoryStore(ledger)
    parts = Parts(
        engine=engine,
        host=engine_host or InlineHost(engine),
        store=store,
        blocking=Inline(),
        wall=FixedWall(),
        images=images,
        **(more or {}),
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
