"""What every actor is made of: bounded inboxes, three ways to send, supervision, the injected clock, `Blocking`.

An actor is one class in one file. Its messages stand at the file's head as frozen dataclasses, its `run()` holds one
`match` over them, its state is its attributes, and nobody else touches that state. This module imports nothing of
Tandem.
"""

from __future__ import annotations

import datetime
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from weakref import WeakSet

import trio

__all__ = [
    "Actor",
    "ActorGone",
    "Blocking",
    "Inbox",
    "Inline",
    "Ref",
    "Reply",
    "SystemWallClock",
    "Threads",
    "WallClock",
    "open_mailbox",
    "supervise",
]

M = TypeVar("M")
T = TypeVar("T")

log = logging.getLogger(__name__)

RESTARTS = 3
RESTART_WINDOW_S = 600.0


class ActorGone(Exception):
    """The actor behind a `Ref` has ended, so the message can have no effect."""


class Reply(Generic[T]):
    """The one-shot answer to a question: made by the asker, answered once by the owner."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[T](1)
        self._closed = trio.Event()

    def send(self, value: T) -> bool:
        """Answer. False when the asker has gone: the owner then undoes what it had given."""
        try:
            with self._send:
                self._send.send_nowait(value)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    def drop(self) -> None:
        """End without an answer; the asker gets `ActorGone`."""
        self._send.close()

    async def wait(self) -> T:
        """The answer. May be waited for again after a timeout of the caller's own; end with `close`."""
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            raise ActorGone("the actor ended before it answered") from None

    def take_nowait(self) -> T | None:
        """The answer, where it has already come."""
        try:
            return self._receive.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return None

    def close(self) -> None:
        """The asker's end: whoever answers now learns that nobody listens."""
        self._receive.close()
        self._closed.set()

    async def wait_closed(self) -> None:
        """For an owner whose answer takes time: returns when nobody waits for it any more."""
        await self._closed.wait()


