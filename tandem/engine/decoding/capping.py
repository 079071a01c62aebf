"""The cap on reasoning: how far a round may go, and when the closer is forced (API-095, API-261, ENG-097, ENG-186)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tandem.engine.decoding.seams import Reader

__all__ = ["CALL_GRACE", "Capping", "ReasoningCap"]

CALL_GRACE: Final = 1024
"""Tokens beyond the cap after which a call block that is still open waits no more (API-261)."""


@dataclass(frozen=True, slots=True)
class ReasoningCap:
    """The block gets `tokens` tokens of the output at most; then `closer` is forced, which must hold its closing tag.

    A `visible` closer is read and counted as output, a hidden one only closes the block.
    """

    tokens: int
    closer: tuple[int, ...]
    visible: bool = True
    why: str = "client"
    """Whose number it is: `route`, `client`, `reserve`, or a task of the monitor (MON-038)."""
    shown: int = 0
    """As in `Force`."""

    def __post_init__(self) -> None:
        if self.tokens < 0 or not self.closer:
            raise ValueError(f"a cap needs a closer and at least 0 tokens, not {self.tokens}")


class Capping:
    """Watches one choice's cap; without one everything is allowed. `written` is the output so far, in tokens."""

    def __init__(self, cap: ReasoningCap | None, reader: Reader) -> None:
        self.cap = cap
        self._reader = reader
        self._spent = False

    def room(self, left: int, written: int) -> int:
        """How many of the `left` tokens a round may commit: never past the cap, behind it one by one."""
        if self.cap is None or self._spent or not self._reader.may_reason:
            return left
        return min(left, max(self.cap.tokens - written, 1))

    def take_due(self, written: int) -> ReasoningCap | None:
        """The cap, once, where its closer comes next. Output that is not decided yet, or a call, has it wait."""
        cap = self.cap
        if cap is None or self._spent or written < cap.tokens or not self._reader.in_reasoning:
            return None
        if self._reader.in_call and written < cap.tokens + CALL_GRACE:
            return None
        self._spent = True
        return cap
