"""The verbs of an engine: one synchronous Protocol that the real engines and the fake one implement (ENG-182).

A verb blocks, takes no callback and no cancel flag, and runs on the one engine thread. The moment between two verbs
is the safe point: there a sequence's state is whole. An engine works on *sequences*; a sequence owns its KV rows and
its recurrent state and is opaque to everybody but its engine.

Life of a sequence: `open` it with a prompt, `prefill` it to the prompt's end, then rounds of `draft`, `verify`,
`accept`, with `force` and `ask` between them where wanted, then `close`. After the last `prefill` and after a `force`
the row of the newest token is kept, so the next round needs no forward of its own: the prefill gives the first token.

What an `accept` took may stay *pending*: `trim` and `discard` take it back, `settle` and every verb that reads the
sequence make it part of it. An engine can be lent: between `borrow` and `give_back` a guest is opened, run and closed
by the same verbs, and what the holder had is there again afterwards, bit for bit.

A service may serve several sequences at once: `slots` are engines of one sequence each over the same weights. Each has
all the verbs; one `verify` of slot 0 may take a pair of every slot, and reads the weights once (ENG-160, ENG-162).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from tandem.engine.text.images import Geometry
    from tandem.engine.text.model import TextModel
    from tandem.engine.text.prompt import Prompt
    from tandem.engine.text.replay import Written

__all__ = [
    "EMPTY_TREE",
    "NOTHING_SPENT",
    "Accepted",
    "Engine",
    "Loan",
    "Mask",
    "ModelCard",
    "Prefilled",
    "SamplingRules",
    "Spent",
    "TokenLogprob",
    "Tree",
]

SeqT = TypeVar("SeqT")
RowsT = TypeVar("RowsT")


class Mask(Protocol):
    """A constraint on the output (ENG-084). `path` is what a draft tree adds to the committed output."""

    def allows(self, path: Sequence[int], token: int) -> bool:
        """Whether `token` may come after the committed output and `path`."""

    def bits(self, path: Sequence[int], best: int) -> bytes | None:
        """One bit a token, lowest id in the lowest bit of the first byte; None when every token is allowed.

        `best` is the id the row itself would choose: its highest after penalties and bias, before any mask (ENG-091).
        Rows of one round are asked in the order of the walk, from the root on.
        """

    def commit(self, ids: Sequence[int]) -> None:
        """The output has grown by `ids`."""

    def forced(self) -> tuple[int, ...]:
        """What must follow the committed output, as far as it is certain; empty where there is a choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRules:
    """Everything that turns a row of logits into a token, in the order of ENG-075; the defaults are greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram: int = 0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    mask: Mask | None = None
    end_ids: frozenset[int] = frozenset()
    """A round goes no further than the first of these (ENG-059)."""
    seed: int | None = None
    draft_temperature: float | None = field(default=None, compare=False)
    """Of the chain that a drafter draws where this draws without a seed; None: `temperature`. It only moves how much of
    the chain is taken, so rules that differ in nothing else write the same.
    """
    choice: int = 0
    """Index of the choice: mixed into the seed (ENG-083); choice 0 draws as a single answer would."""
    logprobs: int | None = None
    """None: no log-probabilities. n: those of each accepted token and of the n best of its row."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural-log probability of an accepted token, and `top`: (id, log-probability) of the best, best first."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """Drafted tokens, depth first, parents before children; parent -1 is the sequence's newest token (ENG-055)."""

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    """Of each node, the estimated probability that the walk reaches it; empty where nobody estimated."""
    sources: tuple[str, ...] = ()
    """Which drafter proposed each node; empty where it does not matter."""


EMPTY_TREE = Tree()


@dataclass(frozen=True, slots=True)
class Prefilled:
    """How far a prefill has read: `done` of `total` prompt rows, `resumed` of them found in a cache.

    `source` is that cache: resident (a grid line of the conversation in the buffer), end (where its answer ended),
    parked, store, disk (a grid line in files), disk_end (where an answer ended, in files).
    """

    done: int
    total: int
    resumed: int = 0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of one round, or of all rounds of a generation (ENG-045)."""

    draft: float = 0.0
    verify: float = 0.0
    commit: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.draft + other.draft, self.verify + other.verify, self.commit + other.commit)


NOTHING_SPENT = Spent()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The tokens that one round committed, at least one, in order."""

    ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()
    """One a token where the rules ask for them."""
    drafted: int = 0
    """Drafted tokens that were verified, `draft_accepted` of them committed."""
    draft_accepted: int = 0
    spent: Spent = NOTHING_SPENT
    together: int = 1
    """How many slots shared the verify; `spent` has all of its time, so its price for one is a part of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What the service may know of the model it serves."""

    name: str
    """The checkpoint's own name, `base_model` on the wire."""
    architecture: str
    max_len: int
    """The served window in tokens (ENG-015)."""
    vocab_size: int
    anchor_grid: int
    """Absolute multiples at which a prefill is cut (ENG-035)."""
    images: bool = False
    """Whether prompts may hold images."""
    geometry: Geometry | None = None
    """How the tower reads them, where there is one."""
    sampling: Mapping[str, float] = field(default_factory=dict)
    """What the checkpoint's card recommends: temperature, top_p, top_k (ENG-014); empty where it says nothing."""
    weights: Mapping[str, object] = field(default_factory=dict)
    """The load report that /health serves as `weights` (ENG-031)."""
    conductor: Mapping[str, object] = field(default_factory=dict)
    """Fit keys that its adapter declares (FIT-004); empty: the conductor's documents as written."""
    tokenizer_sha256: str = ""
    """Of its tokenizer; who has another may be given no token ids (ROL-004). Empty: not known."""


