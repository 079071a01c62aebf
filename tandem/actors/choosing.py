"""Which slot a waiter gets: slot 0, for which all wait, or meanwhile a side slot (SCH-049 to SCH-053). Pure decisions.

Rules, all of them here:
1. A free slot 0 goes to the first in line; to own work only while no request holds any slot (SCH-080).
2. With slot 0 taken a free side slot goes to the first in line who may use it: text that fits its window with its
   output and its margin, no lane job, not the next turn of what slot 0 holds, and no longer side request while a turn
   waits, since that one overtakes no turn (SCH-013).
3. While own work holds slot 0 nobody gets a side slot: side slots stand still then (SCH-060), and the work yields.
4. A small stranger to the conversation in slot 0, of the first rank or a lane job, gets an idle side slot although
   slot 0 is free, so that the conversation's rows stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tandem.actors.line import Rank

__all__ = ["Candidate", "Needs", "Resident", "SlotRules", "choose", "continues", "may_use_side"]

TAIL = 64
"""So many of a prompt's last ids may differ in the next turn: the end of a chat template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a request needs of a slot (SCH-049): prompt rows as counted before the grant, output, room beside them."""

    prompt: int
    output: int
    margin: int = TAIL
    """8,192 more under a plan (SCH-050)."""
    text_only: bool = True
    keys: Sequence[int] = field(default=(), repr=False)
    """Its prompt's ids, images by content, to compare with what slot 0 holds (SCH-051)."""


@dataclass(frozen=True, slots=True)
class Resident:
    """What slot 0 holds between two requests: the conversation's key ids, and how many of them its last prompt had."""

    keys: Sequence[int] = field(repr=False)
    prompt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRules:
    """Of the service's settings and the model: tokens."""

    side_window: int = 65_536
    guest_max: int = 8_192
    """The longest prompt that can be a small stranger."""
    chunk: int = 1_024
    """Who shares fewer ids than one prefill chunk with a conversation is a stranger to it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A waiter as it is looked at here; without `needs` it waits for slot 0 alone."""

    key: str
    rank: Rank
    needs: Needs | None = None
    is_lane: bool = False
    _compared: list[tuple[Resident | None, bool]] = field(init=False, default_factory=list, compare=False, repr=False)
    """With what, and whether it goes on with that: prompts are long, and every message has each waiter looked at."""

    def goes_on_with(self, resident: Resident | None) -> bool:
        """`continues`, compared once."""
        if not self._compared or self._compared[0][0] is not resident:
            keys = () if self.needs is None else self.needs.keys
            self._compared[:] = [(resident, continues(keys, resident))]
        return self._compared[0][1]


def choose(
    order: Sequence[Candidate],
    free: Collection[int],
    held: Collection[Rank],
    resident: Resident | None,
    rules: SlotRules,
) -> tuple[Candidate, int] | None:
    """Who is granted next, and which slot. `order`: the first in line first; `held`: the ranks that hold a slot."""
    if not order or Rank.OWN in held:
        return None
    first = order[0]
    side = min((slot for slot in free if slot != 0), default=None)
    if 0 in free and not (side is not None and _is_small_stranger(first, resident, rules)):
        return None if first.rank is Rank.OWN and held else (first, 0)
    if side is None:
        return None
    if 0 in free:
        return first, side
    turn_waits = any(waiter.rank is Rank.TURN for waiter in order)
    usable = (waiter for waiter in order if may_use_side(waiter, resident, rules, turn_waits=turn_waits))
    chosen = next(usable, None)
    return None if chosen is None else (chosen, side)


def may_use_side(waiter: Candidate, resident: Resident | None, rules: SlotRules, *, turn_waits: bool = False) -> bool:
    """Whether a side slot may take the waiter, who waits for slot 0."""
    if waiter.needs is None or waiter.is_lane or waiter.rank is Rank.OWN:
        return False
    if waiter.rank is Rank.LONG_SIDE and turn_waits:
        return False
    return _fits(waiter.needs, rules.side_window) and not waiter.goes_on_with(resident)


def continues(keys: Sequence[int], resident: Resident | None) -> bool:
    """Whether a prompt goes on with the conversation in slot 0: all of its last prompt but a template's end is shared.

    So a second session with the same system prompt is none; nor is what follows a prompt of so few ids that any slot
    reads them at once. (decided)
    """
    if resident is None:
        return False
    shared = resident.prompt - TAIL
    return shared > 0 and _share(keys, resident.keys, shared)


def _fits(needs: Needs, window: int) -> bool:
    return needs.text_only and needs.prompt + needs.output + needs.margin <= window


def _is_small_stranger(waiter: Candidate, resident: Resident | None, rules: SlotRules) -> bool:
    needs = waiter.needs
    if resident is None or needs is None or not (waiter.is_lane or waiter.rank is Rank.SIDE):
        return False
    fits = needs.prompt <= rules.guest_max and _fits(needs, rules.side_window)
    return fits and not _share(needs.keys, resident.keys, rules.chunk)


def _share(one: Sequence[int], other: Sequence[int], count: int) -> bool:
    """Whether both begin with the same `count` ids."""
    return len(one) >= count and len(other) >= count and tuple(one[:count]) == tuple(other[:count])
