"""What a `TorchEngine` has done since the load: plain numbers, no text (ENG-045, ENG-174)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

from tandem.engine.verbs import NOTHING_SPENT, Spent

__all__ = ["NO_DRAFTER", "Counters"]

NO_DRAFTER = "none"
"""What rounds without drafts are counted under."""


@dataclass(slots=True)
class _Share:
    """What is one drafter's. A round is of the drafter that was asked, a drafted token of the one that proposed it."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    committed: int = 0
    spent: Spent = NOTHING_SPENT

    def state(self, name: str) -> dict[str, int]:
        counted = {
            f"rounds_by_{name}": self.rounds,
            f"drafted_tokens_by_{name}": self.drafted,
            f"accepted_tokens_by_{name}": self.accepted,
            f"committed_tokens_by_{name}": self.committed,
        }
        return counted | {f"{part}_ms_by_{name}": round(ms) for part, ms in asdict(self.spent).items()}


@dataclass(slots=True)
class Counters:
    """All of it, and by drafter."""

    requests: int = 0
    guests: int = 0
    prefilled_tokens: int = 0
    resumed_tokens: int = 0
    """Prompt rows that a cache supplied: tokens saved."""
    rounds: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    committed_tokens: int = 0
    unsound_tokens: int = 0
    """Drafted ones that could not be verified: ids or parents that are none, or more than there was room for."""
    forced_tokens: int = 0
    asked_tokens: int = 0
    errors: int = 0
    _shares: defaultdict[str, _Share] = field(default_factory=lambda: defaultdict(_Share))

    def count_round(self, drafter: str, proposed: Sequence[str], accepted: Sequence[str], spent: Spent) -> None:
        """A round that committed one token more than it accepted; of each drafted token the name of who drafted it."""
        share = self._shares[drafter]
        share.rounds += 1
        share.spent += spent
        self.rounds += 1
        self.drafted_tokens += len(proposed)
        for name in proposed:
            self._shares[name].drafted += 1
        self._add(drafter, len(accepted) + 1, accepted, 1)

    def take_back(self, drafter: str, committed: int, accepted: Sequence[str]) -> None:
        """So much of a round that was counted does not stand."""
        self._add(drafter, committed, accepted, -1)

    def state(self) -> Mapping[str, int]:
        counted = {each.name: getattr(self, each.name) for each in fields(self) if not each.name.startswith("_")}
        # The engine's thread may add a drafter meanwhile; a list is made in one step.
        for name, share in list({NO_DRAFTER: _Share(), **self._shares}.items()):
            counted |= share.state(name)
        return counted

    def _add(self, drafter: str, committed: int, accepted: Sequence[str], sign: int) -> None:
        self._shares[drafter].committed += sign * committed
        self.committed_tokens += sign * committed
        self.accepted_tokens += sign * len(accepted)
        for name in accepted:
            self._shares[name].accepted += sign
