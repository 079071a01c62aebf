"""What changes a row of logits before the draw: penalties, bias and mask, in the order of ENG-075."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from tandem.engine.verbs import Mask, SamplingRules

__all__ = ["NGRAM_NATS", "History", "adjust", "changes"]

NGRAM_NATS = 4.0
"""How far `no_repeat_ngram` lowers a token: discouraged, never banned (ENG-079)."""


class History:
    """The ids a sequence has read and written, indexed for the penalties that ask.

    An index is built at its first use and catches up with the ids at every later one, so a request without penalties
    pays for none. Forced ids count as output: they stand in the sequence as if the model had written them. Hidden ones
    are read and not written, as the prompt is: the end of a turn in them must not keep the model from ending its own.
    """

    def __init__(self, prompt: Sequence[int], output: Sequence[int] = ()) -> None:
        self._ids = [*prompt, *output]
        self._prompt = len(prompt)
        self._seen: set[int] = set()
        self._seen_upto = 0
        self._counts: dict[int, int] = {}
        self._counted_upto = self._prompt
        self._hidden: list[tuple[int, int]] = []
        """Runs of the ids behind the prompt that are no output, in order."""
        self._followers: dict[int, _Followers] = {}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> Sequence[int]:
        """Prompt and output. Not to be changed."""
        return self._ids

    @property
    def written(self) -> int:
        """How many ids the output has: the index of the next one (ENG-067)."""
        return len(self._ids) - self._prompt

    def extend(self, ids: Sequence[int]) -> None:
        self._ids.extend(ids)

    def hide(self, start: int) -> None:
        """The ids from `start` on are no output; those of them that were counted are taken back."""
        self._hidden = [run for run in self._hidden if run[0] < start]
        self._hidden.append((start, len(self._ids)))
        self._counts, self._counted_upto = {}, self._prompt

    def cut(self, length: int) -> None:
        """Keep the first `length` ids, all of the prompt's among them. Indexes that hold more are built again."""
        del self._ids[length:]
        if self._seen_upto > length:
            self._seen, self._seen_upto = set(), 0
        if self._counted_upto > length:
            self._counts, self._counted_upto = {}, self._prompt
        self._followers.clear()

    def seen(self) -> set[int]:
        """Every id of prompt and output."""
        self._seen.update(self._ids[self._seen_upto :])
        self._seen_upto = len(self._ids)
        return self._seen

    def counts(self) -> Mapping[int, int]:
        """How often each id of the output occurs in it."""
        at, end = self._counted_upto, len(self._ids)
        for start, stop in [*self._hidden, (end, end)]:
            for token in self._ids[at:start] if at < start else ():
                self._counts[token] = self._counts.get(token, 0) + 1
            at = max(at, stop)
        self._counted_upto = end
        return self._counts

    def repeats(self, n: int) -> set[int]:
        """The ids that would complete an n-gram which prompt and output already hold."""
        return self._followers.setdefault(n, _Followers(n)).after(self._ids)


class _Followers:
    """For every n - 1 ids in a row, the ids that came after them."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._next: dict[tuple[int, ...], set[int]] = {}
        self._upto = n - 1

    def after(self, ids: Sequence[int]) -> set[int]:
        before = self._n - 1
        for at in range(self._upto, len(ids)):
            self._next.setdefault(tuple(ids[at - before : at]), set()).add(ids[at])
        self._upto = max(self._upto, len(ids))
        return self._next.get(tuple(ids[len(ids) - before :]), set()) if len(ids) >= before else set()


def adjust(row: Tensor, rules: SamplingRules, history: History, path: Sequence[int] = ()) -> Tensor:
    """`row` (vocab, fp32) after penalties, bias and mask. A new tensor where anything applies; `row` is not changed.

    `path` is the end of `history` that the mask does not know yet (ENG-086).
    """
    row = row.clone()
    if rules.repetition_penalty != 1.0 and (seen := history.seen()):
        ids = torch.tensor(list(seen))
        scores = row[ids]
        row[ids] = torch.where(scores > 0, scores / rules.repetition_penalty, scores * rules.repetition_penalty)
    if (rules.presence_penalty or rules.frequency_penalty) and (counts := history.counts()):
        times = torch.tensor(list(counts.values()), dtype=row.dtype)
        row[torch.tensor(list(counts))] -= rules.presence_penalty + rules.frequency_penalty * times
    if rules.no_repeat_ngram > 0 and (repeats := history.repeats(rules.no_repeat_ngram)):
        row[torch.tensor(list(repeats))] -= NGRAM_NATS
    if rules.logit_bias:
        row[torch.tensor(list(rules.logit_bias))] += torch.tensor(list(rules.logit_bias.values()), dtype=row.dtype)
    if rules.mask is not None and (allowed := _allowed(rules.mask, row, path)) is not None:
        row.masked_fill_(~allowed, -torch.inf)
    return row


def changes(rules: SamplingRules) -> bool:
    """Whether `adjust` can change a row under these rules."""
    return bool(
        rules.repetition_penalty != 1.0
        or rules.presence_penalty
        or rules.frequency_penalty
        or rules.no_repeat_ngram > 0
        or rules.logit_bias
        or rules.mask is not None
    )


def _allowed(mask: Mask, row: Tensor, path: Sequence[int]) -> Tensor | None:
    """The mask behind `path` as bools (vocab), told what `row` would choose; ids past its end are barred."""
    bits = mask.bits(path, int(torch.max(row, dim=0).indices.item()))
    if bits is None:
        return None
    flags = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=row.shape[0], bitorder="little")
    return torch.from_numpy(flags.view(np.bool_))
