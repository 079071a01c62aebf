"""A text model of a few tokens, a matcher over a few texts, and what tests ask of masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from tandem.engine.text.model import TextModel
from tandem.engine.verbs import Mask

__all__ = ["END", "Texts", "TinyText", "allowed", "text_model"]

END = 0
"""The end id of every `TinyText`."""


class TinyText:
    """Tokens by their bytes, in the order given behind the end; a marker's token stands for its name."""

    is_open_vocabulary = False
    end_ids = frozenset({END})

    def __init__(self, pieces: Sequence[str | bytes], markers: Sequence[str] = ()) -> None:
        self._pieces = [b"", *(piece.encode() if isinstance(piece, str) else piece for piece in pieces)]
        self.markers: Mapping[str, int] = {name: len(self._pieces) + at for at, name in enumerate(markers)}
        self._pieces += [name.encode() for name in markers]
        self.vocab_size = len(self._pieces)

    def piece(self, token: int) -> bytes:
        return self._pieces[token]

    def id(self, piece: str) -> int:
        """The last token of this text: a marker rather than the same text spelled."""
        return max(token for token, own in enumerate(self._pieces) if own == piece.encode())

    def ids(self, *pieces: str) -> list[int]:
        return [self.id(piece) for piece in pieces]


def text_model(text: TinyText) -> TextModel:
    """As what it plays: it has the members that masks use."""
    return cast(TextModel, text)


class Texts:
    """A `Matcher` over a finite language. A marker is a letter of its own, which only its token writes."""

    def __init__(self, text: TinyText, members: Iterable[str]) -> None:
        self._text = text
        self._members = [self._letters(member) for member in members]
        self.read: tuple[object, ...] = ()
        self.commits = 0

    def _letters(self, member: str) -> tuple[object, ...]:
        letters: list[object] = []
        while member:
            name = next((name for name in self._text.markers if member.startswith(name)), None)
            letters += [name] if name else member[0].encode()
            member = member[len(name or "x") :]
        return tuple(letters)

    def _spell(self, token: int) -> tuple[object, ...]:
        name = next((name for name, own in self._text.markers.items() if own == token), None)
        return (name,) if name else tuple(self._text.piece(token))

    def _whole(self, path: Sequence[int]) -> tuple[object, ...]:
        return self.read + tuple(letter for token in path for letter in (self._spell(token) or ("end",)))

    def _may_be(self, whole: tuple[object, ...]) -> bool:
        return any(member[: len(whole)] == whole for member in self._members)

    @property
    def accepting(self) -> bool:
        return self.read in self._members

    def allows(self, path: Sequence[int], token: int) -> bool:
        if token == END:
            return self._whole(path) in self._members
        return self._may_be(self._whole((*path, token)))

    def bits(self, path: Sequence[int]) -> bytes:
        tokens = [token for token in range(self._text.vocab_size) if self.allows(path, token)]
        return sum(1 << token for token in tokens).to_bytes((self._text.vocab_size + 7) // 8, "little")

    def commit(self, ids: Sequence[int]) -> None:
        self.read = self._whole(ids)
        self.commits += len(ids)

    def commit_bytes(self, data: bytes) -> None:
        self.read += tuple(data)

    def allows_bytes(self, data: bytes) -> bool:
        return self._may_be(self.read + tuple(data))

    def forced(self) -> tuple[int, ...]:
        """The only token that may come, if there is only one."""
        tokens = [token for token in range(self._text.vocab_size) if self.allows((), token)]
        return tuple(tokens) if len(tokens) == 1 and tokens != [END] else ()

    def copy(self) -> Texts:
        twin = Texts(self._text, ())
        twin._members, twin.read = self._members, self.read
        return twin


def allowed(mask: Mask, path: Sequence[int] = (), best: int = END) -> set[int] | None:
    """The tokens of a row's mask; None for all."""
    bits = mask.bits(path, best)
    if bits is None:
        return None
    return {token for token in range(8 * len(bits)) if bits[token // 8] >> token % 8 & 1}
