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
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import trio

from tandem.actors.host import EngineHost
from tandem.actors.kit import Ref, Reply
from tandem.actors.turns import Turn, TurnMessage
from tandem.actors.windowed import Broker, Windowed
from tandem.actors.windows import NotAllowed, Window, WindowMessage
from tandem.engine.decoding.resumable import Resumable
from tandem.engine.decoding.work import perform
from tandem.engine.errors import EngineError

if TYPE_CHECKING:
    from tandem.engine.text.prompt import Prompt
    from tandem.engine.verbs import Engine, SamplingRules

__all__ = ["Changed", "Grew", "Preparer", "PreparerMessage", "TakeSummary"]

log = logging.getLogger(__name__)


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


Told: TypeAlias = Grew | Changed | TakeSummary
PreparerMessage: TypeAlias = Told | Broker


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    conversation: str
    text: Resumable


class Preparer(Windowed[Told]):
    name = "preparer"
    work = "summary"

    def __init__(
        self,
        *,
        engine: Engine[Any, Any],
        host: EngineHost,
        turns: Ref[TurnMessage],
        windows: Ref[WindowMessage],
    ) -> None:
        super().__init__(host=host, turns=turns, windows=windows)
        self._engine = engine
        self._job: _Job | None = None

    @property
    def _has_work(self) -> bool:
        return self._job is not None and not self._job.text.done

    def _take(self, message: Told | NotAllowed) -> None:
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
            case _:
                assert_never(message)

    async def _use(self, window: Window) -> None:
        try:
            turn = await self._take_turn()
            if self._job is not None:
                await self._work(self._job, window, turn)
        except EngineError as error:
            log.error("[own] a summary is not prepared: %s", error)
            self._job = None
        except Exception:
            self._job = None  # a defect ends the job; what comes next begins anew
            raise

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
                self._take_waiting()
        finally:
            with trio.CancelScope(shield=True):  # bounded by one verb
                await self._host.run_verb(partial(self._engine.close, seq))

    def __repr__(self) -> str:
        return f"<Preparer {self._job and self._job.conversation}>"
