"""What an engine asks of a drafter (ENG-046 to ENG-048). Text never depends on one; only the number of rounds does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from tandem.engine.drafting.prices import Shape
from tandem.engine.verbs import Tree

__all__ = ["Chaining", "Drafter", "Draw", "Drawing", "Drawn", "Priced", "Remembering", "TwoWidths"]


@dataclass(frozen=True, slots=True)
class Draw:
    """How a drafter is to draw: at `temperature`, 0 for the likeliest, with Gumbel `noise` (count) in fp64."""

    temperature: float
    noise: Callable[[int], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A chain that was drawn token by token; or, without `shares`, any tree.

    Whether a token was drawn at all may depend on those before it, never on itself or what came after: a chain that was
    cut by what is in it would bend the distribution of what is written.
    """

    tree: Tree
    shares: Tensor | None = None  # (nodes, N) fp64: the distributions that its tokens were drawn from
    ids: Tensor | None = None  # (N) of the columns; None: the vocabulary's


class Drafter(Protocol):
    """Proposes continuations of the one sequence that is open. Its state is its own, indexed by the sequence's rows."""

    @property
    def name(self) -> str:
        """What counters call it."""

    @property
    def reads_hidden(self) -> bool:
        """Whether `read` is to be called."""

    def start(self, ids: Sequence[int], valid: int) -> None:
        """A sequence begins with the prompt `ids`. Of the state of the sequence before, what belongs to the first
        `valid` rows still holds.
        """

    def read(self, start: int, hidden: Tensor) -> None:
        """Rows start, start + 1, … of the sequence, committed ones, have the hidden states (rows, hidden) after the
        model's last norm. What was known of rows from `start` on is forgotten.
        """

    def propose(self, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        """At most `nodes` nodes at depth 1 to `depth` behind `ids`, all ids of the sequence up to its newest; may be
        empty.
        """

    def learn(self, tree: Tree, accepted: int) -> None:
        """The walk went `accepted` nodes down the tree that was verified."""

    def end(self) -> None:
        """The sequence is closed."""


@runtime_checkable
class Drawing(Protocol):
    """A drafter whose own distribution can be drawn from (ENG-069)."""

    def draw(self, ids: Sequence[int], nodes: int, depth: int, draw: Draw) -> Drawn:
        """As `propose`, for a text that is drawn itself."""


@runtime_checkable
class Chaining(Drawing, Protocol):
    """One that draws a chain of as many nodes as it is asked for."""

    def chances(self, nodes: int, depth: int) -> tuple[float, ...]:
        """The probability that the walk reaches each token of the longest chain that may be drawn."""


@runtime_checkable
class TwoWidths(Protocol):
    """A drafter whose draft is as good narrow or wide, and which of the two pays depends on the text (ENG-060)."""

    @property
    def widths(self) -> tuple[int, int]:
        """Nodes of either; asked for no more than the first, it drafts narrowly."""


@runtime_checkable
class Priced(Protocol):
    """A drafter that weighs what it proposes against what a verify costs (ENG-061, ENG-062)."""

    def paid(self, rows: int, draft_ms: float, verify_ms: float, context: int, shape: Shape) -> None:
        """What a round took: its draft, and its pass over `rows` rows of that shape behind `context` tokens."""


@runtime_checkable
class Remembering(Protocol):
    """A drafter that keeps what requests read and wrote (ENG-118)."""

    def remember(
        self, history: Sequence[int], read: Sequence[tuple[int, int]], written: Sequence[tuple[int, int]]
    ) -> None:
        """The sequence that ends has read and written these runs of `history`, none of them hidden or an image's."""

    def state(self) -> Mapping[str, int]:
        """Counters of what is kept; may be called from any thread at any time."""
