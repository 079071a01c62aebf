"""Whether a call's arguments fit their tool's schema (MON-093), and what would make them fit (MON-094). Pure.

The schema is a client's and the arguments are a model's: neither is trusted. No reference is fetched, no pattern is
run, and a check that goes on for too long, or that the library cannot do, finds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Literal

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import create
from referencing import Registry

from tandem.conductor.tool_arguments import mapping

__all__ = ["LONGEST", "Fault", "fault"]

LONGEST: Final = 524_288
"""Characters of arguments that are read."""
STEPS: Final = 2_000
"""Keywords that the checks of one answer's calls may look at: they run between two rounds of everybody's decoding."""
FEWEST: Final = 32
"""Those of each call, however many there are."""
FAILED: Final = 3
"""What does not fit takes as long as so many keywords more."""
REFERENCE: Final = 25
"""A reference takes as long as so many others."""
UNSURE: Final = frozenset({"pattern", "patternProperties", "propertyNames", "format", "uniqueItems"}) | frozenset(
    {"unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "if", "dependentSchemas"}
)
"""Keywords that are not checked: their cost is not bounded, or no model can be told what they want."""
SHOWN: Final = 60
"""Characters of a name that are told."""
CHOICES: Final = 8
MENDED: Final = 8
"""Values of one call that are mended."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first thing that is wrong with a call's arguments."""

    finding: Literal["unparsable", "absent", "value"]
    why: str
    """For the model; no value of the call stands in it."""
    keyword: str
    """The schema's word that it breaks."""
    mended: str | None = None
    """The arguments with the one change that makes them fit, where there is exactly one."""


class _TooMuch(Exception):
    """The check takes too long."""


class _Budget(FormatChecker):
    """Goes along with the validator, which hands its format checker on, and counts its steps; it knows no format."""

    def __init__(self, steps: int) -> None:
        super().__init__(formats=())
        self.left = steps

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _TooMuch


def fault(arguments: str, schema: Any, calls: int = 1) -> Fault | None:
    """What is wrong with `arguments`, a JSON text, by the schema of the tool's parameters; None: nothing is. They are
    those of one of so many `calls`.
    """
    if not isinstance(schema, Mapping) or len(arguments) > LONGEST:
        return None
    try:
        value = json.loads(arguments or "{}")
    except json.JSONDecodeError:
        return Fault("unparsable", "its arguments are no JSON", "json")
    except (ValueError, RecursionError):  # more digits or levels than Python reads; it may be JSON all the same
        return None
    if not isinstance(value, dict):
        return Fault("value", "its arguments are no JSON object", "type")
    budget = _Budget(max(FEWEST, STEPS // max(1, calls)))
    try:
        error = _first(value, schema, budget)
        return None if error is None else _told(error, value, schema, budget)
    except Exception:  # a client's schema can be anything, and then the library does not know what to do
        return None


def _told(error: ValidationError, value: dict[str, Any], schema: Mapping[str, Any], budget: _Budget) -> Fault:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{_shown(step)}" for step in error.absolute_path)
    name = path.removeprefix(".") or "arguments"
    wanted: Any = error.validator_value
    instance: Any = error.instance
    match error.validator:
        case "required":
            missing = next(each for each in wanted if each not in instance)
            where = f" in {name}" if path else ""
            return Fault("absent", f"the argument {_shown(missing)} is missing{where}", "required")
        case "additionalProperties":
            why = f"{name} has one that the tool does not know"
        case "type":
            why = f"{name} must be of type {_shown(wanted if isinstance(wanted, str) else ' or '.join(wanted))}"
        case "enum" if len(wanted) <= CHOICES:
            why = f"{name} must be one of {', '.join(_shown(json.dumps(each, ensure_ascii=False)) for each in wanted)}"
        case keyword:
            why = f"{name} does not fit its schema ({keyword})"
    return Fault("value", why, str(error.validator), _mended(value, schema, budget))


def _mended(value: dict[str, Any], schema: Mapping[str, Any], budget: _Budget) -> str | None:
    """With words of a list of choices in the case that the list has them in, where nothing else is wrong."""
    mended = deepcopy(value)
    for _ in range(MENDED):
        error = _first(mended, schema, budget)
        if error is None:
            return json.dumps(mended, ensure_ascii=False)
        wanted: Any = error.validator_value
        if error.validator not in ("enum", "const") or not error.absolute_path or not isinstance(error.instance, str):
            return None
        choices = wanted if error.validator == "enum" else [wanted]
        said = error.instance.strip().casefold()
        meant = [each for each in choices if isinstance(each, str) and each.casefold() == said]
        if len(meant) != 1:
            return None
        *steps, last = error.absolute_path
        place: Any = mended
        for step in steps:
            place = place[step]
        place[last] = meant[0]
    return None


def _first(value: Any, schema: Mapping[str, Any], budget: _Budget) -> ValidationError | None:
    validator = _VALIDATOR(schema, registry=Registry(), format_checker=budget)
    return next(validator.iter_errors(value), None)


def _shown(name: object) -> str:
    """On one line, of a bounded length."""
    return " ".join(str(name).split())[:SHOWN]


def _counted(check: Callable[..., Any], steps: int) -> Callable[..., Iterator[ValidationError]]:
    def counted(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        validator.format_checker.spend(steps)
        # `nullable` is OpenAPI's way to say `or null`, and the codec reads it so.
        if instance is not None or schema.get("nullable") is not True:
            for error in check(validator, wanted, instance, schema) or ():
                validator.format_checker.spend(FAILED)
                yield error

    return counted


def _closed(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """`additionalProperties`, but no name is held against a pattern."""
    if not mapping(schema.get("patternProperties")):
        yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, wanted, instance, schema) or ()


_VALIDATOR: Final = create(
    meta_schema=Draft202012Validator.META_SCHEMA,
    validators={
        keyword: _counted(
            _closed if keyword == "additionalProperties" else check, REFERENCE if keyword == "$ref" else 1
        )
        for keyword, check in Draft202012Validator.VALIDATORS.items()
        if keyword not in UNSURE
    },
    type_checker=Draft202012Validator.TYPE_CHECKER,
)
