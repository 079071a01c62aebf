"""What a `Generation` is given and never imports: the reader of its output, and the supervisor that may act on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tandem.engine.decoding.work import Answer, Ask, Force
from tandem.engine.text.reading.deltas import Delta, FinishReason
from tandem.engine.text.reading.held import Held
from tandem.engine.verbs import TokenLogprob

__all__ = ["NOTHING", "Close", "EndNow", "Reader", "SafePoint", "Seen", "Supervisor", "Verdict"]

SafePoint = Literal["SP1", "SP2", "SP3"]
"""Round border; end token taken by the model; answer complete with held calls (MON-026). SP4 comes before the queue."""


class Reader(Protocol):
    """Turns the tokens of one answer into deltas (ENG-184)."""

    @property
    def stopped(self) -> bool:
        """The text has ended by itself, at a stop string or behind the only call asked for: nothing more is read."""

    @property
    def ended_by_call(self) -> bool:
        """It was the only call asked for that ended the text, which counts as the model's own end (MON-078)."""

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

    @property
    def held(self) -> Sequence[Held]:
        """What waits for SP3's verdict: calls and rejected blocks, in order. Always empty where nothing is held."""

    def feed(self, token: int, logprob: TokenLogprob | None = None) -> list[Delta]:
        """The deltas that `token` completes."""

    def end(self) -> list[Delta]:
        """What was held back, now that no more comes; what is `held` stays so."""

    def close_reasoning(self) -> list[Delta]:
        """An open block was closed by ids that are not fed (a hidden closer): the answer comes next."""

    def release(self, items: Sequence[Held]) -> list[Delta]:
        """`items` go out in place of all that is held: calls numbered on from 0 without gaps, blocks as content."""

    def reopen(self) -> None:
        """What is held is dropped and the text goes on: the next token begins a new piece of answer, in no call, and
        the calls that come are numbered on from those that were sent.
        """

    def drop_block(self) -> None:
        """The open call block is dropped: nothing more of it goes out, and a call that streams stays unterminated."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a generation shows at a safe point, besides its reader's trace."""

    written: int
    """Visible output tokens."""
    position: int
    """Row of the next token, hidden ones counted."""
    room: int
    """Rows left in the window: hidden tokens take theirs from the output where there are no others."""
    left: int
    """Output tokens that the request may still have: what is forced visibly takes of them."""
    in_reasoning: bool
    in_call: bool
    reasoning_tokens: int
    ended: FinishReason | None = None
    """SP3: how the answer ended where the model's own end token did not end it. Then nothing can be forced."""
    held: Sequence[Held] = ()


@dataclass(frozen=True, slots=True)
class EndNow:
    """The generation ends here (GIVE_UP). What was streamed stays."""

    sentence: str
    """Sent as content, no token of it; "" for none."""
    detail: str
    """`Finish.detail`, the ledger's `stop_detail`."""
    cut: bool = False
    """The open call was streaming: it stays unterminated, and the finish is `tool_calls` (MON-108)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is done at a safe point, in this order: drop, release, force and ask, end. The default changes nothing."""

    works: tuple[Force | Ask, ...] = ()
    """Done next. At SP2 and SP3 the sampled end token is taken back first; where nothing is forced the end stays open,
    and an answer that asks and forces nothing lets it come.
    """
    drop: bool = False
    """What is held is dropped, and an open block too; the answer is read on behind the works."""
    release: tuple[Held, ...] | None = None
    """SP3: goes out in place of what is held. None: what is held goes out as it is, unless `drop` or `end`."""
    end: EndNow | None = None


NOTHING = Verdict()


@dataclass(frozen=True, slots=True)
class Close:
    """The reasoning was closed at a cap (MON-038)."""

    tokens: int
    """The cap."""
    why: str
    """`route`, `client`, `reserve`, or a task of the monitor."""
    hidden: int
    """Hidden tokens of the closer; 0: it is visible."""
    seen: Seen = field(repr=False)


class Supervisor(Protocol):
    """Called between two pieces of work, and never while one runs. Its own faults are its own affair (MON-012)."""

    def look(self, point: SafePoint, seen: Seen) -> Verdict:
        """SP1 after every round; SP2 at an end token that the model chose; SP3 where something is held at the end."""

    def answered(self, answer: Answer, seen: Seen) -> Verdict:
        """The answer of an `Ask` that `look` or `answered` had returned."""

    def closed(self, close: Close) -> None:
        """A cap has closed the reasoning."""
