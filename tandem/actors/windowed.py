"""What the actors share whose work is done in idle windows (SCH-080): they ask for a window while there is work, have
slot 0's engine inside it, and give both back, whatever ended the work.
"""

from __future__ import annotations

from typing import ClassVar, Final, TypeAlias, TypeVar

import trio

from tandem.actors.host import EngineHost
from tandem.actors.kit import Actor, Ref
from tandem.actors.turns import GiveUp, Turn, TurnMessage, Want
from tandem.actors.windows import NotAllowed, OwnJob, WantWindow, Window, WindowMessage

__all__ = ["Broker", "Windowed"]

M = TypeVar("M")

Broker: TypeAlias = Window | NotAllowed
"""What the broker of windows says."""

SLOT: Final = 0
"""Own work on slot 0's engine has the GPU turn under its name (SCH-060)."""


class Windowed(Actor[M | Broker]):
    """`M` is what is said to the actor beside what the broker says."""

    essential = False
    work: ClassVar[OwnJob]

    def __init__(self, *, host: EngineHost, turns: Ref[TurnMessage], windows: Ref[WindowMessage]) -> None:
        super().__init__()
        self._host = host
        self._turns = turns
        self._windows = windows
        self._asked = False

    @property
    def _has_work(self) -> bool:
        """Whether there is something to do in a window."""
        raise NotImplementedError

    def _take(self, message: M | NotAllowed) -> None:
        """A message, between windows or in one."""
        raise NotImplementedError

    async def _use(self, window: Window) -> None:
        """Work until it is done, dropped or told to yield; it begins with `_take_turn`."""
        raise NotImplementedError

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._asked = False
        task_status.started()
        async for message in self.inbox:
            if isinstance(message, Window):
                await self._enter(message)
            else:
                self._take(message)
            if self._has_work and not self._asked:
                self._asked = True
                await self._windows.tell(WantWindow(self.work, "idle", self.ref))

    async def _enter(self, window: Window) -> None:
        """The work, and then the turn goes back, and the window."""
        self._asked = False
        try:
            if self._has_work and not window.yield_now.is_set():
                await self._use(window)
        finally:
            self._turns.offer(GiveUp(SLOT))  # a scheduler without room for it has ended itself
            with trio.CancelScope(shield=True):  # bounded by the broker, which never waits for a job
                await window.leave(self.work, self._windows)

    async def _take_turn(self) -> Turn:
        return await self._turns.ask(lambda reply: Want(SLOT, reply))

    def _take_waiting(self) -> None:
        """What has come meanwhile; a window is open already."""
        while (message := self.inbox.receive_nowait()) is not None:
            if isinstance(message, Window):
                raise RuntimeError("a window opened inside a window")
            self._take(message)
