"""A row of the fake's logits, and the token that comes of it, in the order of ENG-075.

The row has the scripted token at 60, the end token at 30 and every other id at 0. It is held sparsely: what differs
from 0 is listed, the rest is a number of equal ids. Only a draw that can hit the rest writes it out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Final

from tandem.engine.errors import NumericalError
from tandem.engine.fake.vocabulary import END_OF_TEXT, IM_END, VOCAB_SIZE
from tandem.engine.verbs import Mask, SamplingRules, TokenLogprob

__all__ = ["pick"]

SCRIPTED_LOGIT: Final = 60.0
END_LOGIT: Final = 30.0
GREEDY_BELOW: Final = 1e-5
NGRAM_NATS: Final = 4.0
IGNORED_MASS: Final = 1e-6
GIVE_WAY: Final[tuple[int, ...]] = (*b'}]"0',)
_ANY_BIT: Final = re.compile(rb"[^\0]")
"""A byte with a bit set; most have none."""

_Listed = dict[int, float]


def pick(
    scripted: int, rules: SamplingRules, prompt: Sequence[int], output: Sequence[int], path: Sequence[int]
) -> tuple[int, TokenLogprob | None]:
    """The token after `prompt`, `output` and this round's `path`. `NumericalError` where the mask allows none."""
    if rules.logprobs is None and _is_certain(rules, len(output) + len(path)):
        return scripted, None
    row = _row(scripted, rules, prompt, output, path)
    token = row.best()
    if rules.temperature >= GREEDY_BELOW:
        token = _draw(row, rules, len(output) + len(path))
    return token, None if rules.logprobs is None else row.logprob(token, rules.logprobs)


def _is_certain(rules: SamplingRules, index: int) -> bool:
    """Whether the scripted token is what the whole row would give: the common case, told without the row.

    Up to a temperature of 2 the end token is all that competes with it, and truncation can only cut the end token.
    """
    if _changes_row(rules) or rules.temperature > 2.0:
        return False
    if rules.temperature < GREEDY_BELOW:
        return True
    return _uniform(rules, index) * (1.0 + math.exp((END_LOGIT - SCRIPTED_LOGIT) / rules.temperature)) < 1.0