class Loan(Protocol):
    """An engine that is lent, and what it takes to give it back; opaque to everybody but the engine."""

    @property
    def nbytes(self) -> int:
        """What the copy takes: `cost()["bytes_per_token"]` for each row that was lent (ENG-137)."""


class Engine(Protocol[SeqT, RowsT]):
    """One model on one device. All verbs raise `EngineError` for a fault that ends the sequence's request only."""

    @property
    def card(self) -> ModelCard: ...

    @property
    def text(self) -> TextModel:
        """Tokenizer and chat template; unlike the verbs it may be used from any thread."""

    def open(self, prompt: Prompt) -> SeqT:
        """A new sequence that will read `prompt`; nothing is forwarded yet."""

    def close(self, seq: SeqT) -> None:
        """Free what the sequence holds; closing twice is harmless."""

    def prefill(self, seq: SeqT, upto: int) -> Prefilled:
        """Read the prompt up to row `upto`, at most one grid chunk a call (ENG-036)."""

    def draft(self, seq: SeqT, limit: int) -> Tree:
        """Propose continuations such that a round commits at most `limit` tokens; may be empty."""

    def verify(self, pairs: Sequence[tuple[SeqT, Tree]]) -> list[RowsT]:
        """One pass over each sequence's newest token and its tree; rows of logits, one entry a pair, in their order.

        Slot 0 takes sequences of different slots (ENG-162), each of whose rows goes to its own slot's `accept`. A pair
        with an empty tree is a single-token step and may join. What goes wrong with one of several pairs is raised by
        the `accept` of its rows, so the others go on (SCH-068); with one pair it is raised here.
        """

    def accept(self, seq: SeqT, rows: RowsT, rules: SamplingRules) -> Accepted:
        """Walk the rows by `rules`, commit the path; at least one token (ENG-059). It may stay pending."""

    def settle(self, seq: SeqT) -> None:
        """Make a pending commit part of the sequence now (ENG-039)."""

    def discard(self, seq: SeqT) -> None:
        """Take back the last accept, where it is pending still: the sequence is as before that round."""

    def trim(self, seq: SeqT, count: int) -> None:
        """Keep the first `count` tokens of the last accept, where it is pending still; 0 is `discard`."""

    def force(self, seq: SeqT, ids: Sequence[int], *, hidden: bool = False, dropped: int = 0) -> None:
        """Forward `ids` after the current end, unsampled (ENG-040). Where they are `hidden`, the client's next prompt
        lacks them and the `dropped` tokens right before them (ENG-111)."""

    def ask(self, seq: SeqT, ids: Sequence[int], options: Sequence[int]) -> tuple[float, ...]:
        """Softmax over `options` after the hidden question `ids`; the sequence stays bit for bit the same (ENG-041)."""

    def snapshot(self, seq: SeqT) -> object:
        """A copy of what `restore` needs to bring the sequence back to this point."""

    def restore(self, seq: SeqT, snapshot: object) -> None:
        """Put the sequence back to `snapshot`, which stays usable."""

    def borrow(self, holder: SeqT | None, rows: int) -> Loan:
        """Lend the engine to a guest that writes at most `rows` rows, while `holder` stands still (ENG-134).

        The holder is the sequence that is open, None where none is: then what the caches hold is lent (ENG-138). The
        guest is opened, run and closed with these verbs. It finds nothing in a cache, leaves nothing there and is
        decoded plainly (ENG-136); of the holder no verb is allowed meanwhile.
        """

    def give_back(self, loan: Loan) -> None:
        """End the loan, also after a fault: a guest that is open is closed, all else is as `borrow` found it."""

    @property
    def slots(self) -> Sequence[Engine[SeqT, RowsT]]:
        """Slot 0, which is this engine where it is not a side slot's, and the side slots' engines (ENG-160).

        They have the model, the text and the state store in common, and each its own window, sequence and drafter. A
        side slot's prompt holds no images, resumes from the state store only and is never lent (SCH-049, SCH-052). Of
        a side slot: itself alone.
        """

    def synchronise(self) -> None:
        """Wait until the device has finished: what another slot does next costs only its own time (SCH-061)."""

    def rebuild(self) -> None:
        """Put right what a fault may have damaged (SCH-056): this slot's buffers are freed and made anew.

        The sequence that is open is closed and a loan is over. `EngineError`: the slot serves no more.
        """

    def worst_case(self, prompt_rows: int, max_new: int) -> int:
        """Bytes that a request on this slot may need beside what is reserved already (SCH-071); from any thread."""

    def resident(self) -> tuple[Sequence[int], int]:
        """Key ids of the conversation that this slot can go on with, and how many rows its last prompt had (SCH-051).

        Of a sequence that is open: its prompt, unless it only lies over a conversation that waits. Empty and 0 where
        there is none. Nothing is copied; may be called from any thread.
        """

    def written(self) -> Sequence[Written]:
        """Where answers of sessions ended that this slot can go on with, by which a prompt is finished (ENG-111)."""

    def cost(self) -> Mapping[str, int]:
        """Bytes per token and per snapshot (ENG-133)."""

    def state(self) -> Mapping[str, int]:
        """Plain counters for /health (ENG-174); unlike the verbs it may be called from any thread at any time."""
