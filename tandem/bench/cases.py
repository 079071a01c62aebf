"""The 14 requests by which exactness is checked (ENG-074), for any model: what each asks for, and by which rules.

Seeded ones draw among 20 tokens at most, so what the draw chose between is all among the log-probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tandem.engine.decoding.generation import Generation, ReasoningCap
from tandem.engine.errors import BadInput
from tandem.engine.grammar.constraints import Constraint, JsonSchema, Regex
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.text.closing import closing_ids
from tandem.engine.text.model import Conversation, TextModel
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.reader import AnswerReader
from tandem.engine.verbs import ModelCard, SamplingRules

__all__ = ["CASES", "DRAWN_FROM", "QUICK", "Case", "Starter"]

DRAWN_FROM = 20
"""Tokens that a drawn request chooses among."""

_RECIPE = (
    "Take two eggs, a cup of flour, a cup of milk and a pinch of salt. Beat the eggs first. Then add the milk and the "
    "flour by turns, and let the batter rest for half an hour before you fry it in a little butter."
)
_COPIED = "Say it again: two eggs, a cup of flour, a cup of milk, a pinch of salt."
_CODE = """\
def mean(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)
"""
_PLAIN = "Write a short story about the keeper of a lighthouse."
_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request."""

    name: str
    messages: Sequence[Mapping[str, Any]]
    rules: SamplingRules = field(default_factory=SamplingRules)
    tools: Sequence[Mapping[str, Any]] = ()
    constraint: Constraint | None = None
    cap: int | None = None
    """Tokens of reasoning; the prompt then leaves the block open."""


def _asked(text: str, *before: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*before, {"role": "user", "content": text}]


_DRAWN = SamplingRules(temperature=0.8, top_k=DRAWN_FROM, seed=7)
_PENALISED = SamplingRules(repetition_penalty=1.2, presence_penalty=0.4, frequency_penalty=0.3, no_repeat_ngram=3)

CASES: tuple[Case, ...] = (
    Case(name="story", messages=_asked(_PLAIN)),
    Case(name="code", messages=_asked(f"Write this function with a check for an empty list.\n\n{_CODE}")),
    Case(name="copy", messages=_asked(f"Repeat this text word by word:\n\n{_RECIPE}")),
    Case(name="list", messages=_asked("Name ten rivers, one a line, with the sea that each of them ends in.")),
    Case(name="long", messages=_asked(f"{_RECIPE}\n\n" * 6 + "What is beaten first?")),
    Case(
        name="second turn",
        messages=_asked(
            "And what comes into the pan?",
            {"role": "system", "content": "You answer in one sentence."},
            {"role": "user", "content": _RECIPE},
            {"role": "assistant", "content": "That is a recipe for pancakes."},
        ),
    ),
    Case(name="thinking", messages=_asked("How many legs have three cats?"), cap=6),
    Case(name="tools", messages=_asked("What is the weather in Graz?"), tools=(_WEATHER,)),
    Case(name="penalties", messages=_asked(_PLAIN), rules=_PENALISED),
    Case(name="schema", messages=_asked("A person, as JSON."), constraint=JsonSchema(_PERSON, "schema")),
    Case(
        name="regex",
        messages=_asked("A date."),
        constraint=Regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [a-z]+){1,9}\.", "regex"),
    ),
    Case(name="seeded", messages=_asked(_PLAIN), rules=_DRAWN),
    Case(name="seeded copy", messages=_asked(_COPIED), rules=replace(_DRAWN, seed=11)),
    Case(
        name="seeded, penalised",
        messages=_asked("Write a limerick about a cat."),
        rules=replace(_PENALISED, temperature=1.1, top_k=DRAWN_FROM, min_p=0.02, seed=2**40 + 1),
    ),
)

QUICK = ("copy", "thinking", "penalties", "schema", "seeded copy")
"""The cases of a quick check, one for each way in which a token is chosen."""


class Starter:
    """Makes the generation of a case, anew for each run of it: masks and readers move on."""

    def __init__(self, text: TextModel, card: ModelCard, limit: int) -> None:
        self._text = text
        self._card = card
        self._limit = limit
        self._grammars = Grammars(text)

    def prompt(self, case: Case) -> Prompt:
        """What the template makes of the messages, without the tools where it has no place for them."""
        asked = Conversation(messages=case.messages, tools=case.tools)
        try:
            prompt = self._text.render(asked)
        except BadInput:
            prompt = self._text.render(replace(asked, tools=()))
        return prompt if case.cap is None else replace(prompt, thinking="open")

    def start(self, case: Case, prompt: Prompt) -> Generation:
        """`limit` tokens at most, each with what it was chosen among."""
        mask = None if case.constraint is None else self._grammars.compile(case.constraint).mask(prompt.thinking)
        seen = DRAWN_FROM if case.rules.temperature else 2
        generation = Generation(
            prompt,
            replace(case.rules, mask=mask, logprobs=seen),
            limit=self._limit,
            reader=AnswerReader(self._text, thinking=prompt.thinking),
            end_ids=self._text.end_ids,
            grid=self._card.anchor_grid,
            arrived_at=0.0,
            reasoning_cap=None if case.cap is None else ReasoningCap(case.cap, closing_ids(self._text)),
        )
        generation.start(0.0)
        return generation
