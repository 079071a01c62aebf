"""One request as the live view follows it, looked at again and again: its states, its rates, what it does. No clock.

A look may fail, as any code may; the request is then shown as unknown, and the log says so once.
"""

from __future__ import annotations

import datetime
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tandem.live import words
from tandem.live.event import (
    ActivityState,
    DecodeNow,
    Holder,
    ImageNow,
    Phase,
    PrefillNow,
    Step,
    ToolNow,
)
from tandem.live.figures import date, ms, per_second, ratio, rounded
from tandem.live.rates import Meter
from tandem.live.seen import RequestSeen

__all__ = ["Gain", "Watched", "state_of"]

log = logging.getLogger(__name__)

RANKS: Mapping[str, int] = MappingProxyType({"prefilling": 0, "writing": 0, "finishing": 1, "queued": 2, "reading": 3})
STEPS = 16
"""Transitions that a timeline keeps, the newest (OBS-064)."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a request has done since it was last looked at."""

    written: int = 0
    forwarded: int = 0
    rounds: int = 0

    def __add__(self, other: Gain) -> Gain:
        return Gain(self.written + other.written, self.forwarded + other.forwarded, self.rounds + other.rounds)

    def __sub__(self, other: Gain) -> Gain:
        return Gain(self.written - other.written, self.forwarded - other.forwarded, self.rounds - other.rounds)