def _changes_row(rules: SamplingRules) -> bool:
    return bool(
        rules.mask is not None
        or rules.logit_bias
        or rules.repetition_penalty != 1.0
        or rules.presence_penalty
        or rules.frequency_penalty
        or rules.no_repeat_ngram > 0
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """`listed` logits; any other id has 0. `allowed` is a bit set, None for the whole vocabulary."""

    listed: Mapping[int, float]
    allowed: int | None

    @property
    def unlisted(self) -> int:
        """How many allowed ids are not listed."""
        total = VOCAB_SIZE if self.allowed is None else self.allowed.bit_count()
        return total - len(self.listed)

    def rest(self) -> Iterator[int]:
        """The allowed ids that are not listed, lowest first."""
        return (token for token in _set_bits(self.allowed) if token not in self.listed)

    def best(self) -> int:
        """The lowest of the ids with the highest logit (ENG-076)."""
        return self.ranked(1)[0][1]

    def ranked(self, count: int) -> list[tuple[float, int]]:
        """The `count` best as (logit, id), best first, the lower id first where equal."""
        entries = [(logit, token) for token, logit in self.listed.items()]
        entries += [(0.0, token) for token in islice(self.rest(), count)]
        return sorted(entries, key=lambda entry: (-entry[0], entry[1]))[:count]

    def logprob(self, token: int, top: int) -> TokenLogprob:
        """Log-softmax before temperature and truncation (ENG-082)."""
        total = self._log_sum()
        best = tuple((other, logit - total) for logit, other in self.ranked(top))
        return TokenLogprob(token, self.listed.get(token, 0.0) - total, best)

    def _log_sum(self) -> float:
        terms = list(self.listed.values())
        if self.unlisted:
            terms.append(math.log(self.unlisted))
        peak = max(terms)
        return peak + math.log(sum(math.exp(term - peak) for term in terms))


def _row(
    scripted: int, rules: SamplingRules, prompt: Sequence[int], output: Sequence[int], path: Sequence[int]
) -> _Row:
    row = _Row(_listed(scripted, rules, prompt, output, path), None)
    if rules.mask is None or (allowed := _allowed(rules.mask, row, path)) is None:
        return row
    if allowed == 0:
        raise NumericalError(len(prompt) + len(output) + len(path) - 1)
    if not allowed >> scripted & 1:
        row = _Row(_listed(_give_way(allowed), rules, prompt, output, path), None)
    return _Row({token: logit for token, logit in row.listed.items() if allowed >> token & 1}, allowed)


def _listed(
    scripted: int, rules: SamplingRules, prompt: Sequence[int], output: Sequence[int], path: Sequence[int]
) -> _Listed:
    """What differs from 0 before the mask."""
    listed: _Listed = {IM_END: END_LOGIT, scripted: SCRIPTED_LOGIT}
    if _changes_row(rules):
        _penalise(listed, rules, prompt, [*output, *path])
    for token, bias in rules.logit_bias.items():
        listed[token] = listed.get(token, 0.0) + bias
    return listed


def _allowed(mask: Mask, row: _Row, path: Sequence[int]) -> int | None:
    """The mask as a bit set. Its bits do not know words that got an id at run time, so those listed are asked for."""
    bits = mask.bits(path, row.best())
    if bits is None:
        return None
    allowed = int.from_bytes(bits, "little") & ((1 << VOCAB_SIZE) - 1)
    for token in row.listed:
        if not allowed >> token & 1 and mask.allows(path, token):
            allowed |= 1 << token
    return allowed


def _give_way(allowed: int) -> int:
    """What stands in for a scripted token that the mask forbids (ENG-188)."""
    for token in (IM_END, END_OF_TEXT, *GIVE_WAY):
        if allowed >> token & 1:
            return token
    return next(_set_bits(allowed))


def _penalise(listed: _Listed, rules: SamplingRules, prompt: Sequence[int], output: Sequence[int]) -> None:
    if (penalty := rules.repetition_penalty) != 1.0:
        for token, logit in listed.items():
            if token in output or token in prompt:
                listed[token] = logit / penalty if logit > 0 else logit * penalty
    if rules.presence_penalty or rules.frequency_penalty:
        for token, count in Counter(output).items():
            listed[token] = listed.get(token, 0.0) - rules.presence_penalty - rules.frequency_penalty * count
    if rules.no_repeat_ngram > 0:
        for token in _repeats([*prompt, *output], rules.no_repeat_ngram):
            listed[token] = listed.get(token, 0.0) - NGRAM_NATS


def _repeats(ids: Sequence[int], n: int) -> set[int]:
    """The ids that would complete an n-gram which `ids` already holds."""
    tail = ids[len(ids) - n + 1 :]
    return {ids[at + n - 1] for at in range(len(ids) - n + 1) if ids[at : at + n - 1] == tail}


def _draw(row: _Row, rules: SamplingRules, index: int) -> int:
    """Draw after temperature, top_k, top_p and min_p. The same rules and index give the same draw, seeded or not."""
    entries = _entries(row, rules.temperature)
    if rules.top_k:
        entries = entries[: rules.top_k]
    peak = entries[0][0]
    shares = [math.exp((logit - peak) / rules.temperature) for logit, _ in entries]
    kept = _nucleus(shares, rules.top_p)
    kept = sum(share >= rules.min_p for share in shares[:kept])
    left = _uniform(rules, index) * sum(shares[:kept])
    for share, (_, token) in zip(shares[:kept], entries, strict=False):
        left -= share
        if left < 0:
            return token
    return entries[0][1]


def _entries(row: _Row, temperature: float) -> list[tuple[float, int]]:
    """(logit, id), best first: the listed ids, and the others where together they can matter."""
    peak = max(row.listed.values(), default=0.0)
    is_rest_negligible = peak > 0 and row.unlisted * math.exp(-peak / temperature) < IGNORED_MASS
    return row.ranked(len(row.listed) if is_rest_negligible else VOCAB_SIZE)


def _nucleus(shares: Sequence[float], top_p: float) -> int:
    """How many of the best reach `top_p` of the whole; at least one."""
    if top_p >= 1.0:
        return len(shares)
    goal = top_p * sum(shares)
    reached = 0.0
    for at, share in enumerate(shares, start=1):
        reached += share
        if reached >= goal:
            return at
    return len(shares)


def _uniform(rules: SamplingRules, index: int) -> float:
    """A number in [0, 1) that only seed, choice and index decide; without a seed as with seed 0."""
    key = f"{rules.seed or 0}/{rules.choice}/{index}".encode()
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big") / 2**64


def _set_bits(allowed: int | None) -> Iterator[int]:
    """The ids of a bit set, lowest first."""
    if allowed is None:
        yield from range(VOCAB_SIZE)
        return
    for match in _ANY_BIT.finditer(allowed.to_bytes((VOCAB_SIZE + 7) // 8, "little")):
        byte = match[0][0]
        while byte:
            low = byte & -byte
            yield 8 * match.start() + low.bit_length() - 1
            byte ^= low
