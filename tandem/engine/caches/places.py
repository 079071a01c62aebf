"""Where a prompt goes when the buffer holds another conversation: in place, as a guest, or with one parked (ENG-109,
ENG-113).

Decisions only: numbers in, a value out, and the engine moves the rows. Rows of one conversation lie in the buffer. A
*guest* is short and shares nothing worth keeping: the rows it will overwrite are stashed and put back before the next
request. Any other prompt that takes the buffer over *parks* the conversation there, one at a time; its next turn swaps
the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from tandem.engine.memory import GIB

__all__ = ["GUEST_MAX", "Conversation", "Decision", "Guest", "InPlace", "PlaceRules", "Prompted", "TakeOver", "decide"]

GUEST_MAX: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRules:
    """`--resident-guest-max` in tokens, and the budgets of stash and park in bytes; 0 switches one off."""

    grid: int
    bytes_per_token: int
    guest_max: int = GUEST_MAX
    stash: int = 2 * GIB
    park: int = 4 * GIB


@dataclass(frozen=True, slots=True)
class Conversation:
    """One that is held, as a prompt sees it."""

    rows: int = 0
    shared: int = 0
    """How many ids it has in common with the prompt."""
    resumes: int = 0
    """At which row the prompt could go on; 0 for none."""
    anchor_bytes: int = 0
    """What its newest anchors take, which are parked with its rows."""


@dataclass(frozen=True, slots=True)
class Prompted:
    """A prompt of so many tokens whose answer takes at most `output` rows."""

    tokens: int
    output: int
    resident: Conversation
    parked: Conversation = Conversation()


@dataclass(frozen=True, slots=True)
class InPlace:
    """It goes on at the resident rows, or overwrites what nobody will miss."""


@dataclass(frozen=True, slots=True)
class Guest:
    """The first `rows` rows are stashed, and put back before the next request."""

    rows: int


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Another conversation gets the buffer. `park`: the one there is copied aside, in place of any that is parked;
    `swap`: the parked one comes back, before the prompt goes on with it.
    """

    park: bool
    swap: bool = False


Decision: TypeAlias = InPlace | Guest | TakeOver


def decide(prompted: Prompted, rules: PlaceRules) -> Decision:
    """What to do with what is held before `prompted` is read."""
    resident, parked = prompted.resident, prompted.parked
    if parked.resumes > resident.resumes:
        return TakeOver(park=_parks(resident, rules), swap=True)
    if _is_guest(prompted, rules):
        rows = min(resident.rows, prompted.tokens + prompted.output)
        if rows * rules.bytes_per_token <= rules.stash:
            return Guest(rows)
    if _is_taken_over(resident):
        return TakeOver(park=_parks(resident, rules))
    return InPlace()


def _is_guest(prompted: Prompted, rules: PlaceRules) -> bool:
    """Short, and with less than a chunk of the resident conversation; one that goes on with it is none."""
    resident = prompted.resident
    return (
        resident.rows > 0
        and resident.resumes == 0
        and resident.shared < rules.grid
        and prompted.tokens <= rules.guest_max
    )


def _is_taken_over(resident: Conversation) -> bool:
    """Whether more than half of the rows would go. Less is a turn edited or tried again, which leaves nothing to
    come back to.
    """
    return 2 * resident.shared < resident.rows


def _parks(resident: Conversation, rules: PlaceRules) -> bool:
    size = resident.rows * rules.bytes_per_token + resident.anchor_bytes
    return resident.rows > 0 and size <= rules.park
