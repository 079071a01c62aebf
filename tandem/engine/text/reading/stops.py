"""Stop strings on decoded text, across token borders (ENG-093).

The match that is *completed* first wins; of several completed by the same character, the longest. That rule, unlike
"the match that begins first", needs no text beyond the match, so every split of the input gives the same output.
Each stop runs its Knuth-Morris-Pratt automaton, whose state is the length of the tail that could still become it; a
character costs constant time whatever the stops look like.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["StopMatcher"]


class StopMatcher:
    """Cuts the text at the first stop string and holds back the longest tail that could still become one."""

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise ValueError("a stop string must not be empty")
        self.stopped = False
        """A stop string was found: its text and everything after it is cut."""
        self._automata = [_Automaton(stop) for stop in stops]
        self._firsts = frozenset(stop[0] for stop in stops)
        self._held = ""

    def feed(self, text: str) -> str:
        """The text that can go out; nothing more after a match."""
        if self.stopped or not text:
            return ""
        if not self._held and self._firsts.isdisjoint(text):
            return text
        longest = 0
        for at, char in enumerate(text):
            longest, found = self._step(char)
            if found:
                self.stopped = True
                seen = self._held + text[: at + 1]
                self._held = ""
                return seen[: len(seen) - found]
        seen = self._held + text
        border = len(seen) - longest
        self._held = seen[border:]
        return seen[:border]

    def end(self) -> str:
        """The tail that was held back: it became no stop string."""
        held, self._held = self._held, ""
        return held

    def restart(self) -> None:
        """What is fed next begins another text: no match reaches across, and what was held is dropped."""
        self.stopped, self._held = False, ""
        self._automata = [_Automaton(automaton.stop) for automaton in self._automata]

    def _step(self, char: str) -> tuple[int, int]:
        """The longest partial match behind `char`, and the length of the longest whole one (0: none)."""
        longest = found = 0
        for automaton in self._automata:
            length = automaton.step(char)
            longest = max(longest, length)
            if length == len(automaton.stop):
                found = max(found, length)
        return longest, found


class _Automaton:
    """Knuth-Morris-Pratt for one string (Knuth, Morris, Pratt 1977): `step` gives the matched length."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self._matched = 0
        self._borders = [0] * len(stop)
        length = 0
        for at in range(1, len(stop)):
            while length and stop[at] != stop[length]:
                length = self._borders[length - 1]
            length += stop[at] == stop[length]
            self._borders[at] = length

    def step(self, char: str) -> int:
        matched = self._matched
        while matched and self.stop[matched] != char:
            matched = self._borders[matched - 1]
        matched += self.stop[matched] == char
        self._matched = matched
        return matched
