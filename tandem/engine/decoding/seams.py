"""What a `Generation` is given and never imports: the reader of its output, and the supervisor that may act on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from tandem.engine.decoding.work import Answer, Ask, Force
from tandem.engine.text.reading.deltas import Delta
from tandem.engine.verbs import TokenLogprob

__all__ = ["Reader", "SafePoint", "Supervisor"]

SafePoint = Literal["SP1", "SP2", "SP3", "SP4"]
"""Round border; end token taken by the model; answer complete with calls; prompt planned and nothing read (MON-026)."""


class Reader(Protocol):
    """Turns the tokens of one answer into deltas (ENG-184)."""

    @property
    def stopped(self) -> bool:
        """The text has ended by itself, at a stop string or behind the only call asked for: nothing more is read."""

    @property
    def reasoning_tokens(self) -> int:
        """Visible tokens of the thinking block so far, its closing tag included (API-158)."""

    @property
    def may_reason(self) -> bool:
        """A thinking block is open, or none has been yet and one may still open (API-258)."""

    @property
    def in_reasoning(self) -> bool:
        """A thinking block is open."""

    @property
    def in_call(self) -> bool:
        """A call block is open, in the reasoning or in the answer (ENG-186)."""

    def feed(self, token: int, logprob: TokenLogprob | None = None) -> list[Delta]:
        """The deltas that `token` completes."""

    def end(self) -> list[Delta]:
        """What was held back, now that no more comes."""

    def close_reasoning(self) -> list[Delta]:
        """An open block was closed by ids that are not fed (a hidden closer): the answer comes next."""


class Supervisor(Protocol):
    """Called between two pieces of work; what it returns is done next, in order, before the next round."""

    def look(self, point: SafePoint) -> Sequence[Force | Ask]:
        """At SP2 and SP3 a non-empty return makes the generation go on instead of ending."""

    def answered(self, answer: Answer) -> Sequence[Force | Ask]:
        """The answer of an `Ask` that `look` or `answered` had returned."""