class Ref(Generic[M]):
    """The sending side of an actor's inbox."""

    def __init__(self, name: str, send: trio.MemorySendChannel[M], inbox: Inbox[M]) -> None:
        self.name = name
        self._send = send
        self._inbox = inbox
        self.dropped = 0
        """Messages `offer` could not place."""

    @property
    def depth(self) -> int:
        """Messages that wait."""
        return self._inbox.depth

    @property
    def handled(self) -> int:
        """Messages the actor has taken since it started; stands still while it is stuck."""
        return self._inbox.handled

    async def tell(self, message: M) -> None:
        """Send; waits for room. Raises `ActorGone` when the actor has ended."""
        self._inbox.note(message)
        try:
            await self._send.send(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ActorGone(self.name) from None

    def offer(self, message: M) -> bool:
        """Send or drop and count: for what must never delay a token."""
        self._inbox.note(message)
        try:
            self._send.send_nowait(message)
        except (trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
            self.dropped += 1
            return False
        return True

    async def ask(self, question: Callable[[Reply[T]], M]) -> T:
        """Send `question(reply)` and wait for the answer, under the caller's own cancel scope."""
        reply = Reply[T]()
        try:
            await self.tell(question(reply))
            return await reply.wait()
        finally:
            reply.close()

    def __repr__(self) -> str:
        return f"<Ref {self.name}: {self.depth} waiting, {self.handled} handled, {self.dropped} dropped>"


class Inbox(Generic[M]):
    """The receiving side: iterate it in `run()`, or take what is there with `receive_nowait`.

    A message that wants an answer carries it as `reply`: whoever still waits for one when the inbox is closed gets
    `ActorGone`, be the question unread, in hand or put by.
    """

    def __init__(self, receive: trio.MemoryReceiveChannel[M]) -> None:
        self._receive = receive
        self._asked: WeakSet[Reply[Any]] = WeakSet()
        self.handled = 0

    def note(self, message: M) -> None:
        """Called before `message` is sent."""
        reply = getattr(message, "reply", None)
        if isinstance(reply, Reply):
            self._asked.add(reply)

    @property
    def depth(self) -> int:
        return self._receive.statistics().current_buffer_used

    def __aiter__(self) -> Inbox[M]:
        return self

    async def __anext__(self) -> M:
        return await self.receive()

    async def receive(self) -> M:
        message = await self._receive.receive()
        self.handled += 1
        return message

    def receive_nowait(self) -> M | None:
        """The next message, or None."""
        try:
            message = self._receive.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return None
        self.handled += 1
        return message

    def __enter__(self) -> Inbox[M]:
        return self

    def __exit__(self, *_: object) -> None:
        self._receive.close()
        for reply in self._asked:
            reply.drop()


def open_mailbox(name: str, size: int) -> tuple[Ref[M], Inbox[M]]:
    """An inbox of `size` messages and the reference that sends to it."""
    send, receive = trio.open_memory_channel[M](size)
    inbox = Inbox(receive)
    return Ref(name, send, inbox), inbox


class Actor(Generic[M]):
    """Base of every actor. Subclasses set the class attributes and write `run`."""

    name: ClassVar[str]
    essential: ClassVar[bool] = True
    """A defect in an essential actor drains the service; one in another switches that feature off (SCH-006)."""
    inbox_size: ClassVar[int] = 64

    def __init__(self, name: str | None = None) -> None:
        self.ref: Ref[M]
        self.ref, self.inbox = open_mailbox(name or self.name, self.inbox_size)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve the inbox for the actor's life; calls `task_status.started()` once it can answer."""
        raise NotImplementedError


async def supervise(  # noqa: ASYNC128  the actor's own `run` says that it has started
    actor: Actor[M],
    on_defect: Callable[[str, Exception], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run an actor as SCH-006 says: a defect of an essential one is handed to `on_defect` and ends it; an own-work
    actor is started again, three times in ten minutes at most, and then stays off, which `on_defect` is told too."""
    restarts: deque[float] = deque()
    once = _StartedOnce(task_status)
    with actor.inbox:  # closed when the actor has ended for good, and not before a restart
        while True:
            try:
                await actor.run(task_status=once)
            except Exception as defect:
                log.exception("[actor] %s failed", actor.ref.name)
                now = trio.current_time()
                while restarts and restarts[0] < now - RESTART_WINDOW_S:
                    restarts.popleft()
                if actor.essential or len(restarts) == RESTARTS:
                    on_defect(actor.ref.name, defect)
                    if not actor.essential:
                        once.started()  # the service comes up without it
                    return
                restarts.append(now)
            else:
                return


class _StartedOnce(trio.TaskStatus[None]):
    """Passes the first `started` on: a restarted actor says it again, and its starter has long gone on."""

    def __init__(self, status: trio.TaskStatus[None]) -> None:
        self._status: trio.TaskStatus[None] | None = status

    def started(self, value: None = None) -> None:
        status, self._status = self._status, None
        if status is not None:
            status.started()


class WallClock(Protocol):
    """The one source of dates; durations come from trio's clock instead (SCH-007)."""

    def now(self) -> datetime.datetime:
        """The present, with a time zone."""


class SystemWallClock:
    """The machine's own clock."""

    def now(self) -> datetime.datetime:
        return datetime.datetime.now().astimezone()


class Blocking(Protocol):
    """CPU work that would hold up the event loop, under one limiter a purpose (SCH-113)."""

    async def run(self, purpose: str, work: Callable[..., T], *args: object) -> T:
        """`work(*args)`; its exceptions come through unchanged."""


class Inline:
    """Runs the work where it is called: under a mock clock there is no thread."""

    async def run(self, purpose: str, work: Callable[..., T], *args: object) -> T:
        await trio.lowlevel.checkpoint()
        return work(*args)


@dataclass(frozen=True, slots=True)
class Threads:
    """Runs the work in worker threads; `limits` is the number of threads a purpose may use at once."""

    limiters: Mapping[str, trio.CapacityLimiter]

    @classmethod
    def with_limits(cls, limits: Mapping[str, int]) -> Threads:
        return cls({purpose: trio.CapacityLimiter(limit) for purpose, limit in limits.items()})

    async def run(self, purpose: str, work: Callable[..., T], *args: object) -> T:
        # Abandoned when its asker leaves: such work has no effect outside its result.
        call: Callable[[], T] = lambda: work(*args)  # noqa: E731
        return await trio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self.limiters[purpose])
