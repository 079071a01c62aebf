"""The shadow reader: after a turn a small model reads what the conversation gained, while nothing else runs (SCH-082).

Owns: which conversations are to be read on. The model and its sessions are a `Reader`, whose verbs run on the engine
thread under slot 0's name (SCH-060). It reads in bursts of chunks, one burst a window; told to yield it stops after the
chunk in flight, and the next window goes on there.

| message in   | from   | answer or effect                                                                       |
|--------------|--------|----------------------------------------------------------------------------------------|
| `TurnEnded`  | caller | the conversation is read on; told in the end: finished, failed, or not done            |
| `Window`     | broker | a burst, until it is told to yield                                                     |
| `NotAllowed` | broker | there is no window for it: nothing is read                                             |
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol, TypeAlias, assert_never

from tandem.actors.host import EngineHost
from tandem.actors.kit import Ref, Reply
from tandem.actors.turns import TurnMessage
from tandem.actors.windowed import Windowed
from tandem.actors.windows import NotAllowed, Window, WindowMessage
from tandem.engine.errors import EngineError

__all__ = ["BURST", "MAX_WAITING", "Ended", "Reader", "ShadowReader", "TurnEnded"]

log = logging.getLogger(__name__)

BURST = 16
"""Chunks of one burst."""
MAX_WAITING = 16
"""Conversations that wait to be read on; one more, and the oldest is not done."""

Ended: TypeAlias = Literal["finished", "failed", "not_done"]


class Reader(Protocol):
    """A model with a session for each conversation. Verbs; `EngineError` where one fails."""

    def read(self, conversation: str, ids: Sequence[int]) -> int:
        """Read one chunk of what `ids` hold beyond what the session has read: how many of them are left."""

    def park(self) -> None:
        """A burst is over: sessions may be saved and the model unloaded, as far as there is use in that."""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    conversation: str
    ids: tuple[int, ...] = field(repr=False)
    """All of it as it stands now."""
    reply: Reply[Ended]


class ShadowReader(Windowed[TurnEnded]):
    name = "reader"
    work = "reader"

    def __init__(
        self,
        *,
        reader: Reader,
        host: EngineHost,
        turns: Ref[TurnMessage],
        windows: Ref[WindowMessage],
        burst: int = BURST,
    ) -> None:
        super().__init__(host=host, turns=turns, windows=windows)
        self._reader = reader
        self._burst = burst
        self._waiting: dict[str, TurnEnded] = {}
        """In the order they are read."""

    @property
    def _has_work(self) -> bool:
        return bool(self._waiting)

    def _take(self, message: TurnEnded | NotAllowed) -> None:
        match message:
            case TurnEnded(conversation):
                self._end(conversation, "not_done")  # an earlier turn of it, which this one holds as well
                if len(self._waiting) == MAX_WAITING:
                    self._end(next(iter(self._waiting)), "not_done")
                self._waiting[conversation] = message
            case NotAllowed(reason):
                log.warning("[own] no conversation is read on: %s", reason)
                for conversation in tuple(self._waiting):
                    self._end(conversation, "not_done")
            case _:
                assert_never(message)

    async def _use(self, window: Window) -> None:
        """One burst. Who waits for the engine waits for a chunk, not for sessions to be saved."""
        turn = await self._take_turn()
        for _ in range(self._burst):
            if not self._waiting:
                break
            await self._read_chunk(next(iter(self._waiting.values())))
            self._take_waiting()
            if window.yield_now.is_set() or turn.recalled.is_set():
                return
        try:
            await self._host.run_verb(self._reader.park)
        except EngineError as error:
            log.error("[own] the shadow reader's sessions are not parked: %s", error)

    async def _read_chunk(self, turn: TurnEnded) -> None:
        try:
            left = await self._host.run_verb(partial(self._reader.read, turn.conversation, turn.ids))
        except EngineError as error:
            log.error("[own] a conversation is not read on: %s", error)
            self._end(turn.conversation, "failed")
            return
        except Exception:
            self._end(turn.conversation, "failed")  # a defect ends the job; the next one begins anew
            raise
        if not left:
            self._end(turn.conversation, "finished")

    def _end(self, conversation: str, ended: Ended) -> None:
        if (turn := self._waiting.pop(conversation, None)) is not None:
            turn.reply.send(ended)

    def __repr__(self) -> str:
        return f"<ShadowReader {len(self._waiting)} to be read>"
