"""The fake engine: the verbs of `tandem.engine.verbs` over a script, without tensors, threads or a clock.

What a verb would have taken on a device is added up in `take_elapsed`, which the host spends on its own clock. A
round drafts the script itself, so that it commits `block` tokens; a bias, a penalty or a mask that turns one of them
away ends the block there, as it would on a real engine. Whatever token is taken, the script moves one on.

A forced turn start (`<|im_start|>` among the ids, as in a hidden user turn) begins the next generation inside the
request, which says the next of `then`. A forced `</think>` moves the script on to just behind its own next one, if one
is still ahead, so that the answer follows. Any other forced ids leave the script where it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tandem.engine.errors import BadInput, EngineError
from tandem.engine.fake.caching import FakeCaching
from tandem.engine.fake.row import pick
from tandem.engine.fake.script import FIXED_SENTENCE, Piece, Script
from tandem.engine.fake.sequence import FakeLoan, FakeRows, FakeSeq, FakeSnapshot
from tandem.engine.fake.text import FakePrompt, FakeText
from tandem.engine.fake.vocabulary import IM_END, IM_START, THINK_END
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import EMPTY_TREE, Accepted, Loan, ModelCard, Prefilled, SamplingRules, TokenLogprob, Tree

__all__ = ["Call", "FakeEngine", "FakeRows", "FakeSeq"]

CALLS_KEPT: Final = 10_000
MAX_LEN: Final = 262_144
GRID: Final = 1024


class Call(NamedTuple):
    """One verb: when, in simulated seconds since the load, and its arguments as numbers; never text."""

    verb: str
    at: float
    args: Mapping[str, int]


class FakeEngine(FakeCaching):
    """Any number of sequences at once. Same script and rules, same output. `max_len` and `grid` None: its own.

    With `images` its prompts may hold them; it sees their number of rows.
    """

    def __init__(
        self, *, max_len: int | None = None, grid: int | None = None, name: str = "fake", images: bool = False
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
        )
        self.calls: deque[Call] = deque(maxlen=CALLS_KEPT)
        """The newest verbs, in order (ENG-172)."""
        self._fixed = tuple(self._text.vocabulary.encode(FIXED_SENTENCE))
        self._clock = 0.0
        self._taken = 0.0
        self._opened = 0
        self._open = 0
        self._loan: FakeLoan | None = None
        self._guest: FakeSeq | None = None
        self._counters = dict.fromkeys(
            ("prefilled_tokens", "rounds", "drafted_tokens", "accepted_tokens", "committed_tokens", "errors"), 0
        )

    @property
    def card(self) -> ModelCard:
        return self._card

    @property
    def text(self) -> FakeText:
        return self._text

    def take_elapsed(self) -> float:
        """Simulated seconds since the last call."""
        elapsed, self._taken = self._clock - self._taken, self._clock
        return elapsed

    def open(self, prompt: Prompt) -> FakeSeq:
        if not prompt.ids:
            raise EngineError("the prompt has no tokens")
        room = self._card.max_len if self._loan is None else self._loan.rows
        if len(prompt.ids) >= room:
            raise EngineError(f"{len(prompt.ids)} prompt tokens leave no room in {_rows(room, self._loan)}")
        script = self._script(prompt)
        says = tuple(self._tokens(say) for say in script.says)
        seq = FakeSeq(self._opened, prompt, script, says, self._fixed, room)
        if self._loan is not None:
            if self._guest is not None:
                raise EngineError("a guest is open already")
            self._guest = seq
        self._record("open", seq, tokens=len(prompt.ids))
        self._opened += 1
        self._open += 1
        return seq

    def close(self, seq: FakeSeq) -> None:
        if not seq.closed:
            self._record("close", seq)
            seq.closed = True
            self._open -= 1
            if seq is self._guest:
                self._guest = None

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
        return [self._verify(seq, tree) for seq, tree in pairs]

    def accept(self, seq: FakeSeq, rows: FakeRows, rules: SamplingRules) -> Accepted:
        """As the Protocol says. The mask is read and not committed to: the generation does that."""
        self._check(seq)
        ids, logprobs = self._walk(seq, rows, rules)
        if len(seq.prompt.ids) + len(seq.output) + len(ids) > seq.room:
            loan = self._loan if seq is self._guest else None
            raise EngineError(f"{_rows(seq.room, loan)} is full")
        seq.output += ids
        seq.written += len(ids)
        seq.at += len(ids)
        seq.pending, seq.accepted = len(ids), len(ids) - 1
        self._spend(len(ids) * seq.script.token_ms)
        drafted = len(rows.tree.tokens)
        accepted = Accepted(tuple(ids), tuple(logprobs), drafted, len(ids) - 1)
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

    def force(self, seq: FakeSeq, ids: Sequence[int]) -> None:
        self._check(seq)
        self._record("force", seq, tokens=len(ids))
        seq.pending = 0
        seq.output += ids
        self._spend(len(ids) * seq.script.prefill_ms_per_token)
        if IM_START in ids:
            seq.next_say()
        elif THINK_END in ids:
            seq.at += seq.to_closer(self._text.piece)

    def ask(self, seq: FakeSeq, ids: Sequence[int], options: Sequence[int]) -> tuple[float, ...]:
        """The fake has no opinion: every option is as likely as the others."""
        self._check(seq)
        self._record("ask", seq, tokens=len(ids), options=len(options))
        seq.pending = 0
        self._spend(len(ids) * seq.script.prefill_ms_per_token)
        return (1.0 / len(options),) * len(options)

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
        seq.say, seq.at, seq.pending = snapshot.say, snapshot.at, 0

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

    def cost(self) -> Mapping[str, int]:
        return {"bytes_per_anchor": 0, "bytes_per_snapshot": 0, "bytes_per_token": 0}

    def state(self) -> Mapping[str, int]:
        return {"requests": self._opened, "open_sequences": self._open, **self._counters}

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

    def _walk(self, seq: FakeSeq, rows: FakeRows, rules: SamplingRules) -> tuple[list[int], list[TokenLogprob]]:
        """From the root into the child that carries the token taken, as far as there is one (ENG-059)."""
        children = {pair: node for node, pair in enumerate(zip(rows.tree.parents, rows.tree.tokens, strict=True))}
        ids: list[int] = []
        logprobs: list[TokenLogprob] = []
        node: int | None = -1
        while node is not None:
            token, logprob = pick(rows.scripted[len(ids)], rules, seq.prompt.ids, seq.output, ids)
            ids.append(token)
            if logprob is not None:
                logprobs.append(logprob)
            is_end = token in self._text.end_ids or token in rules.end_ids
            node = None if is_end else children.get((node, token))
        return ids, logprobs

    def _tokens(self, say: Sequence[Piece]) -> tuple[int, ...]:
        ids = self._text.vocabulary.ids
        return tuple(token for piece in say for token in ((piece,) if isinstance(piece, int) else ids(piece)))

    def _script(self, prompt: Prompt) -> Script:
        """The script that came with the prompt; a prompt that the fake's text model did not make is read for one."""
        if isinstance(prompt, FakePrompt):
            return prompt.script
        try:
            return self._text.read(prompt.ids).script
        except BadInput as error:
            raise EngineError(str(error)) from None

    def _check(self, seq: FakeSeq, *, read: bool = True) -> None:
        if seq.closed:
            raise EngineError("the sequence is closed")
        if self._loan is not None and seq is self._loan.holder:
            raise EngineError("the engine is lent; its holder waits until it is given back")
        if read and seq.read < len(seq.prompt.ids):
            raise EngineError(f"{seq.read} of {len(seq.prompt.ids)} prompt tokens are read; prefill the rest first")

    def _record(self, verb: str, seq: FakeSeq | None, **args: int) -> None:
        whose = {} if seq is None else {"seq": seq.number}
        self.calls.append(Call(verb, self._clock, {**whose, **args}))

    def _spend(self, milliseconds: float) -> None:
        self._clock += milliseconds / 1000.0


def _rows(room: int, loan: FakeLoan | None) -> str:
    return f"a window of {room}" if loan is None else f"the {room} rows lent to a guest"
