"""The three ways in which a reasoning shows that it goes round in circles (D1): `period`, `novelty`, `drift`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tandem.conductor.monitor.checkpoints import first_pieces, newest_check
from tandem.conductor.monitor.drift import Drift, drifting
from tandem.conductor.monitor.novelty import fresh_share, rare_share
from tandem.conductor.monitor.periods import id_period

__all__ = ["Arm", "arm_of"]

READ: Final = 4_096
"""Newest pieces of text in which passages are looked for."""
OFTEN_NEW: Final = 0.5
"""With more of the window fresh no passages are looked for: alike, they have most short sequences in common."""


@dataclass(frozen=True, slots=True)
class Arm:
    """What fires, and by how much: copies of the period, new share of the window, least share of the passages."""

    name: Literal["period", "novelty", "drift"]
    measure: float


def arm_of(ids: Sequence[int], thoughts: Sequence[str], params: Mapping[str, Any]) -> Arm | None:
    """The arm that fires at the newest check and at those before it, `confirm` in all; ids and text of one block."""
    newest = newest_check(len(ids), params["min_tokens"], params["every"])
    if newest is None:
        return None
    found: Arm | None = None
    for tokens in range(newest, newest - params["confirm"] * params["every"], -params["every"]):
        if tokens < params["min_tokens"]:
            return None
        arm = _at(ids[:tokens], first_pieces(thoughts, len(ids), tokens), params)
        if arm is None or (found is not None and arm.name != found.name):
            return None
        found = found or arm
    return found


def _at(ids: Sequence[int], thoughts: Sequence[str], params: Mapping[str, Any]) -> Arm | None:
    period, novelty, drift = params["period"], params["novelty"], params["drift"]
    found = id_period(ids, period["window"], period["unit"])
    if found is not None and found.copies >= period["copies"]:
        return Arm("period", found.copies)
    about = {"window": min(novelty["window"], len(ids)), "length": novelty["sequence"], "memory": novelty["memory"]}
    fresh = fresh_share(ids, **about)
    if fresh < novelty["new"] and len(ids) >= novelty["window"]:
        rare = rare_share(ids, **about, often=novelty["often"])
        if rare < novelty["new"]:
            return Arm("novelty", rare)
    if fresh > OFTEN_NEW:
        return None
    least = drifting("".join(thoughts[-READ:]), Drift(**drift))
    return None if least is None else Arm("drift", least)
