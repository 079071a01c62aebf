"""The figures of the GPU turn: hand-overs, joint rounds, what a round takes and gives (SCH-070). Plain arithmetic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from tandem.actors.watchdog import TurnsSeen
from tandem.engine.decoding.together import Together
from tandem.engine.verbs import Accepted, Spent

__all__ = ["TurnFigures"]


class TurnFigures:
    """Since the start; rounds are timed where that is asked for."""

    def __init__(self, *, timed: bool) -> None:
        self._last: int | None = None
        self._hand_overs = 0
        self._rounds: Counter[int] = Counter()
        self._times = _RoundTimes() if timed else None

    @property
    def rounds(self) -> Mapping[int, int]:
        """Joint rounds by how many slots shared them."""
        return dict(self._rounds)

    def hold(self, slot: int) -> None:
        """The turn is `slot`'s; of several the lowest number."""
        self._hand_overs += self._last is not None and slot != self._last
        self._last = slot

    def hand_in(self, slot: int, now: float) -> None:
        if self._times is not None:
            self._times.hand_in(slot, now)

    def count_round(self, together: Together, slots: Collection[int], begun: float, now: float) -> None:
        """A joint round that began at `begun` and is over."""
        self._rounds[len(slots)] += 1
        if self._times is not None:
            self._times.count_round(together, slots, begun, now)

    def count_alone(self, rounds: int, tokens: int, spent: Spent) -> None:
        if self._times is not None:
            self._times.count_alone(rounds, tokens, spent)

    def seen(self, holders: Collection[int], seconds: Mapping[int, float]) -> TurnsSeen:
        """Several hold the turn in a joint round. Numbers below 0 are own work, whose time is slot 0's (SCH-060)."""
        of_slots: defaultdict[int, float] = defaultdict(float)
        for slot, used in seconds.items():
            of_slots[max(slot, 0)] += used
        together = tuple(sorted(holders)) if len(holders) > 1 else ()
        who = max(min(holders), 0) if holders else None
        meeting = {} if self._times is None else self._times.shown()
        return TurnsSeen(who, dict(of_slots), self._hand_overs, self.rounds, meeting, together)


class _RoundTimes:
    """Of each number of slots: one is a slot that decodes alone."""

    def __init__(self) -> None:
        self._sums: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._handed_in: dict[int, float] = {}

    def hand_in(self, slot: int, now: float) -> None:
        self._handed_in[slot] = now

    def count_round(self, together: Together, slots: Collection[int], begun: float, now: float) -> None:
        """A joint round that began at `begun` and is over; the wait is that of the slot that waited longest."""
        first = min((self._handed_in.pop(slot, begun) for slot in slots), default=begun)
        tokens = sum(len(each.ids) for each in together.outcomes.values() if isinstance(each, Accepted))
        self._add(
            len(slots),
            rounds=1,
            tokens=tokens / len(slots),
            round_ms=1e3 * (now - first),
            verify_wait_ms=1e3 * (begun - first),
            draft_ms=together.draft_ms,
            pass_ms=together.pass_ms,
            post_ms=together.post_ms,
        )

    def count_alone(self, rounds: int, tokens: int, spent: Spent) -> None:
        self._add(
            1,
            rounds=rounds,
            tokens=tokens,
            round_ms=spent.draft + spent.verify + spent.commit,
            draft_ms=spent.draft,
            pass_ms=spent.verify,
            post_ms=spent.commit,
        )

    def shown(self) -> Mapping[int, Mapping[str, float]]:
        """Means of a round; `accept` are the tokens that a slot got of it."""
        names = {"tokens": "accept"}
        return {
            slots: {
                "rounds": sums["rounds"],
                **{
                    names.get(name, name): round(sums[name] / sums["rounds"], 3)
                    for name in ("round_ms", "draft_ms", "post_ms", "verify_wait_ms", "pass_ms", "tokens")
                },
            }
            for slots, sums in sorted(self._sums.items())
        }

    def _add(self, slots: int, **amounts: float) -> None:
        sums = self._sums[slots]
        for name, amount in amounts.items():
            sums[name] += amount
