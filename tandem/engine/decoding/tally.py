"""The counts and times of one generation, and the usage and timings that come of them (API-154 to API-161)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tandem.engine.decoding.seams import Reader
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.deltas import Finish, FinishReason, Timings, Usage
from tandem.engine.verbs import NOTHING_SPENT, Accepted, Spent

__all__ = ["Progress", "Tally", "next_image", "together"]

_OF_A_SESSION = ("end", "parked", "store", "disk_end")
"""Caches that hold a conversation as it stood when it was left."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a generation is, as it was when it was asked for. Times are on the caller's clock."""

    rows: int
    """Prompt rows, `read` of them read, `resumed` of those found in a cache."""
    read: int
    resumed: int
    cache_source: Literal["response", "session", "prefix", "none"]
    image: tuple[int, int] | None
    """Of the images in the prompt the one that is read next, from 1 on, and how many there are (ENG-098)."""
    completion: int
    reasoning: int
    in_reasoning: bool
    in_call: bool
    rounds: int
    drafted: int
    draft_accepted: int
    started_at: float | None
    first_at: float | None
    last_at: float | None
    supervising: bool = False
    """What is forwarded now is hidden: the client sees nothing of it."""


@dataclass(slots=True)
class Tally:
    """Times are seconds on the caller's clock, taken at safe points; None: not yet."""

    arrived_at: float
    started_at: float | None = None
    first_at: float | None = None
    last_at: float | None = None
    read: int = 0
    """Prompt rows that stand in the sequence, `resumed` of them found in a cache."""
    resumed: int = 0
    source: str = ""
    """Which cache, as a `Prefilled` names it."""
    completion: int = 0
    hidden: int = 0
    """Tokens that were forced and not shown."""
    rounds: int = 0
    drafted: int = 0
    draft_accepted: int = 0
    spent: Spent = NOTHING_SPENT

    @property
    def cache_source(self) -> Literal["session", "prefix", "none"]:
        """Whether the session's own last state was found, or only rows that its prompt begins with (API-160)."""
        if not self.resumed:
            return "none"
        return "session" if self.source in _OF_A_SESSION else "prefix"

    def count_round(self, accepted: Accepted) -> None:
        self.rounds += 1
        self.drafted += accepted.drafted
        self.draft_accepted += accepted.draft_accepted
        self.spent += accepted.spent

    def mark_tokens(self, now: float) -> None:
        """Visible tokens have come."""
        if self.first_at is None:
            self.first_at = now
        self.last_at = now

    def progress(self, rows: int, image: tuple[int, int] | None, reader: Reader) -> Progress:
        return Progress(
            rows=rows,
            read=self.read,
            resumed=self.resumed,
            cache_source=self.cache_source,
            image=image,
            completion=self.completion,
            reasoning=self.completion if reader.in_reasoning else reader.reasoning_tokens,
            in_reasoning=reader.in_reasoning,
            in_call=reader.in_call,
            rounds=self.rounds,
            drafted=self.drafted,
            draft_accepted=self.draft_accepted,
            started_at=self.started_at,
            first_at=self.first_at,
            last_at=self.last_at,
        )

    def finish(self, reason: FinishReason, prompt: Prompt, reasoning: int, now: float, detail: str | None) -> Finish:
        return Finish(reason, self.usage(prompt, reasoning), self.timings(now), detail)

    def usage(self, prompt: Prompt, reasoning: int) -> Usage:
        return Usage(
            prompt=prompt.client_tokens,
            cached=prompt.client_tokens_before(self.resumed),
            completion=self.completion,
            reasoning=reasoning,
            hidden=prompt.hidden_tokens,
            replayed=prompt.replayed_tokens,
            engine_cached=self.resumed,
            engine_prompt=self.read - self.resumed,
        )

    def timings(self, now: float) -> Timings:
        """Of a generation that ends `now`; one that never ran was queued until now."""
        started = now if self.started_at is None else self.started_at
        first = now if self.first_at is None else self.first_at
        last = first if self.last_at is None else self.last_at
        return Timings(
            queue_ms=_ms(started - self.arrived_at),
            prompt_ms=_ms(first - started),
            predicted_ms=_ms(last - first),
            total_ms=_ms(now - self.arrived_at),
            blocks=self.rounds,
            drafted=self.drafted,
            draft_accepted=self.draft_accepted,
            spent=self.spent,
            cache_source=self.cache_source,
        )


def next_image(prompt: Prompt, read: int, grid: int) -> tuple[int, int] | None:
    """The first image that the next chunk has rows of, from 1 on, and of how many (ENG-098)."""
    end = (read // grid + 1) * grid
    here = (at for at, image in enumerate(prompt.images, 1) if read < image.stop and image.start < end)
    return next(((at, len(prompt.images)) for at in here), None)


def _ms(seconds: float) -> float:
    return seconds * 1000.0


def together(choices: Sequence[Progress], written: int) -> Progress:
    """How far the choices of one request are, `written` the one in hand: the prompt is read once, the rest adds up."""
    if len(choices) == 1:
        return choices[0]
    first, now = choices[0], choices[written]
    return replace(
        first,
        completion=sum(each.completion for each in choices),
        reasoning=sum(each.reasoning for each in choices),
        rounds=sum(each.rounds for each in choices),
        drafted=sum(each.drafted for each in choices),
        draft_accepted=sum(each.draft_accepted for each in choices),
        in_reasoning=now.in_reasoning,
        in_call=now.in_call,
        supervising=now.supervising,
        last_at=now.last_at or first.last_at,
    )
