"""Hides the secrets of a conversation where an answer repeats them (MEM-010 to MEM-013).

All values are looked for at once by the automaton of Aho and Corasick (1975): its state is the longest tail of the text
that begins a value, so a character costs constant time and nothing but that tail has to wait. A value counts as a whole
word: where it begins or ends with a letter, digit or underscore, the character beside it is none. Values that overlap
are masked as one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tandem.conductor.masking.scan import Secret, SecretCache
from tandem.engine.text.reading.rules import Shown, TextMask

__all__ = ["MASKED", "SecretMask", "secret_mask"]

MASKED = "[redacted]"
"""What stands for a value, behind its kind's prefix."""


class SecretMask:
    """The mask of one request. Its readers, one a choice, take a stage each; the counts are those of all."""

    def __init__(self, secrets: Sequence[Secret], *, shadow: bool = False) -> None:
        """`shadow`: counts alone, and changes nothing."""
        self.counts: dict[str, int] = {}
        """Places that were masked, by kind."""
        self._automaton = _Automaton(secrets)
        self._shadow = shadow

    def stage(self) -> TextMask:
        """A new text's."""
        stage = _Stage(self._automaton, self.counts)
        return _Shadow(stage) if self._shadow else stage


def secret_mask(
    cache: SecretCache, messages: Iterable[Mapping[str, Any]], *, shadow: bool = False
) -> SecretMask | None:
    """The mask of a conversation; None where no tool result holds a secret: then not a byte may differ (MEM-012).

    Of a long conversation it is made in a worker thread (SCH-113).
    """
    secrets = cache.of(messages)
    return SecretMask(secrets, shadow=shadow) if secrets else None


class _Found(NamedTuple):
    """A value in the text, from `start` to before `end`, counted from the text's first character."""

    start: int
    end: int
    secret: Secret


class _Stage:
    def __init__(self, automaton: _Automaton, counts: dict[str, int]) -> None:
        self._automaton = automaton
        self._counts = counts
        self._state = 0
        self._text = ""
        """What is held, from offset `_base` on."""
        self._base = 0
        self._before = ""
        """The character before it."""
        self._open: list[_Found] = []
        """Values that end the text so far: whether they are words is told by the next character."""
        self._found: list[_Found] = []

    def feed(self, text: str) -> list[Shown]:
        if not text:
            return []
        if not self._text and self._automaton.firsts.isdisjoint(text):
            self._before = text[-1]
            self._base += len(text)
            return [Shown(text, len(text))]
        at = self._base + len(self._text)
        self._text += text
        for char in text:
            if self._open:
                self._found += [
                    found for found in self._open if not (_in_word(char) and _in_word(self._char(found.end)))
                ]
                self._open = []
            at += 1
            self._state = self._automaton.step(self._state, char)
            self._look(at)
        return self._give(self._border(at))

    def end(self) -> list[Shown]:
        self._found += self._open
        shown = self._give(self._base + len(self._text))
        self._state, self._before, self._open = 0, "", []
        return shown

    def _char(self, end: int) -> str:
        """The character that ends at this offset; the one before what is held is known too."""
        at = end - 1 - self._base
        return self._text[at] if at >= 0 else self._before

    def _look(self, at: int) -> None:
        """Note the values that end here and begin a word."""
        for secret in self._automaton.ends(self._state):
            start = at - len(secret.value)
            if not (_in_word(secret.value[0]) and _in_word(self._char(start))):
                self._open.append(_Found(start, at, secret))

    def _border(self, at: int) -> int:
        """Where the text begins that has to wait: a tail that may become a value, or one that is not certain yet."""
        depths = self._automaton.depths
        while (
            (depth := depths[self._state]) and _in_word(self._char(at - depth + 1)) and _in_word(self._char(at - depth))
        ):
            self._state = self._automaton.fails[self._state]  # it begins inside a word, so it never becomes one
        border = min([at - depth, *(found.start for found in self._open)])
        for found in sorted(self._found, key=lambda found: -found.end):
            if found.end > border:
                border = min(border, found.start)
        return border

    def _give(self, border: int) -> list[Shown]:
        """The text before the border, its values masked."""
        shown: list[Shown] = []
        low = self._base
        for found in _merged(found for found in self._found if found.end <= border):
            self._counts[found.secret.kind] = self._counts.get(found.secret.kind, 0) + 1
            shown += _plain(self._text[low - self._base : found.start - self._base])
            shown.append(Shown(found.secret.keeps + MASKED, found.end - found.start, is_masked=True))
            low = found.end
        shown += _plain(self._text[low - self._base : border - self._base])
        self._found = [found for found in self._found if found.end > border]
        self._before = self._char(border)
        self._text = self._text[border - self._base :]
        self._base = border
        return shown


class _Shadow:
    """Lets the text pass as it comes, and has a stage count."""

    def __init__(self, stage: _Stage) -> None:
        self._stage = stage

    def feed(self, text: str) -> list[Shown]:
        self._stage.feed(text)
        return _plain(text)

    def end(self) -> list[Shown]:
        self._stage.end()
        return []


class _Automaton:
    """All values in one machine; state 0 is the root. `depths` are the lengths of the tails that the states stand for,
    `fails` the states of the next shorter ones.
    """

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self.depths = [0]
        self.fails = [0]
        self._next: list[dict[str, int]] = [{}]
        self._whole: dict[int, Secret] = {}
        self._shorter: dict[int, int] = {}
        """Of a state whose tail ends with a shorter value, the state of that value."""
        for secret in secrets:
            self._add(secret)
        self._link()
        self.firsts = frozenset(self._next[0])

    def step(self, state: int, char: str) -> int:
        while (after := self._next[state].get(char)) is None:
            if not state:
                return 0
            state = self.fails[state]
        return after

    def ends(self, state: int) -> list[Secret]:
        """The values that end in this state, longest first."""
        ended = [self._whole[state]] if state in self._whole else []
        while (shorter := self._shorter.get(state)) is not None:
            ended.append(self._whole[shorter])
            state = shorter
        return ended

    def _add(self, secret: Secret) -> None:
        state = 0
        for char in secret.value:
            after = self._next[state].setdefault(char, len(self._next))
            if after == len(self._next):
                self._next.append({})
                self.depths.append(self.depths[state] + 1)
                self.fails.append(0)
            state = after
        self._whole.setdefault(state, secret)

    def _link(self) -> None:
        todo = deque(self._next[0].values())
        while todo:
            state = todo.popleft()
            fail = self.fails[state]
            if fail in self._whole:
                self._shorter[state] = fail
            elif fail in self._shorter:
                self._shorter[state] = self._shorter[fail]
            for char, after in self._next[state].items():
                self.fails[after] = self.step(fail, char)
                todo.append(after)


def _plain(text: str) -> list[Shown]:
    return [Shown(text, len(text))] if text else []


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _merged(founds: Iterable[_Found]) -> list[_Found]:
    """Overlapping ones as one, of the kind of the one that begins first."""
    out: list[_Found] = []
    for found in sorted(founds, key=lambda found: (found.start, -found.end)):
        if out and found.start < out[-1].end:
            out[-1] = out[-1]._replace(end=max(out[-1].end, found.end))
        else:
            out.append(found)
    return out
