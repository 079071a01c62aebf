"""What the server writes in the model's place to end its reasoning at a cap (API-095, ENG-097)."""

from __future__ import annotations

from typing import Final

from tandem.engine.text.model import TextModel
from tandem.engine.text.reading.splitter import CLOSER

__all__ = ["CLOSING_PHRASE", "closing_ids", "hidden_closing"]

CLOSING_PHRASE: Final = f"\nEnough thinking; now the answer.\n{CLOSER}\n\n"
"""It breaks off wherever the cap falls, so it begins on a line of its own."""


def closing_ids(text: TextModel) -> tuple[int, ...]:
    """The phrase in the model's tokens, its closing tag the model's own where it has one."""
    return tuple(text.encode_own(CLOSING_PHRASE))


def hidden_closing(text: TextModel, phrase: str = CLOSING_PHRASE) -> tuple[tuple[int, ...], int]:
    """The ids of a phrase that no client sees, and how many at their end a template writes as well, behind whatever
    reasoning the client sends back: the closing tag with its white space. These have tokens of their own, so that the
    next prompt goes on from the rows once the others are put back (MON-137).
    """
    said = phrase[: phrase.rindex(CLOSER)].rstrip("\n")
    tag = text.encode_own(phrase[len(said) :])
    return (*text.encode_own(said), *tag), len(tag)
