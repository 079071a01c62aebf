"""What a sequence owns beside the state of its model, and what a copy of it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from tandem.engine.caches.resident import Anchor, Anchors
from tandem.engine.decoding.counters import NO_DRAFTER
from tandem.engine.decoding.penalties import History
from tandem.engine.drafting.drafter import Draw, Drawn
from tandem.engine.errors import EngineError
from tandem.engine.models.state import StateCopy
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.replay import Run, Whose, hide
from tandem.engine.verbs import EMPTY_TREE, Tree

__all__ = ["Pending", "Rows", "Snapshot", "TorchSequence"]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Logits of one verified pair: the row of the newest token, (vocab) in fp32, and that token's position.

    Behind it the rows of `tree`'s nodes, `below` (nodes, vocab). `hidden` are the hidden states that this verify made
    and nothing has shown to a drafter: of the nodes and, where it was not kept from before, of the newest token first.
    `verify_ms` is what the pass took, nothing where the row was kept from an earlier one.
    """

    logits: Tensor
    position: int
    verify_ms: float = 0.0
    tree: Tree = EMPTY_TREE
    below: Tensor | None = field(default=None, repr=False)
    hidden: Tensor | None = field(default=None, repr=False)
    together: int = 1
    """How many slots shared the pass."""
    fault: EngineError | None = None
    """What went wrong with this one of several; its `accept` raises it."""

    @property
    def rooted(self) -> bool:
        """Whether the newest token is the first row of the verify."""
        return self.hidden is not None and self.hidden.shape[0] > len(self.tree.tokens)

    def at(self, node: int) -> Tensor:
        """The row (vocab) of a node of the tree; -1: of the newest token."""
        return self.logits if node < 0 or self.below is None else self.below[node]


@dataclass(frozen=True, slots=True)
class Pending:
    """The last accept as long as it can be taken back: what of it stands, and what stood before it."""

    count: int
    """Tokens taken, the newest of which has no row."""
    rooted: bool
    """Whether the newest token of before is a row of the verify, the first one, and not read without it."""
    length: int
    """Rows of before; `row` is the row kept then."""
    row: Tensor | None = field(repr=False)
    drafter: str
    """Who was asked for the round's draft."""
    accepted: tuple[str, ...]
    """Of each drafted token among those taken, who drafted it."""

    def rows(self, count: int) -> int:
        """How many rows of the verify the first `count` tokens need: all but the newest token has one."""
        return count - 1 + self.rooted if count else 0


@dataclass(slots=True, eq=False)
class TorchSequence:
    """One sequence of a `TorchEngine`; opaque to everybody else.

    Between two verbs: rows below `length` of the state, a pending commit included, hold the first `length` ids, and its
    recurrent part stands there; `row` is the row of logits of the newest of them or None where it was not asked for;
    and once the prompt is read at most one id, the newest accepted one, has not been forwarded yet.
    """

    prompt: Prompt
    history: History
    anchors: Anchors
    length: int = 0
    row: Tensor | None = None  # (vocab), fp32, CPU
    verified: Rows | None = None
    """The verify of a tree that the state holds and no accept has walked yet."""
    pending: Pending | None = None
    drafter: str = NO_DRAFTER
    """Who was asked for this round's draft, and what that took."""
    draft_ms: float = 0.0
    draw: Draw | None = None
    """How the last round was drawn, which is how the next one will be: a wrong guess costs time alone."""
    drawn: Drawn | None = None
    """This round's draft, where it was drawn."""
    resumed: int = 0
    """Rows that a cache supplied."""
    source: str = ""
    """Which one."""
    sound: bool = True
    """Whether the rows below `length` are known to be what a run without a fault writes."""
    forced: list[tuple[int, int]] = field(default_factory=list)
    """Where in the history ids stand that nobody has sampled, or that were dropped: from, up to."""
    unseen: list[Run] | None = field(default_factory=list)
    """Which of those its client was not shown; None where that is not known."""
    closed: bool = False

    @property
    def whose(self) -> Whose | None:
        """What is known of its rows' hidden tokens, for the next prompt of its session (ENG-111)."""
        if self.prompt.session is None or self.unseen is None or self.prompt.asks:
            return None
        runs = [(span.start, span.end) for span in self.prompt.spans if span.kind != "client"] + self.unseen
        rows = ((start, min(stop, self.length)) for start, stop in runs if start < self.length)
        return Whose(self.prompt.session, tuple(rows))

    @property
    def read(self) -> Sequence[int]:
        """Ids that the state has rows of."""
        return self.history.ids[: self.length]

    @property
    def read_keys(self) -> Sequence[int]:
        """The same, images by their content (ENG-100)."""
        if not self.prompt.images:
            return self.read
        return (*self.prompt.keys, *self.history.ids[len(self.prompt.ids) :])[: self.length]

    @property
    def kept_keys(self) -> Sequence[int] | None:
        """What of it a next prompt may go on from: of a hidden question nothing, so what lies before it ends at the
        last anchor there (RTR-021). None where there is nothing, or nothing to be trusted.
        """
        if not self.sound or not self.prompt.asks:
            return self.read_keys if self.sound else None
        rows = max((anchor.row for anchor in self.anchors.all if anchor.row <= self.prompt.asked_at), default=0)
        return self.read_keys[:rows] or None

    @property
    def unread(self) -> Sequence[int]:
        """Ids that stand in the sequence and are not in the state."""
        return self.history.ids[self.length :]

    @property
    def written(self) -> list[tuple[int, int]]:
        """The runs of the history that were sampled: from, up to."""
        runs, at = list[tuple[int, int]](), len(self.prompt.ids)
        for start, stop in [*self.forced, (len(self.history), len(self.history))]:
            if at < start:
                runs.append((at, start))
            at = stop
        return runs

    def force(self, ids: Sequence[int], *, hidden: bool = False, dropped: int = 0) -> None:
        """`ids` now stand at the history's end. So many tokens before them are not the answer's any more."""
        at = start = len(self.history)
        if hidden:
            start = at - dropped if self.unseen is None else hide(self.unseen, at, len(ids), dropped)
        self.forced = [run for run in self.forced if run[0] < start]
        self.forced.append((start, at + len(ids)))
        self.history.extend(ids)
        if hidden:
            self.history.hide(start)

    @property
    def prompt_read(self) -> bool:
        return self.length >= len(self.prompt.ids)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A sequence at one point, by value. It may be restored any number of times, into any sequence of its engine."""

    prompt: Prompt
    output: tuple[int, ...]
    length: int
    row: Tensor | None = field(repr=False)
    state: StateCopy = field(repr=False)
    resumed: int = 0
    anchors: tuple[Anchor, ...] = ()

    @property
    def read(self) -> tuple[int, ...]:
        """Ids that the state has rows of."""
        return (*self.prompt.ids, *self.output)[: self.length]
