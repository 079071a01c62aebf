"""Drafters of the tests: what they propose is known, and so is what a round makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from torch import Tensor

from tandem.engine.drafting.tree import chain
from tandem.engine.verbs import EMPTY_TREE, Tree
from tests.engine.models.memory import VOCAB

__all__ = ["Breaking", "Recording", "Scripted", "half_right", "oracle", "random_trees", "wrong"]

Propose = Callable[[Sequence[int], int, int], Tree]


@dataclass
class Scripted:
    """Proposes what a function of the ids, the nodes and the depth says."""

    says: Propose
    name: str = "scripted"
    reads_hidden: bool = False

    def start(self, ids: Sequence[int], valid: int) -> None:
        pass

    def read(self, start: int, hidden: Tensor) -> None:
        raise AssertionError("nobody asked for hidden states")

    def propose(self, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        return self.says(ids, nodes, depth)

    def learn(self, tree: Tree, accepted: int) -> None:
        assert 0 <= accepted <= len(tree.tokens)

    def end(self) -> None:
        pass


@dataclass
class Recording(Scripted):
    """Remembers what it was told; its rows are the hidden states of the sequence as it knows them."""

    says: Propose = lambda ids, nodes, depth: EMPTY_TREE
    reads_hidden: bool = True
    calls: list[tuple[object, ...]] = field(default_factory=list)
    rows: dict[int, Tensor] = field(default_factory=dict)

    def start(self, ids: Sequence[int], valid: int) -> None:
        self.calls.append(("start", len(ids), valid))
        self.rows = {row: hidden for row, hidden in self.rows.items() if row < valid}

    def read(self, start: int, hidden: Tensor) -> None:
        self.calls.append(("read", start, len(hidden)))
        self.rows = {row: each for row, each in self.rows.items() if row < start}
        self.rows |= {start + at: each.clone() for at, each in enumerate(hidden)}

    def learn(self, tree: Tree, accepted: int) -> None:
        self.calls.append(("learn", len(tree.tokens), accepted))

    def end(self) -> None:
        self.calls.append(("end",))


@dataclass
class Breaking(Recording):
    """Raises in one of its verbs."""

    verb: str = "propose"

    def __getattribute__(self, name: str) -> object:
        if name != "verb" and name == self.verb:
            return self._broken
        return super().__getattribute__(name)

    def _broken(self, *args: object) -> None:
        self.calls.append((self.verb,))
        raise RuntimeError("no idea")


def wrong(text: Sequence[int], prompt: int) -> Propose:
    """Never the token that `text`, the plain answer behind `prompt` tokens, has."""
    return _chains(text, prompt, lambda token, at: (token + 1) % VOCAB)


def half_right(text: Sequence[int], prompt: int) -> Propose:
    """Every second one is."""
    return _chains(text, prompt, lambda token, at: token if at % 2 else (token + 1) % VOCAB)


def oracle(text: Sequence[int], prompt: int) -> Propose:
    """The plain answer itself."""
    return _chains(text, prompt, lambda token, at: token)


def random_trees(text: Sequence[int], prompt: int, seed: int = 0) -> Propose:
    """Trees as large as allowed; a node is the plain answer's at its place half of the time."""
    draw = Random(seed)

    def says(ids: Sequence[int], nodes: int, depth: int) -> Tree:
        tokens: list[int] = []
        parents: list[int] = []
        deep: dict[int, int] = {-1: 0}
        while len(tokens) < nodes:
            parent = draw.choice([node for node, at in deep.items() if at < depth])
            at = len(ids) - prompt + deep[parent]
            parents.append(parent)
            deep[len(tokens)] = deep[parent] + 1
            tokens.append(text[at] if at < len(text) and draw.random() < 0.5 else draw.randrange(VOCAB))
        return Tree(tuple(tokens), tuple(parents))

    return says


def _chains(text: Sequence[int], prompt: int, change: Callable[[int, int], int]) -> Propose:
    def says(ids: Sequence[int], nodes: int, depth: int) -> Tree:
        at = len(ids) - prompt
        return chain([change(token, at + ahead) for ahead, token in enumerate(text[at : at + min(nodes, depth)])])

    return says
