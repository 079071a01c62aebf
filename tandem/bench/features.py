"""What may not change a text, each made to happen as often as it can while one is written (ENG-065, ENG-073).

A feature is a drafter, a cache that was filled before, or something that is done with the engine between two rounds.
Four drafters are there for the check alone: one that is right, one that is right half the time, one that never is, and
one that proposes as many nodes as a tree may have (ENG-064).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from tandem.bench.judge import Promise
from tandem.bench.ours import GREEDY, read
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Round, perform
from tandem.engine.drafting.drafter import Drafter
from tandem.engine.drafting.lookup import LookupDrafter
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import EMPTY_TREE, Tree

__all__ = ["FEATURES", "PLAIN", "QUICK", "Feature", "Told"]

EVERY = 3
"""Rounds from one disturbance to the next."""
GUEST = 12
"""Tokens of a guest's prompt."""
WRITTEN = 12
"""Tokens of a prompt that are written before its case resumes behind them."""
NODES = 31

Engine: TypeAlias = TorchEngine
Before: TypeAlias = Callable[[Engine, Prompt], None]
Between: TypeAlias = Callable[[Engine, Any], None]


@dataclass(frozen=True, slots=True)
class Told:
    """What a drafter of the check may know: every id of the plain run, its prompt's among them, and the vocabulary."""

    ids: Sequence[int]
    vocab: int


def _nothing(engine: Engine, given: object) -> None:
    """Most features need nothing done there."""


@dataclass(frozen=True, slots=True)
class Feature:
    """`before` runs on the engine that will write the case's text, `between` before every third round."""

    name: str
    promise: Promise
    drafter: Callable[[Told], Drafter] | None = None
    before: Before = _nothing
    between: Between = _nothing


class Informed:
    """Proposes what `choose` makes of the tokens that the plain run writes next."""

    name = "informed"
    reads_hidden = False

    def __init__(self, told: Told, choose: Callable[[Sequence[int], int, int], Tree]) -> None:
        self._told = told
        self._choose = choose

    def start(self, ids: Sequence[int], valid: int) -> None:
        """Nothing is kept."""

    def read(self, start: int, hidden: Tensor) -> None:
        """Hidden states are not looked at."""

    def propose(self, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        ahead = self._told.ids[len(ids) : len(ids) + depth]
        return self._choose(ahead, min(nodes, NODES), self._told.vocab) if ahead else EMPTY_TREE

    def learn(self, tree: Tree, accepted: int) -> None:
        """Nothing is learnt."""

    def end(self) -> None:
        """Nothing is kept."""


def _chain(tokens: Sequence[int]) -> Tree:
    return Tree(tuple(tokens), tuple(range(-1, len(tokens) - 1)))


def _right(ahead: Sequence[int], nodes: int, vocab: int) -> Tree:
    return _chain(ahead[:nodes])


def _wrong(ahead: Sequence[int], nodes: int, vocab: int) -> Tree:
    return _chain([(token + 1) % vocab for token in ahead[:nodes]])


def _half_right(ahead: Sequence[int], nodes: int, vocab: int) -> Tree:
    chance = random.Random(ahead[0])
    return _chain([token if chance.random() < 0.5 else chance.randrange(vocab) for token in ahead[:nodes]])


def _widest(ahead: Sequence[int], nodes: int, vocab: int) -> Tree:
    """The right tokens for a while, each with others beside it that have children of their own."""
    chance = random.Random(ahead[0])
    tokens, parents, parent = list[int](), list[int](), -1
    for token in ahead:
        beside = {chance.randrange(vocab) for _ in range(3)} - {token}
        if len(tokens) + 2 * len(beside) + 1 > nodes:
            break
        for other in beside:
            tokens += [other, (other + 1) % vocab]
            parents += [parent, len(tokens) - 2]
        tokens.append(token)
        parents.append(parent)
        parent = len(tokens) - 1
    return Tree(tuple(tokens), tuple(parents))


def _another_end(engine: Engine, prompt: Prompt) -> None:
    """A prompt that ends otherwise: the case resumes at the last grid line that the two share."""
    ids = [*prompt.ids[:-2], *prompt.ids[:2]]
    engine.close(read(engine, ids))


def _its_beginning(engine: Engine, prompt: Prompt) -> None:
    """The prompt's last tokens but two are written one by one, as an answer is; the case resumes where that ended."""
    seq = read(engine, prompt.ids[: -2 - WRITTEN])
    for token in prompt.ids[-2 - WRITTEN : -2]:
        engine.force(seq, (token,))
    engine.close(seq)


def _ask(engine: Engine, seq: Any) -> None:
    engine.ask(seq, engine.text.encode(" Is that so? yes no"), engine.text.encode(" yes no")[:2])


def _go_back(engine: Engine, seq: Any) -> None:
    """Two tokens are written by other rules and forgotten again."""
    taken = engine.snapshot(seq)
    for _ in range(2):
        perform(engine, seq, Round(1), GREEDY)
    engine.restore(seq, taken)


def _lend(engine: Engine, seq: Any) -> None:
    loan = engine.borrow(seq, GUEST + 2)
    guest = read(engine, seq.prompt.ids[-GUEST:])
    perform(engine, guest, Round(1), GREEDY)
    engine.close(guest)
    engine.give_back(loan)


def _take_back(engine: Engine, seq: Any) -> None:
    """A round is walked and taken back as if its stop had come before it."""
    perform(engine, seq, Round(8), GREEDY)
    engine.discard(seq)


PLAIN = Feature("plain", "bit")
FEATURES: tuple[Feature, ...] = (
    PLAIN,
    Feature("resident prefix", "bit", before=_another_end),
    Feature("end anchor", "text", before=_its_beginning),
    Feature("ask", "bit", between=_ask),
    Feature("snapshot, restore", "bit", between=_go_back),
    Feature("borrow", "bit", between=_lend),
    Feature("lookup", "text", lambda told: LookupDrafter()),
    Feature("right drafter", "text", lambda told: Informed(told, _right)),
    Feature("half right drafter", "text", lambda told: Informed(told, _half_right)),
    Feature("wrong drafter", "text", lambda told: Informed(told, _wrong)),
    Feature("widest trees", "text", lambda told: Informed(told, _widest)),
    Feature("drafts, asks", "text", lambda told: Informed(told, _half_right), between=_ask),
    Feature("drafts, borrow", "text", lambda told: Informed(told, _half_right), between=_lend),
    Feature("drafts, discard", "text", lambda told: Informed(told, _half_right), between=_take_back),
)
"""Plain stands among them: the same twice is bit class, or nothing else here means anything."""

QUICK = ("resident prefix", "end anchor", "ask", "snapshot, restore", "widest trees", "drafts, borrow")
"""The features of a quick check."""
