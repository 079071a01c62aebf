"""What the server writes in the model's place to end its reasoning at a cap (API-095, ENG-097)."""

from __future__ import annotations

from typing import Final

from tandem.engine.text.model import TextModel

__all__ = ["CLOSING_PHRASE", "closing_ids"]

CLOSING_PHRASE: Final = "\nEnough thinking; now the answer.\n</think>\n\n"
"""It breaks off wherever the cap falls, so it begins on a line of its own."""


def closing_ids(text: TextModel) -> tuple[int, ...]:
    """The phrase in the model's tokens, its closing tag the model's own where it has one."""
    return tuple(text.encode_own(CLOSING_PHRASE))
