"""The rounds of a `TorchEngine`: a draft, a pass over it, a walk, and the commit that stays pending (ENG-038, ENG-039).

A round without a draft is a single-token step: its pass moves the state, and what it takes is one id that has no row
yet. A pass over a tree moves nothing. What the walk takes of it is committed and stays pending until the next verb that
reads the sequence, so that a stop inside the block can take it back without reading a weight (ENG-094).
"""

from __future__ import annotations

import time
from dataclasses import replace

from torch import Tensor

from tandem.engine.decoding.counters import NO_DRAFTER, Counters
from tandem.engine.decoding.faults import Faults
from tandem.engine.decoding.guide import Guide
from tandem.engine.decoding.noise import Noise
from tandem.engine.decoding.passes import Passes
from tandem.engine.decoding.sampler import draw_of
from tandem.engine.decoding.sequence import Pending, Rows, TorchSequence
from tandem.engine.decoding.walk import Walked, walk
from tandem.engine.drafting.prices import shape_of
from tandem.engine.drafting.tree import NODES, sound
from tandem.engine.errors import EngineError
from tandem.engine.models.model import Drafts
from tandem.engine.models.state import State
from tandem.engine.verbs import EMPTY_TREE, Accepted, SamplingRules, Spent, Tree

__all__ = ["Rounds"]


