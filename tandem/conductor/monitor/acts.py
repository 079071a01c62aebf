"""How many acts a request may still have, and what hidden text came last (MON-039 to MON-041)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from tandem.conductor.monitor.actions import ActionKind
from tandem.conductor.monitor.policy import Caps
from tandem.conductor.monitor.state import HOUR_S

__all__ = ["Acts", "CapName"]

CapName: TypeAlias = Literal["acts_per_request", "acts_per_session_hour"]
DIGEST_BYTES: Final = 8


class Acts:
    """`before` are the times of the session's acts so far, and `now` when the request came."""

    def __init__(self, caps: Caps, before: Sequence[float], now: float) -> None:
        self._caps = caps
        self._earlier = sum(now - at < HOUR_S for at in before)
        self.count = 0
        self._last: tuple[ActionKind, bytes] | None = None

    @property
    def reached(self) -> CapName | None:
        """The cap that the next act would go beyond."""
        if self.count >= self._caps.acts_per_request:
            return "acts_per_request"
        if self._earlier + self.count >= self._caps.acts_per_session_hour:
            return "acts_per_session_hour"
        return None

    def is_repeat(self, kind: ActionKind, text: str) -> bool:
        """Whether the act before this one had the model read the same, to no effect."""
        return self._last == (kind, _digest(text))

    def add(self, kind: ActionKind, text: str | None) -> None:
        """One act more; `text` is what the model read of it, None: nothing."""
        self.count += 1
        self._last = None if text is None else (kind, _digest(text))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
