"""The fake's vocabulary: word-like pieces of text that get an id when they are first met.

Layout of the 151,936 ids, after Qwen3's: 0 to 255 are the bytes, the specials stand at their published places, and
between them a piece has the id that its hash names. Two pieces of one hash give the second the next free id, so an id
depends on what was met before it in that rare case only.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

__all__ = [
    "END_OF_TEXT",
    "IMAGE_PAD",
    "IM_END",
    "IM_START",
    "SCRIPT_MARKERS",
    "SPECIALS",
    "THINK",
    "THINK_END",
    "TOOL_CALL",
    "TOOL_CALL_END",
    "TOOL_RESPONSE",
    "TOOL_RESPONSE_END",
    "VOCAB_SIZE",
    "Vocabulary",
    "cut",
]

VOCAB_SIZE: Final = 151_936
END_OF_TEXT: Final = 151_643
IM_START: Final = 151_644
IM_END: Final = 151_645
IMAGE_PAD: Final = 151_655
TOOL_CALL: Final = 151_657
TOOL_CALL_END: Final = 151_658
TOOL_RESPONSE: Final = 151_665
TOOL_RESPONSE_END: Final = 151_666
THINK: Final = 151_667
THINK_END: Final = 151_668

SPECIALS: Final = {
    "<|endoftext|>": END_OF_TEXT,
    "<|im_start|>": IM_START,
    "<|im_end|>": IM_END,
    "<|image_pad|>": IMAGE_PAD,
    "<tool_call>": TOOL_CALL,
    "</tool_call>": TOOL_CALL_END,
    "<tool_response>": TOOL_RESPONSE,
    "</tool_response>": TOOL_RESPONSE_END,
    "<think>": THINK,
    "</think>": THINK_END,
}
"""Only the template and the model write these; the same characters in a client's text are ordinary pieces."""

SCRIPT_MARKERS: Final = {name: SPECIALS[name] for name in ("<think>", "</think>", "<tool_call>", "</tool_call>")}
"""Those that a script can have the fake say."""

_DELIVERED = frozenset(SCRIPT_MARKERS.values())
"""Reasoning and call markers, which the reader wants to see (ENG-092)."""

_NAMES = {token: name for name, token in SPECIALS.items()}
_WORDS_FROM = 256
_WORDS_END = 151_600
_PROBES = 64
# A word takes the space before it along. Sixteen letters at most, so that no client can store long pieces here.
_PIECE = re.compile(r" ?[^\W\d_]{1,16}|.", re.DOTALL)
_SPECIAL = re.compile("(" + "|".join(map(re.escape, SPECIALS)) + ")")


def cut(text: str) -> list[bytes]:
    """Word-like pieces that together are `text`; a lone surrogate, which UTF-8 cannot say, becomes U+FFFD."""
    try:
        # `findall` would be one call that holds the interpreter's lock for a long text's whole length.
        return [piece[0].encode() for piece in _PIECE.finditer(text)]
    except UnicodeEncodeError:
        return cut(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


class Vocabulary:
    """Pieces to ids and back, from any thread and without a lock.

    Entries are only ever added, by `dict.setdefault`, which is one atomic step: of two threads that want one id for
    different pieces exactly one gets it, and the other sees that and moves on.
    """

    def __init__(self) -> None:
        self._pieces: dict[int, bytes] = {byte: bytes([byte]) for byte in range(_WORDS_FROM)}
        self._ids: dict[bytes, int] = {}

    def ids(self, piece: bytes) -> tuple[int, ...]:
        """The id of `piece`; its bytes' ids where no place near its hash is free, which ends the growth."""
        if len(piece) == 1:
            return (piece[0],)
        known = self._ids.get(piece)
        if known is not None:
            return (known,)
        start = int.from_bytes(blake2b(piece, digest_size=8).digest(), "big")
        for step in range(_PROBES):
            token = _WORDS_FROM + (start + step) % (_WORDS_END - _WORDS_FROM)
            if self._pieces.setdefault(token, piece) == piece:
                self._ids[piece] = token
                return (token,)
        return tuple(piece)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        known = self._ids
        for piece in cut(text):
            token = known.get(piece)
            if token is None:
                ids += self.ids(piece)
            else:
                ids.append(token)
        return ids

    def encode_own(self, text: str) -> list[int]:
        """As `encode`, a special token where one is spelled."""
        ids: list[int] = []
        for part in _SPECIAL.split(text):
            ids += [SPECIALS[part]] if part in SPECIALS else self.encode(part)
        return ids

    def piece(self, token: int) -> bytes:
        """An id that no text has claimed stands for a made-up word, so that whatever is drawn can be seen."""
        if (name := _NAMES.get(token)) is not None:
            return name.encode() if token in _DELIVERED else b""
        known = self._pieces.get(token)
        return f" w{token}".encode() if known is None else known

    def name(self, token: int) -> str:
        return _NAMES.get(token) or self.piece(token).decode("utf-8", "replace")
