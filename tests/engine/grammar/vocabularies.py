"""A text model over a list of byte strings, for grammars alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from tandem.engine.text.model import TextModel

__all__ = ["END", "allowed", "listed", "longest"]

END = "<|end|>"


class _ListText:
    """Ids in the list's order, then the markers and the end."""

    is_open_vocabulary = False

    def __init__(self, pieces: Sequence[bytes], markers: Sequence[str]) -> None:
        self._pieces = pieces
        self.markers: Mapping[str, int] = {name: at for at, name in enumerate([*markers, END], start=len(pieces))}
        self.vocab_size = len(pieces) + len(self.markers)
        self.end_ids = frozenset((self.vocab_size - 1,))

    def is_token(self, token: int) -> bool:
        return 0 <= token < self.vocab_size

    def piece(self, token: int) -> bytes:
        return self._pieces[token] if 0 <= token < len(self._pieces) else b""

    def name(self, token: int) -> str:
        return next((name for name, marker in self.markers.items() if marker == token), "")

    def encode(self, text: str) -> list[int]:
        return longest(cast(TextModel, self), text)


def listed(*pieces: bytes | str, markers: Sequence[str] = ()) -> TextModel:
    """A closed vocabulary of these pieces; the last id is the end's."""
    return cast(TextModel, _ListText([p.encode() if isinstance(p, str) else p for p in pieces], markers))


def longest(text: TextModel, words: str) -> list[int]:
    """`words` as ids, at each place the longest piece that fits."""
    data, ids = words.encode(), list[int]()
    pieces = {token: text.piece(token) for token in range(text.vocab_size)}
    while data:
        token = max((t for t, p in pieces.items() if p and data.startswith(p)), key=lambda t: len(pieces[t]))
        ids.append(token)
        data = data[len(pieces[token]) :]
    return ids


def allowed(bits: bytes) -> set[int]:
    """The ids whose bit is set."""
    return {8 * at + bit for at, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1}
