"""What an answer has said so far, by place and token, for whoever watches it (the monitor's safe points).

The reader of a watched answer writes it, one call a token; nobody else does. An answer that nobody watches has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tandem.engine.text.reading.held import Held

__all__ = ["OpenBlock", "Trace"]


@dataclass(slots=True)
class OpenBlock:
    """The call block that is being written, in the answer."""

    pieces: list[str] = field(default_factory=list)
    """Its text, as it is written."""
    ids: list[int] = field(default_factory=list)
    tool: str | None = None
    """The tool's name, once it is known."""
    _text: str = field(default="", repr=False, compare=False)
    """Of the first `_joined` pieces: whoever asks again and again pays for the new ones."""
    _joined: int = field(default=0, repr=False, compare=False)

    @property
    def text(self) -> str:
        if self._joined < len(self.pieces):
            self._text += "".join(self.pieces[self._joined :])
            self._joined = len(self.pieces)
        return self._text


@dataclass(slots=True)
class Trace:
    """A token counts where it ended: the one that closes a block is outside it."""

    reasoning: list[int] = field(default_factory=list)
    """Ids of the thinking block, tags left out."""
    thoughts: list[str] = field(default_factory=list)
    """Text of the same, one piece a token."""
    answer: list[str] = field(default_factory=list)
    """Text of the answer outside calls, piece by piece."""
    answer_ids: list[int] = field(default_factory=list)
    """Ids of the same."""
    block: OpenBlock | None = None
    calls: int = 0
    """Complete calls, sent or held."""
    rejected: int = 0
    """Blocks that the codec could not read."""
    items: tuple[Held, ...] = ()
    """Calls and rejected blocks of an answer in which nothing is held, in order: as they would be."""
    has_sent_call: bool = False
    """A complete call has gone to the client."""
    all_ids: list[int] = field(default_factory=list)
    """Every visible id in order."""
    first_block: int | None = None
    """Where in them the first call block began, of those since the text went on behind an end. One that cannot be read
    counts, also while its end is not known yet.
    """

    @property
    def since_block(self) -> int:
        """How many visible tokens there are from that block on."""
        return 0 if self.first_block is None else len(self.all_ids) - self.first_block

    @property
    def has_calls(self) -> bool:
        """Calls are in the answer, or blocks that were to be some."""
        return bool(self.calls or self.rejected) or self.first_block is not None

    @property
    def answer_text(self) -> str:
        return "".join(self.answer)
