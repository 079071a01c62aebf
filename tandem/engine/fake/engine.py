"""The fake engine: the verbs of `tandem.engine.verbs` over a script, without tensors, threads or a clock.

What a verb would have taken on a device is added up in `take_elapsed`, which the host spends on its own clock. A
round drafts the script itself, so that it commits `block` tokens; a bias, a penalty or a mask that turns one of them
away ends the block there, as it would on a real engine. Whatever token is taken, the script moves one on.

A forced turn start (`<|im_start|>` among the ids, as in a hidden user turn) begins the next generation inside the
request, which says the next of `then`. A forced `</think>` moves the script on to just behind its own next one, if one
is still ahead, so that the answer follows. Any other forced ids leave the script where it is.

Slots are engines on one simulated device. A verify of several takes as long as that of one, so each of n accepts spends
an n-th of what its tokens would take alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tandem.engine.errors import EngineError
from tandem.engine.fake.script import FIXED_SENTENCE
from tandem.engine.fake.sequence import FakeLoan, FakeRows, FakeSeq
from tandem.engine.fake.simulation import Call, Simulation
from tandem.engine.fake.slot import FakeSlot
from tandem.engine.fake.text import FakeText
from tandem.engine.verbs import Loan, ModelCard, Prefilled

__all__ = ["Call", "FakeEngine", "FakeRows", "FakeSeq", "FakeSide"]

MAX_LEN: Final = 262_144
GRID: Final = 1024
SIDE_MAX_LEN: Final = 65_536


class FakeEngine(FakeSlot):
    """Slot 0, and the device of all. `max_len` and `grid` None: its own.

    With `images` its prompts may hold them; it sees their number of rows. `slots` are served in all; the side slots
    have a window of `side_max_len`. `worst` are the bytes a request may need: so many, and so many for each token.
    """

    def __init__(
        self,
        *,
        max_len: int | None = None,
        grid: int | None = None,
        name: str = "fake",
        images: bool = False,
        slots: int = 1,
        side_max_len: int = SIDE_MAX_LEN,
        worst: tuple[int, int] = (0, 0),
    ) -> None:
        self._text = FakeText()
        self._card = ModelCard(
            name=name,
            architecture="fake",
            max_len=max_len or MAX_LEN,
            vocab_size=self._text.vocab_size,
            anchor_grid=grid or GRID,
            images=images,
            weights={"format": "none", "bytes": 0, "drafter": "script"},
            tokenizer_sha256=self._text.sha256,
        )
        self._fixed = tuple(self._text.vocabulary.encode(FIXED_SENTENCE))
        self._worst = worst
        self._device = Simulation()
        self._number = 0
        self._begin()
        sides = [FakeSide(self, number, min(side_max_len, self._card.max_len)) for number in range(1, slots)]
        self._slots = (self, *sides)

    def take_elapsed(self) -> float:
        """Simulated seconds since the last call."""
        return self._device.take_elapsed()

    def borrow(self, holder: FakeSeq | None, rows: int) -> FakeLoan:
        """One guest at a time; of the holder no verb is allowed meanwhile, other sequences go on."""
        if self._loan is not None:
            raise EngineError("the engine is lent already")
        if not 1 <= rows <= self._card.max_len:
            raise EngineError(f"{rows} rows cannot be lent of a window of {self._card.max_len}")
        if holder is not None:
            self._check(holder, read=False)
        self._loan = FakeLoan(holder, rows)
        self._record("borrow", holder, rows=rows)
        return self._loan

    def give_back(self, loan: Loan) -> None:
        if self._loan is None or loan is not self._loan:
            raise EngineError("this loan is not out")
        if self._guest is not None:
            self.close(self._guest)
        self._record("give_back", self._loan.holder)
        self._loan = None


class FakeSide(FakeSlot):
    """A side slot: a window of its own on the device of slot 0, and no loans."""

    def __init__(self, first: FakeEngine, number: int, max_len: int) -> None:
        self._first = first
        self._number = number
        self._text, self._fixed, self._worst = first._text, first._fixed, first._worst
        self._card = replace(first._card, max_len=max_len)
        self._device = first._device
        self._begin()
        self._slots = (self,)

    def prefill(self, seq: FakeSeq, upto: int) -> Prefilled:
        if seq.read == 0 and not seq.closed:
            self._first._admit()
        return super().prefill(seq, upto)
