"""Bytes of tokens to text that is final: no character goes out before all its bytes are there (ENG-095)."""

from __future__ import annotations

import codecs

__all__ = ["Detokenizer"]

_Utf8Decoder = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """Everything fed, then `end`, gives exactly `bytes.decode("utf-8", "replace")` of the whole, however it was cut."""

    def __init__(self) -> None:
        self._decoder = _Utf8Decoder("replace")

    def feed(self, piece: bytes) -> str:
        """The characters that `piece` completes; bytes that can still become a character wait."""
        return self._decoder.decode(piece)

    def end(self) -> str:
        """One U+FFFD for a character that was never finished, else nothing."""
        return self._decoder.decode(b"", final=True)

    @property
    def is_waiting(self) -> bool:
        """Whether bytes of an unfinished character are held."""
        return bool(self._decoder.getstate()[0])
