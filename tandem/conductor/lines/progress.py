"""When a long step gets a line (STA-023 to STA-025): pure, of times that are given in; seconds throughout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tandem.conductor.documents.profiles import Progress
from tandem.conductor.lines.templates import REASONS, say
from tandem.engine.text.reading.deltas import Line

__all__ = ["QUIET_S", "PrefillLines", "ThinkingLines", "WaitingLines", "span", "summary"]

QUIET_S: Final = 2.0
"""A shorter wait gets no line."""
EVERY_S: Final = 60.0
"""A wait that stays as it is gets one this often."""


def span(seconds: float) -> str:
    """A time that has passed, in whole seconds."""
    whole = max(round(seconds), 0)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def summary(waited_s: float, tokens: int, read_s: float) -> str:
    """What a status event concludes with (STA-020)."""
    waited = f"waited {span(waited_s)}, " if waited_s >= 1 else ""
    return f"{waited}read {tokens:,} tokens in {span(read_s)}" if tokens else waited.rstrip(", ") or "ready"


class WaitingLines:
    """Of a wait for a slot or for memory."""

    def __init__(self) -> None:
        self._said: tuple[str, int] | None = None
        self._said_s = 0.0

    def look(self, waited_s: float, position: int, reason: str, *, eta: str | None, gib: float = 0.0) -> Line | None:
        """`eta` is the scheduler's own estimate in its own words; `gib` is the memory that is short."""
        if waited_s < QUIET_S:
            return None
        why = REASONS[reason].format(gib=f"{max(gib, 0.1):.1f}")
        # How much memory is short changes all the time; that it is memory does not.
        if self._said == (reason, position) and waited_s - self._said_s < EVERY_S:
            return None
        self._said, self._said_s = (reason, position), waited_s
        if eta is None:
            return say("queue", n=position, reason=why)
        return say("queue_eta", n=position, reason=why, eta=eta)


class PrefillLines:
    """Of a prompt that takes long to read."""

    def __init__(self, progress: Progress, told: Callable[[float], str]) -> None:
        """`told` says a time yet to come as coarsely as the scheduler does (STA-028)."""
        self._every_s = progress.prefill_every_s
        self._told = told
        self._first: tuple[int, float] | None = None
        self._said_at: float | None = None

    def look(self, done: int, total: int, now: float) -> Line | None:
        """A chunk is read. The first is not measured: it has what is done once (STA-024)."""
        if self._first is None:
            self._first = (done, now)
            return None
        from_rows, since = self._first
        if done <= from_rows or now <= since or (self._said_at is not None and now - self._said_at < self._every_s):
            return None
        left_s = (total - done) * (now - since) / (done - from_rows)
        if done >= total or left_s < self._every_s:
            return None
        self._said_at = now
        return say("prefill", done=done, tokens=total, eta=self._told(left_s))


class ThinkingLines:
    """Of a long thought, measured from the first token on; whichever limit comes first."""

    def __init__(self, progress: Progress) -> None:
        self._every_s = progress.thinking_every_s
        self._every_tokens = progress.thinking_every_tokens
        self._said = (0.0, 0)

    def look(self, since_first_s: float, tokens: int) -> Line | None:
        """The thinking block is open, and has so many tokens."""
        said_s, said_tokens = self._said
        if since_first_s - said_s < self._every_s and tokens - said_tokens < self._every_tokens:
            return None
        self._said = (since_first_s, tokens)
        return say("thinking", elapsed=span(since_first_s), tokens=tokens)
