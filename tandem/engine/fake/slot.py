"""One slot of the fake engine: the verbs of `tandem.engine.verbs` over a script, on a simulated device.

What `draft`, `accept` and the others do is told in `tandem.engine.fake.engine`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tandem.engine.errors import EngineError
from tandem.engine.fake.caching import FakeCaching
from tandem.engine.fake.sequence import FakeLoan, FakeRows, FakeSeq, FakeSnapshot, rows_of
from tandem.engine.fake.simulation import Call, Simulation
from tandem.engine.fake.text import FakeText
from tandem.engine.fake.vocabulary import IM_END, IM_START, THINK_END
from tandem.engine.fake.walking import script_of, tokens_of, walk
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import EMPTY_TREE, Accepted, Loan, ModelCard, Prefilled, SamplingRules, Tree

__all__ = ["FakeSlot"]


_COUNTED: Final = (
    "requests",
    "prefilled_tokens",
    "rounds",
    "drafted_tokens",
    "accepted_tokens",
    "committed_tokens",
    "errors",
)


class FakeSlot(FakeCaching):
    """Any number of sequences at once. Same script and rules, same output."""

    _text: FakeText
    _card: ModelCard
    _fixed: tuple[int, ...]
    """Ids of the sentence that is said where the script has nothing."""
    _worst: tuple[int, int]
    _device: Simulation
    _number: int
    _slots: tuple[FakeSlot, ...]
    repairs = True
    """Whether `rebuild` helps."""

    def _begin(self) -> None:
        """As after a load, for one slot."""
        self._opened: set[FakeSeq] = set()
        self._loan: FakeLoan | None = None
        self._guest: FakeSeq | None = None
        self._left: tuple[tuple[int, ...], int] = ((), 0)
        self._counters = dict.fromkeys(_COUNTED, 0)

    @property
    def card(self) -> ModelCard:
        return self._card

    @property
    def text(self) -> FakeText:
        return self._text

    @property
    def slots(self) -> tuple[FakeSlot, ...]:
        return self._slots

    @property
    def calls(self) -> deque[Call]:
        """The newest verbs of all slots, in order (ENG-172)."""
        return self._device.calls

    def open(self, prompt: Prompt) -> FakeSeq:
        if not prompt.ids:
            raise EngineError("the prompt has no tokens")
        room = self._card.max_len if self._loan is None else self._loan.rows
        if len(prompt.ids) >= room:
            raise EngineError(f"{len(prompt.ids)} prompt tokens leave no room in {rows_of(room, self._loan)}")
        script = script_of(self._text, prompt)
        says = tuple(tokens_of(self._text, say) for say in script.says)
        seq = FakeSeq(self._device.opened, prompt, script, says, self._fixed, room, self._number)
        if self._loan is not None:
            if self._guest is not None:
                raise EngineError("a guest is open already")
            self._guest = seq
        self._record("open", seq, tokens=len(prompt.ids))
        self._device.opened += 1
        self._counters["requests"] += 1
        self._opened.add(seq)
        return seq

    def close(self, seq: FakeSeq) -> None:
        if not seq.closed:
            self._record("close", seq)
            seq.closed = True
            self._opened.discard(seq)
            if seq is self._guest:
                self._guest = None
            elif seq.read:
                self._left = seq.keys, min(seq.read, len(seq.prompt.ids))

    def prefill(self, seq: FakeSeq, upto: int) -> Prefilled:
        self._check(seq, read=False)
        total, grid = len(seq.prompt.ids), self._card.anchor_grid
        rows = max(min(upto, total, (seq.read // grid + 1) * grid) - seq.read, 0)
        self._record("prefill", seq, upto=upto, rows=rows)
        seq.read += rows
        self._spend(rows * seq.script.prefill_ms_per_token)
        self._counters["prefilled_tokens"] += rows
        return Prefilled(seq.read, total)

    def draft(self, seq: FakeSeq, limit: int) -> Tree:
        self._check(seq)
        if limit < 1:
            raise EngineError("a round commits at least one token")
        self._record("draft", seq, limit=limit)
        count = min(seq.script.block, limit)
        if seq.script.fail_at is not None:
            count = min(count, max(seq.script.fail_at - seq.written, 1))
        tokens = [seq.scripted(ahead) for ahead in range(count - 1)]
        if IM_END in tokens:
            del tokens[tokens.index(IM_END) + 1 :]
        return Tree(tuple(tokens), tuple(range(-1, len(tokens) - 1))) if tokens else EMPTY_TREE

    def verify(self, pairs: Sequence[tuple[FakeSeq, Tree]]) -> list[FakeRows]:
        if len(pairs) == 1:
            [(seq, tree)] = pairs
            return [self._slot_of(seq)._verify(seq, tree)]
        return [self._slot_of(seq)._verify_beside(seq, tree, len(pairs)) for seq, tree in pairs]

    def accept(self, seq: FakeSeq, rows: FakeRows, rules: SamplingRules) -> Accepted:
        """As the Protocol says. The mask is read and not committed to: the generation does that."""
        self._check(seq)
        if rows.fault:
            raise EngineError(rows.fault)
        ids, logprobs = walk(seq, rows, rules, self._text.end_ids)
        self._check_room(seq, len(ids))
        seq.output += ids
        seq.written += len(ids)
        seq.at += len(ids)
        seq.pending, seq.accepted = len(ids), len(ids) - 1
        self._spend(len(ids) * seq.script.token_ms / rows.together)
        drafted = len(rows.tree.tokens)
        accepted = Accepted(tuple(ids), tuple(logprobs), drafted, len(ids) - 1, together=rows.together)
        self._record("accept", seq, tokens=len(ids))
        self._counters["rounds"] += 1
        self._counters["drafted_tokens"] += drafted
        self._counters["accepted_tokens"] += accepted.draft_accepted
        self._counters["committed_tokens"] += len(ids)
        return accepted

    def settle(self, seq: FakeSeq) -> None:
        self._check(seq)
        self._record("settle", seq)
        seq.pending = 0

    def discard(self, seq: FakeSeq) -> None:
        self._check(seq)
        self._record("discard", seq)
        self._take_back(seq, seq.pending)

    def trim(self, seq: FakeSeq, count: int) -> None:
        self._check(seq)
        if count < 0:
            raise EngineError(f"a round cannot keep {count} tokens")
        self._record("trim", seq, count=count)
        self._take_back(seq, max(seq.pending - count, 0))

    def force(self, seq: FakeSeq, ids: Sequence[int], *, hidden: bool = False, dropped: int = 0) -> None:
        self._check(seq)
        self._record("force", seq, tokens=len(ids))
        self._check_room(seq, len(ids))
        seq.force(ids, hidden=hidden, dropped=dropped)
        self._spend(len(ids) * seq.script.prefill_ms_per_token)
        if IM_START in ids:
            seq.next_say()
        elif THINK_END in ids:
            seq.at += seq.to_closer(self._text.piece)

    def ask(self, seq: FakeSeq, ids: Sequence[int], options: Sequence[int]) -> tuple[float, ...]:
        """As the script's `choose` says; without it every option is as likely as the others."""
        self._check(seq)
        self._record("ask", seq, tokens=len(ids), options=len(options))
        self._check_room(seq, len(ids))
        seq.pending = 0
        self._spend(len(ids) * seq.script.prefill_ms_per_token)
        return seq.script.shares([self._text.piece(option) for option in options])

    def snapshot(self, seq: FakeSeq) -> object:
        self._check(seq, read=False)
        self._record("snapshot", seq)
        seq.pending = 0
        return FakeSnapshot(seq.read, tuple(seq.output), seq.written, seq.say, seq.at)

    def restore(self, seq: FakeSeq, snapshot: object) -> None:
        self._check(seq, read=False)
        if not isinstance(snapshot, FakeSnapshot):
            raise EngineError("not a snapshot of this engine")
        self._record("restore", seq)
        seq.read, seq.output, seq.written = snapshot.read, list(snapshot.output), snapshot.written
        seq.say, seq.at, seq.pending, seq.unseen = snapshot.say, snapshot.at, 0, None

    def synchronise(self) -> None:
        """Nothing is ever under way."""

    def borrow(self, holder: FakeSeq | None, rows: int) -> FakeLoan:
        raise EngineError("a side slot is not lent")

    def give_back(self, loan: Loan) -> None:
        raise EngineError("this loan is not out")

    def rebuild(self) -> None:
        self._record("rebuild", None)
        if not self.repairs:
            raise EngineError("the script has the engine stay broken")
        for seq in tuple(self._opened):
            seq.closed = True
        counters = self._counters
        self._begin()
        self._counters = counters

    def worst_case(self, prompt_rows: int, max_new: int) -> int:
        fixed, each = self._worst
        return fixed + each * (prompt_rows + max_new)

    def resident(self) -> tuple[Sequence[int], int]:
        """The newest prompt that is open, else what the sequence closed last has left."""
        opened = [seq for seq in self._opened if seq is not self._guest]
        if opened:
            keys = max(opened, key=lambda seq: seq.number).prompt.keys
            return keys, len(keys)
        return self._left

    def cost(self) -> Mapping[str, int]:
        return {"bytes_per_anchor": 0, "bytes_per_snapshot": 0, "bytes_per_token": 0}

    def state(self) -> Mapping[str, int]:
        """Of slot 0: of all slots together."""
        totals = Counter[str]()
        for slot in self._slots:
            totals.update({"requests": 0, "open_sequences": len(slot._opened), **slot._counters})
        return dict(totals)

    def _slot_of(self, seq: FakeSeq) -> FakeSlot:
        for slot in self._slots:
            if slot._number == seq.slot:
                return slot
        raise EngineError("the sequence is another slot's")

    def _verify_beside(self, seq: FakeSeq, tree: Tree, together: int) -> FakeRows:
        """As one of several; a fault waits for its `accept`."""
        try:
            return replace(self._verify(seq, tree), together=together)
        except EngineError as error:
            return FakeRows(EMPTY_TREE, (), together, str(error))

    def _verify(self, seq: FakeSeq, tree: Tree) -> FakeRows:
        self._check(seq)
        self._record("verify", seq, rows=1 + len(tree.tokens))
        seq.pending = 0
        if seq.script.fail_at is not None and seq.written >= seq.script.fail_at:
            self._counters["errors"] += 1
            raise EngineError(f"the script has the engine fail at token {seq.script.fail_at}")
        return FakeRows(tree, tuple(seq.scripted(ahead) for ahead in range(1 + len(tree.tokens))))

    def _take_back(self, seq: FakeSeq, count: int) -> None:
        if count:
            accepted = seq.accepted
            seq.take_back(count)
            self._counters["committed_tokens"] -= count
            self._counters["accepted_tokens"] -= accepted - seq.accepted

    def _check(self, seq: FakeSeq, *, read: bool = True) -> None:
        if seq.closed:
            raise EngineError("the sequence is closed")
        if seq.slot != self._number:
            raise EngineError("the sequence is another slot's")
        if self._loan is not None and seq is self._loan.holder:
            raise EngineError("the engine is lent; its holder waits until it is given back")
        if read and seq.read < len(seq.prompt.ids):
            raise EngineError(f"{seq.read} of {len(seq.prompt.ids)} prompt tokens are read; prefill the rest first")

    def _check_room(self, seq: FakeSeq, more: int) -> None:
        if len(seq.prompt.ids) + len(seq.output) + more > seq.room:
            raise EngineError(f"{rows_of(seq.room, self._loan if seq is self._guest else None)} is full")

    def _admit(self) -> None:
        """A prompt is about to be read: there is room for every one."""

    def _record(self, verb: str, seq: FakeSeq | None, **args: int) -> None:
        whose = {} if seq is None else {"seq": seq.number}
        where = {"slot": self._number} if self._number else {}
        self._device.record(verb, **whose, **where, **args)

    def _spend(self, milliseconds: float) -> None:
        self._device.spend(milliseconds)
