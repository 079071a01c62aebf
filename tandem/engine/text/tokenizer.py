"""Byte-level BPE over the `tokenizers` library: text to ids, ids to bytes (ENG-012).

Two encoders would be one too many to get wrong, so there is one, without any special token in it, for all text. The
special tokens are put between its pieces here (`encode_marked`), and only where a template has written them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from tandem.engine.errors import BadInput, CheckpointError

__all__ = ["BpeTokenizer", "Marker", "byte_alphabet"]

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_LONG = 8_000
"""Characters above which the library's batch call is used: it gives up the interpreter's lock, `encode` keeps it."""


def byte_alphabet() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for (GPT-2's table).

    Printable Latin-1 bytes stand for themselves; the other 68 get the code points from 256 on, in order.
    """
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + rank): byte for rank, byte in enumerate(others)}


@dataclass(frozen=True, slots=True)
class Marker:
    """A token that only a template may write. `special` ones are dropped from delivered text (ENG-092).

    `lstrip` and `rstrip`: the token swallows the whitespace before or after it.
    """

    id: int
    text: str
    special: bool
    lstrip: bool = False
    rstrip: bool = False


class BpeTokenizer:
    """One checkpoint's tokenizer. `sha256` is its fingerprint. Safe to use from any thread."""

    def __init__(self, tokenizer: Tokenizer, sha256: str) -> None:
        """`tokenizer` is the whole one, added tokens included. `CheckpointError` where it is not byte-level BPE."""
        spec = json.loads(tokenizer.to_str())
        _check_byte_level(spec)
        self.sha256 = sha256
        self.markers = tuple(_markers(tokenizer))
        self._by_text = {marker.text: marker for marker in self.markers}
        self._plain = _plain_tokenizer(spec, {marker.text for marker in self.markers})
        self._pieces = _pieces(tokenizer, self.markers)
        self._names = {marker.id: marker.text for marker in self.markers}
        self._missing = _missing_bytes(spec["model"]["vocab"])
        # Longest first makes the leftmost match the longest one, as the library's own matcher has it.
        texts = sorted((m.text for m in self.markers if len(m.text) > 1), key=lambda text: (-len(text), text))
        self._split = re.compile("(" + "|".join(map(re.escape, texts)) + ")") if texts else None

    @property
    def vocab_size(self) -> int:
        """One more than the highest id."""
        return len(self._pieces)

    def is_token(self, token: int) -> bool:
        """Whether the id is in the vocabulary."""
        return 0 <= token < len(self._pieces) and self._pieces[token] is not None

    def id_of(self, text: str) -> int | None:
        """The id of the marker spelled `text`."""
        marker = self._by_text.get(text)
        return None if marker is None else marker.id

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, none of them a marker's. A byte that the vocabulary lacks makes its character U+FFFD."""
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise BadInput(None, "text holds a lone surrogate, which is not valid Unicode") from error
        if self._missing and not self._missing.isdisjoint(data):
            text = "".join(c if self._missing.isdisjoint(c.encode()) else _REPLACEMENT for c in text)
        if len(text) > _LONG:
            return self._plain.encode_batch_fast([text], add_special_tokens=False)[0].ids
        return self._plain.encode(text, add_special_tokens=False).ids

    def encode_marked(self, text: str, sentinel: str = "") -> list[int]:
        """Ids of a rendered prompt: markers become their token; `sentinel` is taken out of the text between them."""
        return self.encode_rendered(text, sentinel)[0]

    def encode_rendered(self, text: str, sentinel: str = "") -> tuple[list[int], list[int]]:
        """The same, and the rows of the markers."""
        ids: list[int] = []
        rows: list[int] = []
        parts = self._split.split(text) if self._split else [text]
        strip_next = False
        for index in range(0, len(parts), 2):
            marker = self._by_text[parts[index + 1]] if index + 1 < len(parts) else None
            piece = parts[index].lstrip() if strip_next else parts[index]
            piece = piece.rstrip() if marker and marker.lstrip else piece
            if piece := piece.replace(sentinel, ""):
                ids += self.encode(piece)
            if marker:
                rows.append(len(ids))
                ids.append(marker.id)
                strip_next = marker.rstrip
        return ids, rows

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for; empty for a special token and for an id that is no token."""
        return (self._pieces[token] or b"") if 0 <= token < len(self._pieces) else b""

    def name(self, token: int) -> str:
        """A token's text, a marker's own name, or `<id>` for an id that is no token."""
        if token in self._names:
            return self._names[token]
        return self.piece(token).decode(errors="replace") if self.is_token(token) else f"<{token}>"


def _check_byte_level(spec: dict[str, Any]) -> None:
    if spec["model"].get("type") != "BPE" or not _has_byte_level(spec.get("decoder")):
        raise CheckpointError("the tokenizer is not byte-level BPE, the only kind that is served")


def _has_byte_level(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    return part.get("type") == "ByteLevel" or any(map(_has_byte_level, part.get("decoders", ())))


def _markers(tokenizer: Tokenizer) -> Iterable[Marker]:
    for token, added in sorted(tokenizer.get_added_tokens_decoder().items()):
        # Some vocabularies add runs of spaces as tokens; those are text that anybody may write.
        if added.content.strip():
            yield Marker(token, added.content, added.special, added.lstrip, added.rstrip)


def _plain_tokenizer(spec: dict[str, Any], markers: set[str]) -> Tokenizer:
    """The tokenizer with every trace of a marker removed, from the model's vocabulary too.

    With `ignore_merges` a word that spells a vocabulary entry becomes it, so leaving markers in would be a leak.
    """
    model = spec["model"]
    kept = [token for token in spec["added_tokens"] if token["content"] not in markers]
    vocabulary = {text: token for text, token in model["vocab"].items() if text not in markers}
    # The library numbers an added token anew on loading unless the model's vocabulary has it.
    vocabulary |= {token["content"]: token["id"] for token in kept}
    pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"])
    merges = [pair for pair in pairs if markers.isdisjoint((*pair, pair[0] + pair[1]))]
    unknown = None if model.get("unk_token") in markers else model.get("unk_token")
    plain = {
        "added_tokens": kept,
        "post_processor": None,
        "truncation": None,
        "padding": None,
        "model": model | {"vocab": vocabulary, "merges": merges, "unk_token": unknown},
    }
    return Tokenizer.from_str(json.dumps(spec | plain))


def _pieces(tokenizer: Tokenizer, markers: Iterable[Marker]) -> tuple[bytes | None, ...]:
    """Bytes of every id up to the highest, None where there is no token."""
    alphabet = byte_alphabet()
    added = {token: entry.content for token, entry in tokenizer.get_added_tokens_decoder().items()}
    special = {marker.id for marker in markers if marker.special}
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    pieces: list[bytes | None] = [None] * (max(vocabulary.values(), default=-1) + 1)
    for text, token in vocabulary.items():
        if token in special:
            pieces[token] = b""
        elif token in added:
            pieces[token] = added[token].encode()
        else:
            try:
                pieces[token] = bytes(alphabet[character] for character in text)
            except KeyError:
                raise CheckpointError(f"token {token} of the vocabulary is not byte-level") from None
    return tuple(pieces)


def _missing_bytes(vocabulary: dict[str, int]) -> frozenset[int]:
    return frozenset(byte for text, byte in byte_alphabet().items() if text not in vocabulary)
