"""What a `Generation` shows its supervisor at a safe point, and how it hears of it; without one nothing is ever due."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tandem.engine.decoding.capping import ReasoningCap
from tandem.engine.decoding.seams import NOTHING, Close, Reader, SafePoint, Seen, Supervisor, Verdict
from tandem.engine.decoding.tally import Tally
from tandem.engine.decoding.work import Answer, Ask, Force
from tandem.engine.text.reading.deltas import FinishReason

__all__ = ["OwnEnd", "Watching", "goes_on"]


@dataclass(frozen=True, slots=True)
class OwnEnd:
    """The model has ended its answer with the last tokens of a round, which can be taken back to go on (MON-029)."""

    kept: int
    """Tokens of the round that stand where the answer goes on."""
    of: int
    """Tokens of the round."""
    token: int
    """1 for an end token, which counts where the answer ends; 0 behind the only call asked for."""


class Watching:
    """Of one choice of `limit` output tokens over a prompt of `rows` rows, in a window that nobody may know."""

    def __init__(
        self, supervisor: Supervisor | None, reader: Reader, tally: Tally, *, limit: int, rows: int, window: int | None
    ) -> None:
        self._supervisor = supervisor
        self._reader = reader
        self._tally = tally
        self.limit = limit
        self.rows = rows
        self.window = window

    @property
    def position(self) -> int:
        """Row of the next token."""
        return self.rows + self._tally.completion + self._tally.hidden

    @property
    def left(self) -> int:
        """Tokens that the window has room for."""
        return sys.maxsize if self.window is None else max(self.window - self.position, 0)

    def fit(self) -> None:
        """Output for which the window has no rows is not to be had."""
        self.limit = min(self.limit, self._tally.completion + self.left)

    def look(self, point: SafePoint, ended: FinishReason | None = None) -> Verdict:
        if self._supervisor is None:
            return NOTHING
        return self._supervisor.look(point, self._seen(ended))

    def answered(self, answer: Answer) -> Verdict:
        if self._supervisor is None:
            return NOTHING
        return self._supervisor.answered(answer, self._seen())

    def closed(self, cap: ReasoningCap) -> None:
        """The cap's closer comes next."""
        if self._supervisor is not None:
            hidden = 0 if cap.visible else len(cap.closer)
            self._supervisor.closed(Close(cap.tokens, cap.why, hidden, self._seen()))

    def _seen(self, ended: FinishReason | None = None) -> Seen:
        reader, written = self._reader, self._tally.completion
        return Seen(
            written=written,
            position=self.position,
            room=self.left,
            left=self.limit - written,
            in_reasoning=reader.in_reasoning,
            in_call=reader.in_call,
            reasoning_tokens=written if reader.in_reasoning else reader.reasoning_tokens,
            ended=ended,
            held=reader.held,
        )


def goes_on(works: Sequence[Force | Ask]) -> bool:
    """Whether an answer that has ended goes on with these: a question alone leaves its end open."""
    return any(isinstance(work, Force) for work in works)
