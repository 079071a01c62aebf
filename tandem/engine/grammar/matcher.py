"""One state of a compiled language over bytes, asked about tokens (ENG-084)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from llguidance import LLMatcher

from tandem.engine.errors import EngineError
from tandem.engine.grammar.vocabulary import GuidedVocabulary

__all__ = ["GuidedMatcher", "Matcher"]


class Matcher(Protocol):
    """How far a text has come in a language. `path` are tokens that may follow the committed text, not yet committed.

    A text that has left the language, committed or by `path`, is not an error: from there on nothing is allowed.
    `EngineError` where the language is too ambiguous or too large to go on with.
    """

    @property
    def accepting(self) -> bool:
        """Whether the committed text is a complete member."""

    def bits(self, path: Sequence[int]) -> bytes:
        """One bit a token after the committed text and `path`; end ids exactly in accepting states (ENG-088)."""

    def allows(self, path: Sequence[int], token: int) -> bool:
        """Whether `token` may come after the committed text and `path`."""

    def commit(self, ids: Sequence[int]) -> None:
        """The text has grown by `ids`."""

    def commit_bytes(self, data: bytes) -> None:
        """The text has grown by `data`, the rest of a token that began before the language did."""

    def allows_bytes(self, data: bytes) -> bool:
        """Whether some member goes on with `data` after the committed text."""

    def forced(self) -> tuple[int, ...]:
        """The text that every member has next, as the tokens a model would mostly take for it; without the end."""

    def copy(self) -> Matcher:
        """An independent matcher in the state of this one."""


class GuidedMatcher:
    """A `Matcher` over llguidance's. One thread at a time.

    The library's matcher stands at the committed text or, after a question about a path, at that path: the next
    question often goes on from there, so going back is put off until it does not (ENG-085).
    """

    def __init__(self, vocabulary: GuidedVocabulary, inner: LLMatcher) -> None:
        self._vocabulary = vocabulary
        self._inner = inner
        self._ahead: list[int] = []
        self._steps: list[int] = []
        """For each token of `_ahead`, how many of the library's tokens it took."""
        self._is_over = False
        """The text has ended, or has left the language."""

    @property
    def accepting(self) -> bool:
        return self._go(()) and self._inner.is_accepting()

    def bits(self, path: Sequence[int]) -> bytes:
        if not self._go(path) or self._is_ended:
            return self._vocabulary.none
        raw = self._inner.compute_bitmask()
        self._check()  # a failed matcher's mask is that of a finished one
        return self._vocabulary.bits(raw)

    def allows(self, path: Sequence[int], token: int) -> bool:
        if not self._go(path) or self._is_ended:
            return False
        if token in self._vocabulary.end_ids:
            return self._inner.is_accepting()
        return self._validates(self._vocabulary.spell(token))

    def commit(self, ids: Sequence[int]) -> None:
        self._is_over = not self._go(ids) or self._is_ended
        self._forget()

    def commit_bytes(self, data: bytes) -> None:
        if data:
            self._is_over = not (self._go(()) and self._consume(self._vocabulary.spell_bytes(data)))
            self._forget()

    def allows_bytes(self, data: bytes) -> bool:
        return self._go(()) and (not data or self._validates(self._vocabulary.spell_bytes(data)))

    def forced(self) -> tuple[int, ...]:
        if not self._go(()):
            return ()
        data = self._inner.deep_copy().compute_ff_bytes()
        return self._vocabulary.usual(data.partition(b"\xff")[0])  # the byte marks a special token

    def copy(self) -> GuidedMatcher:
        twin = GuidedMatcher(self._vocabulary, self._inner.deep_copy())
        twin._ahead, twin._steps, twin._is_over = [*self._ahead], [*self._steps], self._is_over
        return twin

    @property
    def _is_ended(self) -> bool:
        """The path that the matcher stands at ends with an end id."""
        return bool(self._ahead) and self._ahead[-1] in self._vocabulary.end_ids

    def _forget(self) -> None:
        """Where the matcher stands is committed."""
        self._ahead, self._steps = [], []

    def _go(self, path: Sequence[int]) -> bool:
        """Bring the library's matcher to `path`; False, and as far as it goes, where that leaves the language."""
        if self._is_over:
            return False
        shared = 0
        for ours, theirs in zip(self._ahead, path, strict=False):
            if ours != theirs:
                break
            shared += 1
        if shared < len(self._ahead):
            self._back(sum(self._steps[shared:]))
            del self._ahead[shared:], self._steps[shared:]
        return all(self._step(path[at]) for at in range(shared, len(path)))

    def _step(self, token: int) -> bool:
        if self._is_ended:
            return False
        spelling: tuple[int, ...] = ()
        if token in self._vocabulary.end_ids:
            if not self._inner.is_accepting():
                return False
        else:
            spelling = self._vocabulary.spell(token)
            if not self._consume(spelling):
                return False
        self._ahead.append(token)
        self._steps.append(len(spelling))
        return True

    def _consume(self, spelling: Sequence[int]) -> bool:
        """Take all of `spelling` or nothing; an empty one stands for what no member holds."""
        taken = self._inner.try_consume_tokens(list(spelling)) if spelling else 0
        self._check()
        if taken == len(spelling):
            return bool(spelling)
        self._back(taken)
        return False

    def _validates(self, spelling: Sequence[int]) -> bool:
        valid = bool(spelling) and self._inner.validate_tokens(list(spelling)) == len(spelling)
        self._check()
        return valid

    def _back(self, count: int) -> None:
        if count:
            self._inner.rollback(count)
            self._check()

    def _check(self) -> None:
        if self._inner.is_error():
            # The library's message may hold text of the answer, so it goes nowhere.
            raise EngineError("the constraint's grammar is too complex for the text it has come to")
