"""What an engine has because others stand beside it or work in its place: slots (ENG-160, SCH-056) and loans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from tandem.engine.decoding.counters import Counters
from tandem.engine.decoding.faults import line
from tandem.engine.decoding.guide import Guide
from tandem.engine.decoding.hoarding import HoardingEngine
from tandem.engine.decoding.joint import Joint, Party, broken
from tandem.engine.decoding.loans import Lending, TorchLoan
from tandem.engine.decoding.rounds import Rounds
from tandem.engine.decoding.sequence import Rows, TorchSequence
from tandem.engine.drafting.tree import NODES
from tandem.engine.errors import EngineError, SlotDamaged
from tandem.engine.models.state import State
from tandem.engine.verbs import Loan, Tree

if TYPE_CHECKING:
    from tandem.engine.decoding.torch_engine import TorchEngine

__all__ = ["SlottedEngine"]


class SlottedEngine(HoardingEngine):
    """Slot 0 has the others in `_slots` behind itself; a side slot has itself alone."""

    _slots: tuple[TorchEngine, ...]
    _open: TorchSequence | None
    _state: State
    _guide: Guide
    _lending: Lending
    _rounds: Rounds
    _joint: Joint
    _counters: Counters
    _is_side: bool

    @property
    def slots(self) -> tuple[TorchEngine, ...]:
        return self._slots

    def synchronise(self) -> None:
        # On the CPU a verb has finished when it returns.
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()

    def rebuild(self) -> None:
        if (seq := self._open) is not None:
            seq.sound = False  # the drafter is to remember nothing of it
            self._guide.end(seq)
            self._forget(seq)
        if (loan := self._lending.loan) is not None and loan.holder is not None:
            loan.holder.closed = True
        self._lending.forget()
        self._guide.lose()
        try:
            self._state.renew()
        except (RuntimeError, MemoryError) as error:
            raise EngineError(f"no memory for the slot's buffers: {line(error)}") from error
        finally:
            self._hoard.lost()

    def borrow(self, holder: TorchSequence | None, rows: int) -> TorchLoan:
        if self._is_side:
            raise EngineError("a side slot is not lent")
        if holder is not self._open:
            raise EngineError("the holder must be the sequence that is open, or none where none is")
        loan = self._lending.borrow(holder, rows)
        self._open = None
        return loan

    def give_back(self, loan: Loan) -> None:
        lent = self._lending.out(loan)
        if self._open is not None:
            self._forget(self._open)
        try:
            self._lending.give_back(lent)
        except (RuntimeError, MemoryError) as error:
            raise SlotDamaged(f"what was lent did not come back whole: {line(error)}") from error
        self._open = lent.holder

    @property
    def is_idle(self) -> bool:
        """Whether no sequence is open and the engine is not lent."""
        return self._open is None and self._lending.loan is None

    def worst_case(self, prompt_rows: int, max_new: int) -> int:
        """The workspace of its prefill, or of a round at its end where that is more; its rows are reserved already."""
        policy, total = self._hoard.policy, prompt_rows + max_new
        return max(policy.workspace(prompt_rows), policy.workspace(total, max(total - NODES - 1, 0)))

    def resident(self) -> tuple[Sequence[int], int]:
        loan = self._lending.loan
        opened = self._open if loan is None else loan.holder
        if opened is not None and not self._hoard.hosts:
            return opened.prompt.keys, len(opened.prompt.keys)
        return self._hoard.conversation()

    def verify(self, pairs: Sequence[tuple[TorchSequence, Tree]]) -> list[Rows]:
        """As the Protocol says. Of a tree is cut what is no tree or has no room."""
        if len(self._slots) > 1 and any(seq is not self._open for seq, _ in pairs):
            if len(pairs) > 1:
                return self._verify_several(pairs)
            return next((slot for slot in self._slots[1:] if slot._open is pairs[0][0]), self)._verify(pairs)
        return self._verify(pairs)

    def _verify(self, pairs: Sequence[tuple[TorchSequence, Tree]]) -> list[Rows]:
        for seq, _ in pairs:
            self._check_read(seq)
        return [self._rounds.verify(seq, tree) for seq, tree in pairs]

    def _verify_several(self, pairs: Sequence[tuple[TorchSequence, Tree]]) -> list[Rows]:
        """One of each slot. Whatever is wrong with one of them is told by its own rows."""
        whose = {id(slot._open): slot for slot in self._slots if slot._open is not None}
        if len({id(seq) for seq, _ in pairs}) < len(pairs):
            raise EngineError("a verify takes one pair of each slot")
        rows: list[Rows | None] = []
        parties = list[Party]()
        for seq, tree in pairs:
            try:
                slot = whose.get(id(seq), self)
                slot._check_read(seq)
            except EngineError as error:
                rows.append(broken(error))
            else:
                rows.append(None)
                parties.append(Party(slot._rounds, seq, tree))
        verified = iter(self._joint.verify(parties))
        return [next(verified) if each is None else each for each in rows]

    def _counted(self) -> Mapping[str, int]:
        """Counters of slot 0 and of what the others have done, and of what they do together where there are any."""
        totals = Counter[str]()
        for slot in self._slots:
            totals.update(slot._counters.state())
        own = {**totals, **self._guide.state()}
        if len(self._slots) > 1:
            own |= {"draft_faults": sum(slot._guide.faults for slot in self._slots), **self._joint.state()}
        return own

    def _forget(self, seq: TorchSequence) -> None:
        raise NotImplementedError

    def _check_read(self, seq: TorchSequence) -> None:
        raise NotImplementedError
