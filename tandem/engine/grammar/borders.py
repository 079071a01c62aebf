"""Where a constrained answer begins: what of a vocabulary is blank, and what opens and closes a thinking block.

The tags are those of the reading side (ENG-185), over bytes: a token's border need not be a character's.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, cast

import numpy as np

from tandem.engine.text.model import TextModel
from tandem.engine.text.reading import splitter

__all__ = ["CLOSER", "OPENER", "WHITESPACE", "Borders", "borders", "closed", "joined"]

OPENER: Final = splitter.OPENER.encode()
CLOSER: Final = splitter.CLOSER.encode()
WHITESPACE: Final = b" \t\n\r\x0b\x0c"

_FLIPPED: Final = bytes(255 - byte for byte in range(256))
_MARKERS: Final = (splitter.OPENER, splitter.CLOSER, "<tool_call>")


class Borders:
    """Tables over one vocabulary. An open one shows its single bytes and markers alone, as its matchers' masks do.

    Bits are one a token, lowest id in the lowest bit of the first byte.
    """

    def __init__(self, text: TextModel) -> None:
        self._piece = text.piece
        self.ends = text.end_ids
        # A checkpoint may have them as special tokens, which stand for no text elsewhere.
        self._markers = {text.markers[name]: name.encode() for name in _MARKERS if name in text.markers}
        self._bytes = (text.vocab_size + 7) // 8
        shown: Iterable[int] = range(text.vocab_size)
        if text.is_open_vocabulary:
            shown = sorted({*range(256), *self._markers})
        pieces = [(token, piece) for token in shown if _matters(piece := self.piece(token))]
        blank = [(token, piece) for token, piece in pieces if not piece.strip(WHITESPACE)]
        self.blank = self._bits(token for token, _ in blank)
        """Whitespace."""
        self.lines = self._bits(token for token, piece in blank if piece.endswith(b"\n"))
        """Whitespace that ends a line: the next one's indentation would be the answer's own."""
        self.spells_opener = splitter.OPENER not in text.markers
        """The opening tag has no token of its own: only then a model begins it with a part."""
        bare = [(token, piece.lstrip(WHITESPACE)) for token, piece in pieces if b"<" in piece]
        if not self.spells_opener:
            bare = [(token, body) for token, body in bare if body.startswith(OPENER)]
        tails = [OPENER[at:] for at in range(1, len(OPENER))] if self.spells_opener else []
        inner = [(token, piece) for token, piece in pieces if piece[0] in OPENER]
        self.opening = (
            self._bits(token for token, body in bare if _leads_on(body, OPENER)),
            *(self._bits(token for token, piece in inner if _leads_on(piece, tail)) for tail in tails),
        )
        """By how many bytes of the opening tag are written: what writes more of it, or the rest of it and more."""
        ends = [(token, piece) for token, piece in pieces if b">" in piece]
        self.closing = tuple(
            tuple(token for token, piece in ends if (closed(seen, piece)[1] or b"").strip(WHITESPACE))
            for seen in range(len(CLOSER))
        )
        """By how many bytes of the closing tag are written: what completes it and goes on with text."""
        self.no_end = self.all_but(self.ends)
        closer = text.markers.get(splitter.CLOSER)
        tails = [CLOSER[seen:] for seen in range(len(CLOSER))]
        self.closers = tuple(
            self._bits([closer] if closer is not None and tail == CLOSER else _parts_of(pieces, tail)) for tail in tails
        )
        """By how many bytes of the closing tag are written: what writes more of it and nothing else."""

    def piece(self, token: int) -> bytes:
        """The bytes that a token stands for; none for an end."""
        if token in self.ends:
            return b""
        marker = self._markers.get(token)
        return self._piece(token) if marker is None else marker

    @property
    def nothing(self) -> bytes:
        """The bits of a mask that allows no token."""
        return bytes(self._bytes)

    def all_but(self, tokens: Iterable[int]) -> bytes:
        """The bits of a mask that allows every token but these."""
        return self._bits(tokens).translate(_FLIPPED)

    def _bits(self, tokens: Iterable[int]) -> bytes:
        bits = bytearray(self._bytes)
        for token in tokens:
            bits[token >> 3] |= 1 << (token & 7)
        return bytes(bits)


def borders(text: TextModel) -> Borders:
    """The tables of `text`, built once a model: about 0.1 s for 150,000 tokens."""
    return _borders(cast(Hashable, text))


@lru_cache(maxsize=8)
def _borders(text: Any) -> Borders:
    return Borders(text)


def closed(seen: int, data: bytes) -> tuple[int, bytes | None]:
    """Read `data` inside a block, `seen` bytes of the closing tag written: how many are now, and what follows it.

    The second is None while the block is open.
    """
    data = CLOSER[:seen] + data
    end = data.find(CLOSER)
    if end >= 0:
        return 0, data[end + len(CLOSER) :]
    # The tag has its only `<` in front.
    start = data.rfind(b"<")
    tail = data[start:] if start >= 0 else b""
    return (len(tail) if CLOSER.startswith(tail) else 0), None


def joined(masks: Sequence[bytes]) -> bytes:
    """The tokens that any of the masks allows; at least one mask, all of one length."""
    if len(masks) == 1:
        return masks[0]
    union = np.frombuffer(masks[0], dtype=np.uint8).copy()
    for mask in masks[1:]:
        union |= np.frombuffer(mask, dtype=np.uint8)
    return union.tobytes()


def _matters(piece: bytes) -> bool:
    """Whether any table may have the token; few do, and the vocabulary is long."""
    return bool(piece) and (piece[0] in WHITESPACE or b"<" in piece or b">" in piece or piece in OPENER)


def _parts_of(pieces: Iterable[tuple[int, bytes]], tail: bytes) -> list[int]:
    return [token for token, piece in pieces if tail.startswith(piece)]


def _leads_on(piece: bytes, tag: bytes) -> bool:
    """Whether `piece` writes a beginning of `tag`, or all of it and then what cannot be an answer."""
    if not piece.startswith(tag):
        return bool(piece) and tag.startswith(piece)
    return not (closed(0, piece[len(tag) :])[1] or b"").strip(WHITESPACE)
