"""What a sequence owns beside the state of its model, and what a copy of it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from tandem.engine.caches.resident import Anchor, Anchors
from tandem.engine.decoding.penalties import History
from tandem.engine.models.state import StateCopy
from tandem.engine.text.prompt import Prompt

__all__ = ["Rows", "Snapshot", "TorchSequence"]


@dataclass(slots=True, eq=False)
class TorchSequence:
    """One sequence of a `TorchEngine`; opaque to everybody else.

    Between two verbs: rows below `length` of the state hold the first `length` ids, and its recurrent part stands
    there; `row` is the row of logits of the newest of them or None where it was not asked for; and once the prompt is
    read at most one id, the newest accepted one, has not been forwarded yet.
    """

    prompt: Prompt
    history: History
    anchors: Anchors
    length: int = 0
    row: Tensor | None = None  # (vocab), fp32, CPU
    resumed: int = 0
    """Rows that the resident prefix supplied."""
    sound: bool = True
    """Whether the rows below `length` are known to be what a run without a fault writes."""
    closed: bool = False

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
    def unread(self) -> Sequence[int]:
        """Ids that stand in the sequence and are not in the state."""
        return self.history.ids[self.length :]

    @property
    def prompt_read(self) -> bool:
        return self.length >= len(self.prompt.ids)


@dataclass(frozen=True, slots=True)
class Rows:
    """Logits of one verified pair: the row of the newest token, (vocab) in fp32, and that token's position.

    `verify_ms` is what the pass took, nothing where the row was kept from an earlier one.
    """

    logits: Tensor
    position: int
    verify_ms: float = 0.0


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
