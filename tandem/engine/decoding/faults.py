"""What a fault of torch inside a verb becomes, and what it leaves of the state (ENG-043)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tandem.engine.decoding.counters import Counters
from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.errors import EngineError, NumericalError, SlotDamaged
from tandem.engine.models.state import State

__all__ = ["Faults", "line"]


class Faults:
    """Runs the work of verbs without autograd. Faults of theirs are counted and become an `EngineError`."""

    def __init__(self, state: State, counters: Counters) -> None:
        self._state = state
        self._counters = counters

    @contextmanager
    def in_verb(self, seq: TorchSequence, verb: str, *, walks: bool = False) -> Iterator[None]:
        """The work of one verb, all that is pending settled before it.

        A forward that fails has written rows from its first one on only, which the sequence does not count yet: those
        below `length` serve the next request, and the recurrent part is put back to where it stood. After a row that
        is not finite nothing serves it, for nobody knows its origin. A verb that `walks` leaves what is verified.
        """
        stood = None
        try:
            with torch.inference_mode():
                if not walks:
                    seq.pending, seq.verified = None, None
                    stood = self._state.keep()
                yield
        except (RuntimeError, IndexError, MemoryError, EngineError) as error:
            if stood is not None:
                self._state.put_back(stood)
            else:
                self._state.discard()
                seq.verified = None
                seq.sound = seq.sound and walks  # half a commit is no state
            self._counters.errors += 1
            if isinstance(error, EngineError):
                seq.sound = seq.sound and not isinstance(error, NumericalError)
                raise
            lasting = isinstance(error, torch.AcceleratorError)  # a device that has failed so does nothing more
            raise (SlotDamaged if lasting else EngineError)(f"{verb} failed: {line(error)}") from error


def line(error: Exception) -> str:
    """What an error of torch says, in one line."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
