"""What a request's slot does before the request knows what it will run: the question inside the conversation (RTR-019).

Both runs are under one grant, so nothing asked here waits for another (SCH-024, SCH-025).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tandem.engine.decoding.generation import Generation
from tandem.http.events import Output

__all__ = ["Ahead"]


@dataclass(frozen=True, slots=True)
class Ahead:
    """`first` runs first, on the same slot; whatever came of it, what `then` gives follows it."""

    first: Generation
    then: Callable[[], Awaitable[tuple[Generation, ...] | Output]]
    """Or the whole answer, where nothing is to be generated (MON-116)."""
    rows: int
    """Of the prompt of `first`, those that the client is told of: its conversation's."""
