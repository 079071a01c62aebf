"""A model's vocabulary as llguidance has it: bytes a token, and the special tokens that no plain text matches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from llguidance import LLTokenizer

from tandem.engine.text.model import TextModel

__all__ = ["GuidedVocabulary", "guided_vocabulary"]

_SPECIAL = 0xFF
"""The library's mark of a special token. No UTF-8 text holds the byte, so a token that begins with it is in no text."""


class GuidedVocabulary(Protocol):
    """Translates between the ids of a text model and those of the library's tokenizer."""

    @property
    def tokenizer(self) -> LLTokenizer: ...

    @property
    def end_ids(self) -> frozenset[int]: ...

    @property
    def none(self) -> bytes:
        """The bits of a mask that allows nothing."""

    def spell(self, token: int) -> tuple[int, ...]:
        """The library's ids for `token`; empty for one that no constrained text can hold."""

    def spell_bytes(self, data: bytes) -> tuple[int, ...]:
        """The library's ids for `data`, one a byte; empty where no text can hold it."""

    def bits(self, raw: bytes) -> bytes:
        """A mask over the library's ids as one over the model's, lowest id in the lowest bit."""

    def usual(self, data: bytes) -> tuple[int, ...]:
        """The model's ids for the beginning of `data` whose spelling does not depend on what comes after it."""


def guided_vocabulary(text: TextModel) -> GuidedVocabulary:
    """Built once a model. Takes 0.2 s for 150,000 tokens, most of it in Python."""
    return _OpenVocabulary(text) if text.is_open_vocabulary else _ClosedVocabulary(text)


class _ClosedVocabulary:
    """Every token is the library's under its own id. Behind them stand 256 tokens of one byte, for `spell_bytes`."""

    def __init__(self, text: TextModel) -> None:
        self._size = text.vocab_size
        self._bytes_from = (text.vocab_size + 7) // 8 * 8
        self._mask_bytes = self._bytes_from // 8
        self.end_ids = text.end_ids
        self.none = bytes(self._mask_bytes)
        tokens = [_plain(text.piece(token)) for token in range(text.vocab_size)]
        specials = _specials(text)
        for token, name in specials.items():
            tokens[token] = name
        self._is_spelled = bytes(map(bool, tokens))
        tokens += [b""] * (self._bytes_from - text.vocab_size)
        tokens += _single_bytes()
        self._encode = text.encode
        self.tokenizer = _tokenizer(tokens, specials, self.end_ids)

    def spell(self, token: int) -> tuple[int, ...]:
        return (token,) if 0 <= token < self._size and self._is_spelled[token] else ()

    def spell_bytes(self, data: bytes) -> tuple[int, ...]:
        return () if _SPECIAL in data else tuple(self._bytes_from + byte for byte in data)

    def bits(self, raw: bytes) -> bytes:
        return raw[: self._mask_bytes]

    def usual(self, data: bytes) -> tuple[int, ...]:
        return tuple(self._encode(data.decode(errors="ignore"))[:-1])  # the last may become one with what follows


class _OpenVocabulary:
    """Only bytes, ids 0 to 255, and special tokens are the library's; any other token is spelled byte by byte.

    A mask's bits have the bytes and the special tokens alone: whether a longer token is allowed, `spell` can tell.
    """

    def __init__(self, text: TextModel) -> None:
        self._text = text
        self.end_ids = text.end_ids
        self.none = bytes((text.vocab_size + 7) // 8)
        names = _specials(text)
        self._specials = dict(zip(names, range(256, 256 + len(names)), strict=True))
        tokens = [*_single_bytes(), *names.values()]
        ends = [self._specials[token] for token in self.end_ids]
        self.tokenizer = _tokenizer(tokens, self._specials.values(), ends)

    def spell(self, token: int) -> tuple[int, ...]:
        special = self._specials.get(token)
        return self.spell_bytes(self._text.piece(token)) if special is None else (special,)

    def spell_bytes(self, data: bytes) -> tuple[int, ...]:
        return () if _SPECIAL in data else tuple(data)

    def bits(self, raw: bytes) -> bytes:
        bits = bytearray(self.none)
        bits[:32] = raw[:32]
        for token, own in self._specials.items():
            if raw[own // 8] >> own % 8 & 1:
                bits[token // 8] |= 1 << token % 8
        return bytes(bits)

    def usual(self, data: bytes) -> tuple[int, ...]:
        return ()


def _specials(text: TextModel) -> dict[int, bytes]:
    """Markers and end ids by the names that a grammar has for them."""
    ends = {token: text.name(token).encode() for token in text.end_ids}
    return ends | {token: name.encode() for name, token in text.markers.items()}


def _plain(piece: bytes) -> bytes:
    return b"" if piece[:1] == b"\xff" else piece


def _single_bytes() -> list[bytes]:
    return [_plain(bytes((byte,))) for byte in range(256)]


class _Wrapper:
    """What `LLTokenizer` asks of a tokenizer. It is never called: no grammar forces tokens (`grammars.py`)."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokens: Sequence[bytes], specials: Sequence[int], end: int) -> None:
        self.tokens = tokens
        self.special_token_ids = specials
        self.eos_token_id = end

    def __call__(self, text: str) -> list[int]:
        raise NotImplementedError


def _tokenizer(tokens: list[bytes], specials: Iterable[int], ends: Iterable[int]) -> LLTokenizer:
    """The library wants an end id; a model without one gets one that no mask of its own shows."""
    special_ids, end_ids = list(specials), sorted(ends)
    if not end_ids:
        end_ids = [len(tokens)]
        special_ids += end_ids
        tokens = [*tokens, b"<end>"]
    return LLTokenizer(_Wrapper(tokens, special_ids, end_ids[0]), eos_token=end_ids)  # type: ignore[arg-type]
