"""Hidden texts as token ids: closing phrases, turns that go on behind an answer, questions about it (MON-025, MON-032).

A turn begins with the template's own end of the answer's turn, for the model's end token is not in the sequence, and it
ends where the next answer begins, its thinking closed. Nothing of it is spelled here: a small conversation is rendered
by the model's own template with and without the turn, and what the longer one has behind the answer is the turn. So
what stands in the sequence is what the template would have written for a conversation with that turn in it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tandem.conductor.router.questions import BY_LETTER, LETTERS, closed
from tandem.engine.errors import BadInput
from tandem.engine.text.closing import CLOSING_PHRASE, hidden_closing
from tandem.engine.text.model import Conversation, TextModel
from tandem.engine.text.prompt import turn_end_rows
from tandem.engine.text.reading.splitter import CLOSER

__all__ = ["HiddenTurns"]

_USER: Final = {"role": "user", "content": "a"}
_ANSWER: Final = {"role": "assistant", "content": "b"}
_TAG: Final = f"\n{CLOSER}\n\n"
_KEPT: Final = 256
"""Texts whose ids are kept; policies have a few dozen, and most of what is filled in is a tool's name."""


class HiddenTurns:
    """The hidden texts of one model. Any thread may use it."""

    def __init__(self, tok: TextModel) -> None:
        self._tok = tok
        self._behind = functools.lru_cache(_KEPT)(self._render_behind)

    def closer(self, text: str | None = None) -> tuple[tuple[int, ...], int]:
        """What closes an open block: `text`, the closing tag behind it where it has none; None: the usual phrase; "":
        the tag alone. With it how much of its end a history has anyway, as `hidden_closing` tells.
        """
        text = CLOSING_PHRASE if text is None else text
        return hidden_closing(self._tok, text if CLOSER in text else text.rstrip() + _TAG)

    def user_turn(self, text: str) -> tuple[int, ...] | None:
        """A user's turn behind an answer, and the opening of the next one. None where the template ends no turn."""
        return self._behind(0, (text,))

    def tool_turn(self, texts: Sequence[str]) -> tuple[int, ...] | None:
        """The same in the shape of the results of so many calls, which the answer ends with; one user's turn where the
        template cannot show them.
        """
        return self._behind(len(texts), tuple(texts)) or self.user_turn("\n\n".join(texts))

    def question(self, text: str, options: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """A user's turn that asks for one letter, and the letters' ids in the order of the options (MON-062). None also
        where a letter is no token of its own.
        """
        letters = [self._tok.encode(letter) for letter in LETTERS[: len(options)]]
        if len(letters) < len(options) or any(len(ids) != 1 for ids in letters):
            return None
        lines = "\n".join(f"{letter}: {option}" for letter, option in zip(LETTERS, options, strict=False))
        turn = self.user_turn(f"{text}\n\n{lines}{BY_LETTER}")
        return None if turn is None else (turn, tuple(ids[0] for ids in letters))

    def _render_behind(self, calls: int, texts: tuple[str, ...]) -> tuple[int, ...] | None:
        """From the end of an answer's turn on: `calls` results of tools, or a user's turn; then the next opening."""
        names = [f"call{at:05d}" for at in range(calls)]
        answer = {**_ANSWER, "tool_calls": [_call(name) for name in names]} if calls else _ANSWER
        turns: list[Mapping[str, Any]] = [{"role": "user", "content": text} for text in texts]
        if calls:
            turns = [
                {"role": "tool", "content": text, "tool_call_id": name, "name": "tool"}
                for name, text in zip(names, texts, strict=True)
            ]
        try:
            asked, before, whole = (self._ids(each) for each in ([_USER], [_USER, answer], [_USER, answer, *turns]))
        except BadInput:
            return None
        ends = turn_end_rows(before, self._tok.turn_ends)
        ends_answers = len(ends) > len(turn_end_rows(asked, self._tok.turn_ends))
        if not ends_answers or whole[: ends[-1] + 1] != before[: ends[-1] + 1]:
            return None
        return whole[ends[-1] :]

    def _ids(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        conversation = Conversation(messages=messages, template_kwargs={"enable_thinking": False})
        return closed(self._tok.render(conversation), self._tok).ids


def _call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "tool", "arguments": "{}"}}
