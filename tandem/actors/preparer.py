"""The summary preparer: writes a compaction summary while nothing else runs, for the request to come (SCH-083).

Owns: the one summary that is prepared, and whose it is. Who knows how a client asks for one says so with `Grew`; the
prompt is that of the request to come. It runs on slot 0's engine in idle windows, chunk by chunk, and what it has
stays: rows in the caches, the text here. It never begins where it would cost the conversation its rows.

| message in    | from   | answer or effect                                                                  |
|---------------|--------|-----------------------------------------------------------------------------------|
| `Grew`        | caller | this summary is prepared next, in place of any other; one of the same prompt stays |
| `Changed`     | caller | the conversation is another now: its summary is dropped                           |
| `TakeSummary` | caller | the text's tokens, once; None where there is none for this very prompt            |
| `Window`      | broker | the work goes on, until it is told to yield                                       |
| `NotAllowed`  | broker | there is no window for it                                                         |
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

import trio

from tandem.actors.host import EngineHost
from tandem.actors.kit import Actor, Ref, Reply
from tandem.actors.turns import GiveUp, Turn, TurnMessage, Want
from tandem.actors.windows import NotAllowed, OwnJob, WantWindow, Window, WindowMessage
from tandem.engine.decoding.resumable import Resumable
from tandem.engine.decoding.work import perform
from tandem.engine.errors import EngineError

if TYPE_CHECKING:
    from tandem.engine.text.prompt import Prompt
    from tandem.engine.verbs import Engine, SamplingRules

__all__ = ["Changed", "Grew", "Preparer", "PreparerMessage", "TakeSummary"]

log = logging.getLogger(__name__)

WORK: Final[OwnJob] = "summary"
SLOT: Final = 0
"""Own work on slot 0's engine has the GPU turn under its name (SCH-060)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grew:
    conversation: str
    prompt: Prompt = field(repr=False)
    rules: SamplingRules = field(repr=False)
    limit: int
    """Tokens that the request to come may have."""


@dataclass(frozen=True, slots=True)
class Changed:
    conversation: str


@dataclass(frozen=True, slots=True)
class TakeSummary:
    keys: tuple[int, ...] = field(repr=False)
    """Key ids of the prompt that asks for it."""
    reply: Reply[tuple[int, ...] | None]


PreparerMessage: TypeAlias = Grew | Changed | TakeSummary | Window | NotAllowed


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    conversation: str
    text: Resumable


class Preparer(Actor[PreparerMessage]):
    name = "preparer"
    essential = False

    def __init__(
        self,
        *,
        engine: Engine[Any, Any],
        host: EngineHost,
        turns: Ref[TurnMessage],
        windows: Ref[WindowMessage],
    ) -> None:
        super().__init__()
        self._engine = engine
        self._host = host
        self._turns = turns
        self._windows = windows
        self._job: _Job | None = None
        self._asked = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._asked = False
        task_status.started()
        async for message in self.inbox:
            if isinstance(message, Window):
                await self._use(message)
            else:
                self._take(message)
            if self._job is not None and not self._job.text.done and not self._asked:
                self._asked = True
                await self._windows.tell(WantWindow(WORK, "idle", self.ref))

    def _take(self, message: PreparerMessage) -> None:
        match message:
            case Grew(conversation=conversation, prompt=prompt, rules=rules, limit=limit):
                if self._job is None or self._job.text.keys != prompt.keys:
                    grid = self._engine.card.anchor_grid
                    self._job = _Job(conversation, Resumable(prompt, rules, limit=limit, grid=grid))
            case Changed(conversation):
                if self._job is not None and self._job.conversation == conversation:
                    self._job = None
            case TakeSummary(keys, reply):
                job = self._job
                if job is not None and job.text.done and job.text.keys == keys:
                    self._job = None
                    reply.send(job.text.ids)
                else:
                    reply.send(None)
            case NotAllowed(reason):
                log.warning("[own] no summary is prepared: %s", reason)
                self._job = None
            case Window():
                raise RuntimeError("a window opened inside a window")
            case _:
                assert_never(message)

    async def _use(self, window: Window) -> None:
        """Work until it is done, dropped or told to yield; then the turn goes back, and the window."""
        self._asked = False
        try:
            if self._job is not None and not window.yield_now.is_set():
                turn: Turn = await self._turns.ask(lambda reply: Want(SLOT, reply))
                await self._work(self._job, window, turn)
        except EngineError as error:
            log.error("[own] a summary is not prepared: %s", error)
            self._job = None
        except Exception:
            self._job = None  # a defect ends the job; what comes next begins anew
            raise
        finally:
            self._turns.offer(GiveUp(SLOT))  # a scheduler without room for it has ended itself
            with trio.CancelScope(shield=True):  # bounded by the broker, which never waits for a job
                await window.leave(WORK, self._windows)

    async def _work(self, job: _Job, window: Window, turn: Turn) -> None:
        text, (resident, _) = job.text, self._engine.resident()
        if text.displaces(resident):
            self._job = None  # another conversation has the rows, or this one has gone on
            return
        seq = await self._host.run_verb(partial(self._engine.open, text.prompt))
        try:
            text.open(resident)
            while self._job is job and not (window.yield_now.is_set() or turn.recalled.is_set()):
                if (work := text.next()) is None:
                    break
                text.feed(await self._host.run_verb(partial(perform, self._engine, seq, work, text.rules)))
                while (message := self.inbox.receive_nowait()) is not None:
                    self._take(message)
        finally:
            with trio.CancelScope(shield=True):  # bounded by one verb
                await self._host.run_verb(partial(self._engine.close, seq))

    def __repr__(self) -> str:
        return f"<Preparer {self._job and self._job.conversation}>"
