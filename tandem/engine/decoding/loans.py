"""Lending an engine to a guest, and what it takes to give it back (ENG-134 to ENG-138)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from tandem.engine.caches.copies import Held
from tandem.engine.caches.hoard import Hoard
from tandem.engine.decoding.faults import line
from tandem.engine.decoding.guide import Guide
from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.errors import EngineError
from tandem.engine.models.state import Lent, State
from tandem.engine.verbs import Loan

__all__ = ["Lending", "TorchLoan"]


@dataclass(frozen=True, slots=True, eq=False)
class TorchLoan:
    """What a holder keeps itself, its ids and its row, a guest cannot reach; the state and the caches' rows are here.

    A pending commit is part of the state, so the verify that comes after applies the very same records.
    """

    holder: TorchSequence | None
    rows: int
    state: Lent = field(repr=False)
    resident: Held = field(repr=False)

    @property
    def nbytes(self) -> int:
        return self.state.nbytes


class Lending:
    """At most one loan at a time. While one is out, nothing is resident and the drafter rests."""

    def __init__(self, state: State, hoard: Hoard, guide: Guide) -> None:
        self._state = state
        self._hoard = hoard
        self._guide = guide
        self.loan: TorchLoan | None = None

    def borrow(self, holder: TorchSequence | None, rows: int) -> TorchLoan:
        if self.loan is not None:
            raise EngineError("the engine is lent already")
        if not 1 <= rows <= self._state.max_len:
            raise EngineError(f"{rows} rows cannot be lent of a window of {self._state.max_len}")
        try:
            with torch.inference_mode():
                lent = self._state.lend(rows)
        except (RuntimeError, MemoryError) as error:
            raise EngineError(f"borrow failed: {line(error)}") from error
        self.loan = TorchLoan(holder, rows, lent, self._hoard.lend())
        self._guide.rest()
        return self.loan

    def out(self, loan: Loan) -> TorchLoan:
        """`loan`, which must be the one that is out."""
        if self.loan is None or loan is not self.loan:
            raise EngineError("this loan is not out")
        return self.loan

    def forget(self) -> None:
        """What was lent is no more."""
        self.loan = None

    def give_back(self, loan: TorchLoan) -> None:
        """The guest is closed."""
        with torch.inference_mode():
            self._state.take_back(loan.state)
        self._hoard.take_back(loan.resident)
        self._guide.wake()
        self.loan = None
