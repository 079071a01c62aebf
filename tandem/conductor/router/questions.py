"""The words of the choice questions, and how the served model's own one becomes a prompt (RTR-006, RTR-008, RTR-019).

The model answers with one token: the first of an option's id, or a letter where two ids begin with the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tandem.conductor.router.plan import Option, Question
from tandem.engine.text.model import Conversation, TextModel
from tandem.engine.text.prompt import Prompt, Span

__all__ = [
    "BY_LETTER",
    "CLASS_QUESTION",
    "CONTEXT_QUESTION",
    "LETTERS",
    "Asked",
    "Inside",
    "closed",
    "question_texts",
    "rendered",
    "within",
]

CLASS_QUESTION: Final = (
    "A user has sent the message below to an assistant. Decide what kind of task it asks for. Judge by what the user "
    "wants to receive, not by words that only occur in it.\n\n"
    "The kinds:\n{classes}\n\n"
    "The message:\n<message>\n{question}\n</message>\n\n"
    "Which kind is it?"
)
CONTEXT_QUESTION: Final = (
    "Pause before answering. Decide what kind of task the last message of the conversation above asks for. Judge by "
    "what the user wants to receive now, not by what was made before."
)
BY_ID: Final = "\n\nAnswer with the name of the kind alone."
BY_LETTER: Final = "\n\nAnswer with the letter alone."
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CLOSED: Final = "\n</think>\n\n"
"""Behind an opener: the empty block of a template that has no switch for it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in the model's tokens."""

    prompt: Prompt
    options: tuple[int, ...]
    """Ids of the tokens that stand for the question's options, in their order."""


@dataclass(frozen=True, slots=True)
class Inside:
    """A question behind a prompt's first `parting` rows; for `ask_in_prompt` and what works like it."""

    parting: int
    ids: tuple[int, ...]
    options: tuple[int, ...]


def question_texts(template: str, options: Sequence[Option], digest: str = "", class_id: str = "") -> tuple[str, str]:
    """The question by ids and by letters. What the template has no place for is put behind it.

    Places are filled once and by name alone: braces in a message stay what they are.
    """

    def text(lines: Sequence[str], ending: str) -> str:
        whole = template if "{classes}" in template else f"{template}\n\n{{classes}}"
        whole = whole if "{question}" in whole or not digest else f"{whole}\n\n{{question}}"
        head, *places = whole.replace("{class}", class_id).split("{question}")
        filled = [part.replace("{classes}", "\n".join(lines)) for part in (head, *places)]
        return digest.join(filled) + ending

    plain = [f"{option.id} - {option.description}" for option in options]
    lettered = [f"{letter}: {line}" for letter, line in zip(LETTERS, plain, strict=False)]
    return text(plain, BY_ID), text(lettered, BY_LETTER)


def rendered(question: Question, text: TextModel) -> Asked:
    """A prompt of the question alone, thinking off, hidden from first to last."""
    tokens = _first_tokens([option.id for option in question.options], text)
    asked = question.text if tokens is not None else question.lettered
    prompt = closed(text.render(_turn(asked)), text)
    prompt = replace(prompt, spans=(Span("question", 0, len(prompt.ids)),), head=0, thinking="off")
    return Asked(prompt, tokens if tokens is not None else _letters(question, text))


def within(question: Question, prompt: Prompt, text: TextModel) -> Inside | None:
    """The question as one more user turn behind the last turn of `prompt`, with letters as options.

    The parting point is where the prompt opens the answer: behind the last turn's end and what the template writes
    between two turns. None where the template ends no turn, so that there is no such place.
    """
    parting = _next_turn(prompt.ids, text)
    if parting is None:
        return None
    asked = closed(text.render(_turn(question.lettered)), text)
    return Inside(parting, asked.ids[_last_turn(asked.ids, text) :], _letters(question, text))


def _turn(text: str) -> Conversation:
    messages = ({"role": "user", "content": text},)
    return Conversation(messages=messages, template_kwargs={"enable_thinking": False})


def closed(prompt: Prompt, text: TextModel) -> Prompt:
    """With an empty thinking block where the template has left one open all the same."""
    if prompt.thinking != "open":
        return prompt
    ids = (*prompt.ids, *text.encode_own(CLOSED))
    return replace(prompt, ids=ids, spans=(Span("question", 0, len(ids)),))


def _first_tokens(words: Sequence[str], text: TextModel) -> tuple[int, ...] | None:
    """The token that each word begins with; None where two have the same one."""
    tokens = tuple(text.encode(word)[0] for word in words)
    return tokens if len(set(tokens)) == len(tokens) else None


def _letters(question: Question, text: TextModel) -> tuple[int, ...]:
    return tuple(text.encode(letter)[0] for letter in LETTERS[: len(question.options)])


def _next_turn(ids: Sequence[int], text: TextModel) -> int | None:
    """Row behind the last turn that ends, at which the answer's own begins; None where no turn ends."""
    last = next((at for at in reversed(range(len(ids))) if ids[at] in text.turn_ends), None)
    if last is None:
        return None
    markers = frozenset(text.markers.values())
    return next((at for at in range(last + 1, len(ids)) if ids[at] in markers), last + 1)


def _last_turn(ids: Sequence[int], text: TextModel) -> int:
    """Row at which the last turn that ends begins, with the marker that opens the answer's turn too.

    So nothing is repeated that the template writes at the head of a conversation.
    """
    opening = _next_turn(ids, text)
    if opening is None or opening == len(ids):
        return 0
    return next((at for at in reversed(range(opening)) if ids[at] == ids[opening]), 0)
