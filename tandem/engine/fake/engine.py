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
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tandem.engine.errors import BadInput, EngineError
from tandem.engine.fake.row import pick
from tandem.engine.fake.script import FIXED_SENTENCE, Piece, Script
from tandem.engine.fake.text import FakePrompt, FakeText
from tandem.engine.fake.vocabulary import IM_END, IM_START, THINK_END
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import EMPTY_TREE, Accepted, ModelCard, Prefilled, SamplingRules, TokenLogprob, Tree

__all__ = ["Call", "FakeEngine", "FakeRows", "FakeSeq"]

CALLS_KEPT: Final = 10_000
MAX_LEN: Final = 262_144
GRID: Final = 1024

_CLOSER: Final = b"</think>"


class Call(NamedTuple):
    """One verb: when, in simulated seconds since the load, and its arguments as numbers; never text."""

    verb: str
    at: float
    args: Mapping[str, int]


@dataclass(slots=True)
class FakeSeq:
    """A sequence: how far its prompt is read, what it has written, and where in its script it is."""

    number: int
    prompt: Prompt
    script: Script
    says: tuple[tuple[int, ...], ...]
    fixed: tuple[int, ...]
    read: int = 0
    output: list[int] = field(default_factory=list)
    written: int = 0
    """Tokens accepted; forced ones are in `output` only."""
    say: int = 0
    at: int = 0
    closed: bool = False

    def next_say(self) -> None:
        """Begin the next generation inside the request: the next `then`, past the last the fixed sentence."""
        self.say += 1
        self.at = 0

    @property
    def current(self) -> tuple[int, ...]:
        """What the present generation says."""
        return self.says[self.say] if self.say < len(self.says) else self.fixed

    def scripted(self, ahead: int) -> int:
        """The token that the script has `ahead` places after the next one."""
        at = self.at + ahead
        say = self.current
        if at < len(say):
            return say[at]
        if self.script.loop and say:
            return say[at % len(say)]
        return IM_END if self.script.eos else self.fixed[(at - len(say)) % len(self.fixed)]


@dataclass(frozen=True, slots=True)
class FakeRows:
    """One pass: the tree, and the scripted token behind the newest token and behind each depth of the tree."""

    tree: Tree
    scripted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    read: int
    output: tuple[int, ...]
    written: int
    say: int
    at: int


class FakeEngine:
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
        if len(prompt.ids) >= self._card.max_len:
            raise EngineError(f"{len(prompt.ids)} prompt tokens leave no room in a window of {self._card.max_len}")
        script = self._script(prompt)
        says = tuple(self._tokens(say) for say in script.says)
        seq = FakeSeq(self._opened, prompt, script, says, self._fixed)
        self._record("open", seq, tokens=len(prompt.ids))
        self._opened += 1
        self._open += 1
        return seq

    def close(self, seq: FakeSeq) -> None:
        if not seq.closed:
            self._record("close", seq)
            seq.closed = True
            self._open -= 1

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
        if len(seq.prompt.ids) + len(seq.output) + len(ids) > self._card.max_len:
            raise EngineError(f"the window of {self._card.max_len} tokens is full")
        seq.output += ids
        seq.written += len(ids)
        seq.at += len(ids)
        self._spend(len(ids) * seq.script.token_ms)
        drafted = len(rows.tree.tokens)
        accepted = Accepted(tuple(ids), tuple(logprobs), drafted, len(ids) - 1)
        self._record("accept", seq, tokens=len(ids))
        self._counters["rounds"] += 1
        self._counters["drafted_tokens"] += drafted
        self._counters["accepted_tokens"] += accepted.draft_accepted
        self._counters["committed_tokens"] += len(ids)
        return accepted

    def force(self, seq: FakeSeq, ids: Sequence[int]) -> None:
        self._check(seq)
        self._record("force", seq, tokens=len(ids))
        seq.output += ids
        self._spend(len(ids) * seq.script.prefill_ms_per_token)
        if IM_START in ids:
            seq.next_say()
        elif THINK_END in ids:
            seq.at += self._to_closer(seq)

    def ask(self, seq: FakeSeq, ids: Sequence[int], options: Sequence[int]) -> tuple[float, ...]:
        """The fake has no opinion: every option is as likely as the others."""
        self._check(seq)
        self._record("ask", seq, tokens=len(ids), options=len(options))
        self._spend(len(ids) * seq.script.prefill_ms_per_token)
        return (1.0 / len(options),) * len(options)

    def snapshot(self, seq: FakeSeq) -> object:
        self._check(seq, read=False)
        self._record("snapshot", seq)
        return _Snapshot(seq.read, tuple(seq.output), seq.written, seq.say, seq.at)

    def restore(self, seq: FakeSeq, snapshot: object) -> None:
        self._check(seq, read=False)
        if not isinstance(snapshot, _Snapshot):
            raise EngineError("not a snapshot of this engine")
        self._record("restore", seq)
        seq.read, seq.output, seq.written = snapshot.read, list(snapshot.output), snapshot.written
        seq.say, seq.at = snapshot.say, snapshot.at

    def cost(self) -> Mapping[str, int]:
        return {"bytes_per_anchor": 0, "bytes_per_snapshot": 0, "bytes_per_token": 0}

    def state(self) -> Mapping[str, int]:
        return {"requests": self._opened, "open_sequences": self._open, **self._counters}

    def _verify(self, seq: FakeSeq, tree: Tree) -> FakeRows:
        self._check(seq)
        self._record("verify", seq, rows=1 + len(tree.tokens))
        if seq.script.fail_at is not None and seq.written >= seq.script.fail_at:
            self._counters["errors"] += 1
            raise EngineError(f"the script has the engine fail at token {seq.script.fail_at}")
        return FakeRows(tree, tuple(seq.scripted(ahead) for ahead in range(1 + len(tree.tokens))))

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
            node = None if token in self._text.end_ids else children.get((node, token))
        return ids, logprobs

    def _tokens(self, say: Sequence[Piece]) -> tuple[int, ...]:
        ids = self._text.vocabulary.ids
        return tuple(token for piece in say for token in ((piece,) if isinstance(piece, int) else ids(piece)))

    def _to_closer(self, seq: FakeSeq) -> int:
        """Tokens from here through the script's next `</think>`, one written in several tokens too; 0 without one."""
        say = seq.current
        start = seq.at % len(say) if seq.script.loop and say else seq.at
        ahead = say[start:] + (say[:start] if seq.script.loop else ())
        seen = b""
        for count, token in enumerate(ahead, start=1):
            seen = seen[1 - len(_CLOSER) :] + self._text.piece(token)
            if _CLOSER in seen:
                return count
        return 0

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
        if read and seq.read < len(seq.prompt.ids):
            raise EngineError(f"{seq.read} of {len(seq.prompt.ids)} prompt tokens are read; prefill the rest first")

    def _record(self, verb: str, seq: FakeSeq, **args: int) -> None:
        self.calls.append(Call(verb, self._clock, {"seq": seq.number, **args}))

    def _spend(self, milliseconds: float) -> None:
        self._clock += milliseconds / 1000.0
