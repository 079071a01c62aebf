"""What is noted of a completion request while it runs, and the `Outcome` that is made of it at its end."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import trio

from tandem.actors.live import Began, Ended
from tandem.actors.store import Record
from tandem.actors.watchdog import Counted
from tandem.conductor.misses import Turn
from tandem.conductor.router.client_kind import client_kind
from tandem.engine.text.reading.deltas import Finish
from tandem.http.context import Context
from tandem.http.events import Course
from tandem.http.figures import figures, waits
from tandem.http.openai.errors import ApiError
from tandem.live.seen import Phase, RequestSeen
from tandem.log import request_line
from tandem.store.outcome import Outcome

if TYPE_CHECKING:
    from tandem.conductor.documents import Mode
    from tandem.conductor.monitor.events import MonitorEvent
    from tandem.engine.decoding.seams import Reader
    from tandem.engine.decoding.tally import Progress
    from tandem.engine.text.model import Conversation
    from tandem.engine.text.prompt import Prompt
    from tandem.engine.verbs import SamplingRules
    from tandem.http.answering import Source
    from tandem.http.journaling import Witness
    from tandem.http.lining import Lining
    from tandem.http.monitoring import Monitoring

__all__ = ["RequestRecord", "address_of"]

log = logging.getLogger(__name__)

BUSY = (429, 503)
CLIENT_CLOSED = 499
"""The status a row has where the client left before any was sent; no response carries it."""


class RequestRecord:
    """Begun at arrival, closed once: then the row, the counts and the log line go out."""

    def __init__(self, context: Context, request_id: str, endpoint: str, headers: Mapping[str, str]) -> None:
        self._context = context
        self.endpoint = endpoint
        self.headers = headers
        self._ts_ms = int(context.wall.now().timestamp() * 1e3)
        self._error: ApiError | None = None
        self._finishes: list[Finish] = []
        self._closed = False
        self.client_id = _client_id(headers)
        self.request_id = request_id
        self.arrived_at = trio.current_time()
        self.stream = False
        self.model: str | None = None
        self.mode: Mode = "raw"
        self.profile: str | None = None
        """Both as resolved; no profile without a conductor."""
        self.readers: list[Reader] = []
        """One a choice."""
        self.witness: Witness | None = None
        self.lining: Lining | None = None
        """There where state lines are on."""
        self.states_stripped = 0
        """Characters of framed lines that were removed from what the client sent."""
        self.monitoring: Monitoring | None = None
        """There where the monitor looks on."""
        self.acts: list[MonitorEvent] = []
        """What the monitor has done to the answer."""
        self.sampling: str | None = None
        """Why the plan has it sampled."""
        self.kind = client_kind(headers)
        """Who asks, told more exactly once the messages are known."""
        self.calls = 0
        """Tool calls that were completed."""
        self.tool: str | None = None
        self.tool_bytes = 0
        """Of the newest call's arguments."""
        self.tool_open = False
        """Whether the newest call is still being written."""
        self.limit: int | None = None
        self.budget: Mapping[str, Any] = {}
        """What the row says of the budget that the client asked for."""
        self.wait_s: float | None = None
        """How long it may wait for a slot."""
        self.choices = 1
        self.images_left_out = 0
        self.session: str | None = None
        self.conversation: Conversation | None = None
        self.prompt: Prompt | None = None
        self.rules: SamplingRules | None = None
        self.exchange: Source | None = None
        self.client_gone_at: float | None = None
        context.live.offer(Began(request_id, self.look))

    def tell_kind(self, messages: Sequence[Mapping[str, Any]], *, has_tools: bool) -> None:
        """Some clients show in what they send, not in their headers (API-069)."""
        self.kind = client_kind(self.headers, messages, has_tools=has_tools)

    @property
    def replayed(self) -> int:
        """Hidden tokens of earlier answers that came back (ANS-004)."""
        return self._finishes[0].usage.replayed if self._finishes else 0

    @property
    def address(self) -> str:
        return address_of(self.headers)

    @property
    def has_failed(self) -> bool:
        return self._error is not None

    @property
    def is_refused(self) -> bool:
        """It has ended before anything was generated."""
        return self._reason() == "refused"

    def failed(self, error: ApiError) -> None:
        """The request was refused or has failed; the first reason stands."""
        self._error = self._error or error

    def finished(self, finishes: Sequence[Finish]) -> None:
        """Choices have ended."""
        self._finishes.extend(finishes)

    def close(self) -> None:
        """The request is over. Offers the row and the counts, which never delay it, and writes its log line."""
        if self._closed:
            return
        self._closed = True
        outcome = self._outcome()
        self._context.store.offer(Record(outcome))
        self._context.metrics.ended(outcome)
        self._context.live.offer(Ended(outcome))
        self._context.watchdog.offer(_counted(outcome))
        log.info(request_line(outcome))

    def turn(self) -> Turn | None:
        """The request as its conversation's next turn, once it has ended; None where its prompt was not read."""
        if not self._finishes or self.prompt is None or self.conversation is None or self.session is None:
            return None
        usage, timings = self._finishes[0].usage, self._finishes[0].timings
        if usage.engine_cached + usage.engine_prompt < len(self.prompt.ids) or timings.cache_source == "response":
            return None
        return Turn(
            client=self.client_id,
            session=self.session,
            conversation=self.conversation,
            prompt=self.prompt,
            resumed=max(usage.engine_cached - usage.replayed, 0),
            prefill_s=timings.prompt_ms / 1e3,
            reasoned=usage.reasoning > 0,
        )

    def look(self) -> RequestSeen:
        """What the live view shows of it now."""
        exchange = self.exchange
        progress = exchange.progress if exchange else None
        return RequestSeen(
            request_id=self.request_id,
            endpoint=self.endpoint,
            stream=self.stream,
            model=self.model,
            client_kind=self.kind,
            client_id=self.client_id,
            mode=self.mode,
            profile=self.profile,
            thinking=self._thinking,
            temperature=self.rules.temperature if self.rules else None,
            max_tokens=self.limit,
            choices=self.choices,
            choice=exchange.choice if exchange else 0,
            phase=self._phase(progress),
            ts_ms=self._ts_ms,
            arrived_at=self.arrived_at,
            granted_at=progress.started_at if progress else None,
            first_at=progress.first_at if progress else None,
            last_at=progress.last_at if progress else None,
            client_gone_at=self.client_gone_at,
            slot=exchange.course.slot if exchange else None,
            wait_s=self.wait_s,
            lane=exchange.course.lane if exchange else None,
            missing=exchange.course.missing if exchange else 0,
            memory_place=exchange.course.position if exchange else 1,
            prompt_tokens=self.prompt.client_tokens if self.prompt else None,
            rows=progress.rows if progress else None,
            read=progress.read if progress else 0,
            resumed=progress.resumed if progress else 0,
            cache_source=progress.cache_source if progress else "none",
            image=progress.image if progress else None,
            completion=progress.completion if progress else 0,
            reasoning=progress.reasoning if progress else 0,
            in_reasoning=progress.in_reasoning if progress else False,
            in_call=progress.in_call if progress else False,
            tool=self.tool,
            tool_bytes=self.tool_bytes,
            tool_open=self.tool_open,
            rounds=progress.rounds if progress else 0,
            drafted=progress.drafted if progress else 0,
            draft_accepted=progress.draft_accepted if progress else 0,
            is_closed=self._closed,
            line=self.lining.newest if self.lining else None,
            conductor=self.monitoring.look(progress) if self.monitoring else None,
        )

    def _phase(self, progress: Progress | None) -> Phase:
        exchange = self.exchange
        if self._closed or (exchange is not None and exchange.is_over):
            return "finishing"
        if exchange is None or progress is None:
            return "reading"
        if exchange.course.slot is None or exchange.course.missing:
            return "queued"
        return "prefilling" if progress.read < progress.rows else "writing"

    @property
    def _thinking(self) -> str | None:
        if self.prompt is None or self.endpoint != "chat":
            return None
        return "off" if self.prompt.thinking == "off" else "on"

    @property
    def _sampling(self) -> str | None:
        if self.sampling is not None:
            return self.sampling
        return "client" if self.rules is not None and self.rules.temperature > 0 else None

    def _outcome(self) -> Outcome:
        reason = self._reason()
        error = self._error
        status = error.status if error else CLIENT_CLOSED if reason == "abandoned" else 200
        total_ms = 1e3 * (trio.current_time() - self.arrived_at)
        return Outcome(
            request_id=self.request_id,
            ts_ms=self._ts_ms,
            endpoint=self.endpoint,
            stream=self.stream,
            status=status,
            finish_reason=reason,
            error_type=(error.code or error.type) if error else None,
            stop_detail=self._finishes[0].detail if self._finishes and not error else None,
            model=self.model,
            client_id=self.client_id,
            client_kind=self.kind,
            conductor_mode=self.mode,
            profile=self.profile,
            total_ms=total_ms,
            thinking=self._thinking,
            sampling=self._sampling,
            engine_version=self._context.identity.version,
            code_sha=self._context.identity.code_sha256,
            images_left_out=self.images_left_out,
            max_tokens=self.limit,
            **waits(self.exchange.course if self.exchange else Course()),
            **figures(self._finishes, self.calls, self.acts),
        )

    def outcome_words(self) -> str:
        """How it ended, for its rows in the journal (OBS-022)."""
        written = sum(finish.usage.completion for finish in self._finishes)
        return f"{self._reason()}, {written} tokens" if self._finishes else self._reason()

    def _reason(self) -> str:
        if self._error is not None:
            return "refused" if self._error.status < 500 or self._error.status in BUSY else "error"
        if len(self._finishes) < self.choices:
            return "abandoned"
        reasons = [finish.reason for finish in self._finishes]
        for worst in ("error", "abandoned", "timeout", "length", "tool_calls"):
            if worst in reasons:
                return worst
        return "stop"


def address_of(headers: Mapping[str, str]) -> str:
    """Under which a client reached the server; `headers` have lower-case names."""
    forwarded = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return f"{'https' if forwarded == 'https' else 'http'}://{headers.get('host', 'localhost')}"


def _client_id(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        return "anon"
    return "k:" + hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _counted(outcome: Outcome) -> Counted:
    return Counted(outcome.status, outcome.finish_reason, outcome.error_type, outcome.lane)
