"""How often a match has gone on as it did before, by its length: what makes a path's probability (ENG-063).

Two counts a length: the server's, halved so that it follows what is served now, and the text's own, which soon
outweighs it, for a text that copies does so throughout. A match that has held for d tokens is d tokens longer, so one
table serves every depth of a tree.
"""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["Calibration", "Depths"]

_LENGTHS = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48)
"""Shortest match of each class."""
_PRIOR = (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.87, 0.91, 0.94, 0.96, 0.98)
_PRIOR_TRIALS = 8.0
_DEPTH_PRIOR = 0.6
_SERVER_TRIALS = 8.0
"""What the server's rate weighs against a text's own trials."""
_MOST = 4_000


class Calibration:
    """Trials and hits by the kind of source and the length of the match."""

    def __init__(self) -> None:
        self._server: dict[tuple[str, int], list[float]] = {}
        self._text: dict[tuple[str, int], list[float]] = {}

    def rate(self, kind: str, length: int) -> float:
        """The probability that the token after a match of `length` is one of those it proposes."""
        where = (kind, self._class(length))
        trials, hits = self._server.get(where, (0.0, 0.0))
        server = (hits + _PRIOR_TRIALS * _PRIOR[where[1]]) / (trials + _PRIOR_TRIALS)
        trials, hits = self._text.get(where, (0.0, 0.0))
        return (hits + _SERVER_TRIALS * server) / (trials + _SERVER_TRIALS)

    def saw(self, kind: str, length: int, hit: bool) -> None:
        where = (kind, self._class(length))
        for counts in (self._server.setdefault(where, [0.0, 0.0]), self._text.setdefault(where, [0.0, 0.0])):
            counts[0] += 1.0
            counts[1] += hit
            if counts[0] > _MOST:
                counts[:] = counts[0] / 2, counts[1] / 2

    def reset(self) -> None:
        """Another text begins: forget what was seen of this one alone."""
        self._text.clear()

    @staticmethod
    def _class(length: int) -> int:
        return max(0, bisect_right(_LENGTHS, length) - 1)


class Depths:
    """How often the target takes the token at each depth of a drawn chain, all before it taken."""

    def __init__(self) -> None:
        self._counts: dict[int, list[float]] = {}

    def chances(self, depth: int) -> tuple[float, ...]:
        """The probability that the walk reaches each of `depth` tokens."""
        chances, reach = list[float](), 1.0
        for at in range(depth):
            trials, hits = self._counts.get(at, (0.0, 0.0))
            reach *= (hits + _PRIOR_TRIALS * _DEPTH_PRIOR) / (trials + _PRIOR_TRIALS)
            chances.append(reach)
        return tuple(chances)

    def saw(self, drafted: int, accepted: int) -> None:
        """Of a chain of `drafted` tokens the first `accepted` were taken."""
        for at in range(min(accepted + 1, drafted)):
            counts = self._counts.setdefault(at, [0.0, 0.0])
            counts[0] += 1.0
            counts[1] += at < accepted
            if counts[0] > _MOST:
                counts[:] = counts[0] / 2, counts[1] / 2
