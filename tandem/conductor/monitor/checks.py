"""What is wrong with a policy, one problem a key: by its schema, then what no schema can say (MON-018, MON-019).

`model_problems` asks the model that is to be served; the rest needs none.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from tandem.conductor.monitor.patterns import pattern_problem
from tandem.conductor.monitor.schema import policy_schema
from tandem.conductor.monitor.tier0 import NEEDED, PLACEHOLDERS, Rule
from tandem.conductor.router.questions import LETTERS
from tandem.engine.text.model import TextModel
from tandem.engine.text.reading.splitter import CLOSER

__all__ = ["Problem", "model_problems", "schema_problems", "text_problems"]

SHOWN: Final = 60
TAKEN: Final = frozenset({"route", "client", "reserve", "calls", "monitor", "request"})
"""Names in the journal's column of tasks that are no task's: caps (MON-038), and what the monitor says of itself."""
ABSENT: Final = "the key is missing"
OPTIONS: Final = 5
"""As many options as the shipped questions have at most."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One key's."""

    path: str
    value: Any
    reason: str

    def __str__(self) -> str:
        shown = repr(self.value)
        value = "" if self.reason == ABSENT else f"{shown if len(shown) <= SHOWN else shown[:SHOWN] + '…'}: "
        return f"{self.path or 'policy'}: {value}{self.reason}"


def schema_problems(body: Mapping[str, Any], rules: Mapping[str, Rule]) -> Iterator[Problem]:
    """What the schema of a policy with these rules refuses."""
    for error in Draft202012Validator(policy_schema(rules)).iter_errors(body):
        yield from _of_error(error)


def text_problems(body: Mapping[str, Any], rules: Mapping[str, Rule]) -> Iterator[Problem]:
    """Of a body that its schema allows: placeholders, patterns, the closing tag, a task's name."""
    schema = policy_schema(rules)
    for section in ("texts", "templates"):
        yield from _texts(body[section], schema["properties"][section], section)
    close = body["texts"]["vendor_close"]
    if close is not None and CLOSER not in close:
        yield Problem("texts.vendor_close", close, f"it does not hold the closing tag {CLOSER}")
    seen = set()
    for at, task in enumerate(body["tasks"]):
        path = f"tasks[{at}]"
        if task["id"] in seen:
            yield Problem(f"{path}.id", task["id"], "the task stands twice")
        if task["id"] in TAKEN:
            yield Problem(f"{path}.id", task["id"], "rows of another kind have this name")
        seen.add(task["id"])
        yield from _texts(task, schema["$defs"][task["rule"]], path)


def model_problems(texts: Mapping[str, str | None], asks: bool, text: TextModel) -> Iterator[Problem]:
    """What does not fit the model: a closing tag that is not its own; for who `asks`, letters that are no tokens."""
    if (close := texts.get("vendor_close")) is not None:
        ids, tag = text.encode_own(close), text.encode_own(CLOSER)
        if not any(ids[at : at + len(tag)] == tag for at in range(len(ids))):
            yield Problem("texts.vendor_close", close, f"the model does not read {CLOSER} in it")
    for letter in LETTERS[:OPTIONS] if asks else "":
        if len(text.encode(letter)) != 1:
            yield Problem("tasks", letter, "an option's letter is no token of the model")


def _of_error(error: ValidationError) -> Iterator[Problem]:
    path = _path(error.absolute_path)
    value: Any = error.instance
    schema: Any = error.schema
    match error.validator:
        case "additionalProperties":
            for name in sorted(value.keys() - schema["properties"].keys()):
                yield Problem(_below(path, name), value[name], "there is no such key")
        case "required":
            missing = next(name for name in schema["required"] if f"'{name}'" in error.message)
            yield Problem(_below(path, missing), None, ABSENT)
        case "enum" | "const" if path.endswith(".rule"):
            yield Problem(path, value, "there is no such rule")
        case _:
            yield Problem(path, value, _reason(error))


def _reason(error: ValidationError) -> str:
    """The validator's sentence without the value that it begins with."""
    shown = repr(error.instance)
    return error.message.removeprefix(shown).strip() if error.message.startswith(shown) else error.message


def _texts(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Wherever a text stands: names in braces that its schema does not list, a pattern that cannot be used."""
    match value:
        case str() if PLACEHOLDERS in schema:
            yield from _names(value, schema[PLACEHOLDERS], schema.get(NEEDED, ()), path)
        case str() if schema.get("format") == "regex" and (problem := pattern_problem(value)) is not None:
            yield Problem(path, value, problem)
        case dict():
            for name, each in value.items():
                below = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
                if isinstance(below, Mapping):
                    yield from _texts(each, below, _below(path, name))
        case list() if isinstance(schema.get("items"), Mapping):
            for at, each in enumerate(value):
                yield from _texts(each, schema["items"], f"{path}[{at}]")
        case _:
            pass


def _names(value: str, allowed: Sequence[str], needed: Sequence[str], path: str) -> Iterator[Problem]:
    try:
        found = [part[1:] for part in string.Formatter().parse(value) if part[1] is not None]
    except ValueError:
        yield Problem(path, value, "a brace that belongs to no placeholder is written twice: {{")
        return
    for missing in set(needed).difference(name for name, _, _ in found):
        yield Problem(path, value, f"it has no place for {{{missing}}}")
    for name, form, conversion in found:
        if name not in allowed or form or conversion:
            there = ", ".join(f"{{{each}}}" for each in allowed) or "none"
            yield Problem(path, value, f"{{{name}}} is no placeholder here; there are: {there}")


def _path(steps: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else str(name)
