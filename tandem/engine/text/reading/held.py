"""What an answer holds back until it is judged (SP3): its calls, and the call blocks that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Held"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A call where `why` is None, else a block that the codec rejected."""

    index: int
    """Its place among all that the answer holds, from 0 on."""
    name: str = ""
    """The tool's; "" where it could not be read."""
    arguments: str = ""
    """JSON of a call; "" of a block."""
    text: str = ""
    """The block as it was written, markers included."""
    why: str | None = None
    """Why the codec rejected the block, in a few words that hold nothing of it: `no name`, `bad json`, `unclosed` …"""
    complete: bool = True
    """Its closing marker was read."""
    at: int = 0
    """Offset in the answer's raw text, for what goes out as content after all."""