class Watched:
    """Known from its arrival on; `seen` is None until a look has worked."""

    def __init__(
        self, request_id: str, look: Callable[[], RequestSeen], now: float, zone: datetime.tzinfo | None
    ) -> None:
        self.request_id = request_id
        self._look = look
        self._zone = zone
        self.began_at = now
        self._failed = False
        self._meter = Meter()
        self.decode: DecodeNow | None = None
        self._read_at = now
        self._steps: deque[Step] = deque([Step(state="arriving", at_ms=0.0)], maxlen=STEPS)
        self._state_at = -math.inf
        self._was_granted = False
        self._has_written = False
        self._date = ""
        self.state: ActivityState = "arriving"
        self.phase: Phase = "reading"
        self.seen: RequestSeen | None = None

    @property
    def is_running(self) -> bool:
        """Whether it is at work on a slot."""
        return self.phase in ("prefilling", "writing")

    @property
    def slot(self) -> int:
        """The slot it has, or whose engine it is lent."""
        return 0 if self.seen is None or self.seen.slot is None else self.seen.slot

    @property
    def is_guest(self) -> bool:
        """Whether a holder serves it between two steps of its own."""
        return self.seen is not None and self.seen.lane in ("decode", "prefill")

    @property
    def missing(self) -> int:
        """Bytes of memory that it waits for in its slot; 0 where it does not."""
        return self.seen.missing if self.seen is not None and self.phase == "queued" else 0

    @property
    def memory_place(self) -> int:
        return 1 if self.seen is None else self.seen.memory_place

    @property
    def rank(self) -> int:
        """Its place among the rows: who runs first, then who waits."""
        return RANKS.get(self.phase, len(RANKS))

    @property
    def granted_at(self) -> float:
        """When it got its slot; later than any where that is not known."""
        return math.inf if self.seen is None or self.seen.granted_at is None else self.seen.granted_at

    @property
    def length(self) -> int:
        """Rows that its sequence has."""
        return 0 if self.seen is None else self.seen.read + self.seen.completion

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(self._steps)

    @property
    def tool(self) -> ToolNow | None:
        if self.seen is None or self.seen.tool is None:
            return None
        return ToolNow(name=words.clip(self.seen.tool), bytes=self.seen.tool_bytes)

    def entered(self, now: float) -> None:
        """It stands in line, as of now at the latest."""
        if self.state == "arriving":
            self._step("queued", now)

    def look(self, now: float) -> Gain:
        """Look at it; what it has done since the last time."""
        try:
            seen = self._look()
        except Exception as error:
            self._note_failure(error, now)
            return Gain()
        gain = _gain(self.seen, seen)
        self.seen = seen
        self.phase = seen.phase
        if gain.forwarded:
            self._read_at = now
        self._measure(seen, now)
        self.decode = self._decoded(seen)
        self._follow(seen, now)
        return gain

    def _measure(self, seen: RequestSeen, now: float) -> None:
        """From the first token on, which the prefill gives (API-161)."""
        if seen.first_at is None:
            return
        if self._meter.is_empty:
            self._meter.add(seen.first_at, 1)
        self._meter.add(now, seen.completion)

    def _note_failure(self, error: Exception, now: float) -> None:
        if not self._failed:
            self._failed = True
            log.error("[live] request %s cannot be looked at: %s", self.request_id, type(error).__name__)
        self.phase = "unknown"
        if self.state != "unknown":
            self._step("unknown", now)

    def _follow(self, seen: RequestSeen, now: float) -> None:
        """Note the states it has come to: those whose begin it knows itself, and the present one."""
        if seen.granted_at is not None and not self._was_granted:
            self._was_granted = True
            self._step("prefilling", seen.granted_at)
        if seen.first_at is not None and not self._has_written:
            self._has_written = True
            self._step("thinking" if seen.reasoning else "tool_call" if seen.in_call else "writing", seen.first_at)
        if (state := state_of(seen)) != self.state and not seen.is_closed:
            self._was_granted |= state == "prefilling"
            self._step(state, now)

    def _step(self, state: ActivityState, at: float) -> None:
        self.state, self._state_at = state, max(at, self._state_at)
        self._steps.append(Step(state=state, at_ms=ms(self._state_at - self._arrived)))

    def end(self, at_ms: float) -> None:
        """It has ended, so long after its arrival."""
        self._steps.append(Step(state="done", at_ms=round(at_ms, 3)))

    @property
    def _arrived(self) -> float:
        return self.began_at if self.seen is None else self.seen.arrived_at

    def arrived(self, wall: datetime.datetime, now: float) -> str:
        """When it came, as a date."""
        if self.seen is None:
            return (wall - datetime.timedelta(seconds=now - self.began_at)).isoformat(timespec="milliseconds")
        if not self._date:
            self._date = date(self.seen.ts_ms, self._zone)
        return self._date

    def holding(self, now: float) -> Holder | None:
        """What those who wait behind it are told; None where it cannot be looked at."""
        if self.seen is None:
            return None
        return Holder(
            request_id=self.request_id,
            client_kind=self.seen.client_kind,
            endpoint=self.seen.endpoint,
            slot=self.seen.slot,
            state=self.state,
            since_ms=self.since_ms(now),
            label=self.label(now),
        )

    def since_ms(self, now: float) -> float:
        return ms(now - max(self._state_at, self._arrived))

    def said(self, does: str) -> str:
        """A sentence about it."""
        return does if self.seen is None else f"{words.who(self.seen.client_kind, self.seen.endpoint)} {does}"

    def sentence(self, now: float) -> str:
        """Who it is and what it does."""
        return self.said(self.label(now))

    def label(self, now: float) -> str:
        """What it does, without what only a waiting one has to say."""
        seen, decode = self.seen, self.decode
        match self.state:
            case "arriving":
                return words.arriving()
            case "prefilling" if seen is not None:
                return words.reading(self.prefill(seen, now))
            case "thinking" if seen is not None and decode is not None:
                return words.of_choice(words.thinking(decode), seen.choice, seen.choices)
            case "writing" if seen is not None and decode is not None:
                return words.of_choice(words.writing(decode), seen.choice, seen.choices)
            case "tool_call" if seen is not None:
                return words.of_choice(words.calling(self.tool if seen.tool_open else None), seen.choice, seen.choices)
            case "finishing":
                return words.finishing()
            case _:
                return words.unknown()

    def prefill(self, seen: RequestSeen, now: float) -> PrefillNow:
        """Chunks come now and then, so the rate is over the time up to the newest."""
        total = seen.rows or 0
        rate = per_second(seen.read - seen.resumed, seen.granted_at, self._read_at)
        left = max((total - seen.read) / rate - (now - self._read_at), 0.0) if rate else None
        return PrefillNow(
            done=seen.read,
            total=total,
            cached=seen.resumed,
            percent=round(100 * seen.read / total, 1) if total else 0.0,
            rate=rate,
            eta_s=rounded(left),
            image=None if seen.image is None else ImageNow(number=seen.image[0], of=seen.image[1]),
        )

    def _decoded(self, seen: RequestSeen) -> DecodeNow:
        return DecodeNow(
            thinking_tokens=seen.reasoning,
            content_tokens=seen.completion - seen.reasoning,
            rounds=seen.rounds,
            tokens_per_round=ratio(seen.completion, seen.rounds),
            rate=rounded(self._meter.rate),
        )


def state_of(seen: RequestSeen) -> ActivityState:
    """What it does, finer than its phase."""
    match seen.phase:
        case "reading":
            return "arriving"
        case "writing":
            return "tool_call" if seen.in_call else "thinking" if seen.in_reasoning else "writing"
        case phase:
            return phase


def _gain(before: RequestSeen | None, now: RequestSeen) -> Gain:
    if before is None:
        return Gain(now.completion, max(now.read - now.resumed, 0), now.rounds)
    return Gain(
        max(now.completion - before.completion, 0),
        max((now.read - now.resumed) - (before.read - before.resumed), 0),
        max(now.rounds - before.rounds, 0),
    )