class Rounds:
    """Verbs of a sequence that is open and whose prompt is read; ids are below `vocab`."""

    def __init__(
        self,
        passes: Passes,
        state: State,
        vocab: int,
        guide: Guide,
        noise: Noise,
        faults: Faults,
        counters: Counters,
    ) -> None:
        self._passes = passes
        self._state = state
        self._vocab = vocab
        self._guide = guide
        self._noise = noise
        self._faults = faults
        self._counters = counters

    def draft(self, seq: TorchSequence, limit: int) -> Tree:
        if limit < 1:
            raise EngineError("a round commits at least one token")
        seq.drawn = None
        if not self._guide.is_on or not seq.prompt_read:
            return EMPTY_TREE
        nodes, depth = self._room(seq)
        depth = min(depth, limit - 1)
        if min(nodes, depth) < 1:
            return EMPTY_TREE
        started = time.perf_counter()
        drawn = self._guide.draw(seq.history.ids, nodes, depth, seq.draw)
        tree = self._sound(drawn.tree, nodes, depth)
        seq.drawn = drawn if drawn.shares is not None else None
        seq.drafter, seq.draft_ms = self._guide.name, _ms_since(started)
        return tree

    def verify(self, seq: TorchSequence, tree: Tree) -> Rows:
        """Rows of the newest token and of `tree`, of which is cut what is no tree or has no room."""
        if tree.tokens:
            tree = self._sound(tree, *self._room(seq))
        started = time.perf_counter()
        if tree.tokens:
            with self._faults.in_verb(seq, "verify"):
                hidden = self._passes.tree(seq.unread if seq.row is None else (), tree, seq.length)
                return self._verified(seq, tree, hidden, self._passes.rows(hidden), _ms_since(started))
        if seq.row is not None:
            return Rows(seq.row, seq.length - 1)
        with self._faults.in_verb(seq, "verify"):
            hidden, length = self._passes.on(seq.unread, seq.length)
            row = self._passes.row(hidden)
        seq.length, seq.row = length, row
        return Rows(row, length - 1, _ms_since(started))

    def drafts(self, seq: TorchSequence, tree: Tree) -> tuple[Tree, Drafts | None]:
        """As `verify` up to the pass, which is done for several sequences at once; None where there is none to do."""
        if tree.tokens:
            tree = self._sound(tree, *self._room(seq))
        if not tree.tokens and seq.row is not None:
            return tree, None
        with self._faults.in_verb(seq, "verify"):
            return tree, self._passes.drafts(seq.unread if seq.row is None else (), tree, seq.length)

    def verified(self, seq: TorchSequence, tree: Tree, hidden: Tensor, logits: Tensor, ms: float, slots: int) -> Rows:
        """The rest of `verify` behind a pass of so many slots. Without a tree it was a step, which is taken at once."""
        if tree.tokens:
            return self._verified(seq, tree, hidden, logits, ms, slots)
        with self._faults.in_verb(seq, "verify", walks=True):
            self._state.commit([0])
            self._state.settle()
        self._guide.read(seq.length, hidden)
        seq.length, seq.row = seq.length + 1, logits[0]
        return Rows(logits[0], seq.length - 1, ms, together=slots)

    def accept(self, seq: TorchSequence, rows: Rows, rules: SamplingRules) -> Accepted:
        if rows.fault is not None:
            raise rows.fault
        started, tree = time.perf_counter(), rows.tree
        if rows.position != len(seq.history) - 1 or (tree.tokens and rows is not seq.verified):
            raise EngineError("these rows are of an earlier verify")
        # Of one that was cut on its way here nobody knows the distribution, and it is walked as any tree.
        drawn = seq.drawn if seq.drawn is not None and seq.drawn.tree == tree else None
        drafters = tree.sources or (seq.drafter,) * len(tree.tokens)
        with self._faults.in_verb(seq, "accept", walks=True):
            walked = walk(rows, rules, seq.history, self._noise, drawn)
            accepted = tuple(drafters[node] for node in walked.nodes)
            pending = Pending(
                len(walked.ids), rows.rooted, seq.length, seq.row if tree.tokens else rows.logits, seq.drafter, accepted
            )
            if tree.tokens:
                self._commit(seq, rows, walked)
        seq.pending, seq.row, seq.verified = pending, None, None
        spent = Spent(seq.draft_ms, rows.verify_ms, _ms_since(started))
        if rows.verify_ms and rows.together == 1:  # what a pass of several took is no price of one (SCH-069)
            count = max(1, len(tree.tokens) + rows.rooted)
            self._guide.paid(count, seq.draft_ms, rows.verify_ms, rows.position, shape_of(tree))
        self._counters.count_round(seq.drafter, drafters, accepted, spent)
        seq.drafter, seq.draft_ms = NO_DRAFTER, 0.0
        seq.draw, seq.drawn = draw_of(rules, self._noise), None
        return Accepted(walked.ids, walked.logprobs, len(drafters), len(accepted), spent, rows.together)

    def trim(self, seq: TorchSequence, count: int) -> None:
        """Keep `count` tokens of what is pending; 0 brings back the row that was kept before the round."""
        if count < 0:
            raise EngineError(f"a round cannot keep {count} tokens")
        pending = seq.pending
        if pending is None or count >= pending.count:
            return
        seq.history.cut(len(seq.history) - pending.count + count)
        rows = pending.rows(count)
        self._state.trim(rows)
        seq.length = pending.length + rows
        seq.row = None if count else pending.row
        self._guide.cut(seq.length)
        self._counters.take_back(pending.drafter, pending.count - count, pending.accepted[count:])
        seq.pending = replace(pending, count=count, accepted=pending.accepted[:count]) if count else None

    def _verified(
        self, seq: TorchSequence, tree: Tree, hidden: Tensor, logits: Tensor, ms: float, slots: int = 1
    ) -> Rows:
        """`hidden` (rows, hidden) and `logits` (rows, vocab) are of the newest token, if it was read, and the tree."""
        root, below = (logits[0], logits[1:]) if seq.row is None else (seq.row, logits)
        seq.verified = Rows(root, len(seq.history) - 1, ms, tree, below, hidden, slots)
        return seq.verified

    def _commit(self, seq: TorchSequence, rows: Rows, walked: Walked) -> None:
        """Take what was walked, behind the newest token of before where that is not read yet; after a fault nothing."""
        assert rows.hidden is not None
        path = [*range(rows.rooted), *(node + rows.rooted for node in walked.nodes)]
        try:
            self._state.commit(path)
            hidden = rows.hidden[path]
        except Exception:
            seq.history.cut(len(seq.history) - len(walked.ids))
            raise
        if path:
            self._guide.read(seq.length, hidden)
        self._guide.learn(rows.tree, len(walked.nodes))
        seq.length += len(path)

    def _room(self, seq: TorchSequence) -> tuple[int, int]:
        """How many nodes a tree may have, and how deep it may go: its rows and its text end with the window."""
        window, root = self._passes.window, seq.row is None
        return min(NODES, window - seq.length - root), window - len(seq.history) - 1

    def _sound(self, tree: Tree, nodes: int, depth: int) -> Tree:
        tree, gone = sound(tree, self._vocab, nodes, depth)
        self._counters.unsound_tokens += gone
        return tree


def _ms_since(started: float) -> float:
    return 1e3 * (time.perf_counter() - started)
