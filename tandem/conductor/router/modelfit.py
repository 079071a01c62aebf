"""How the conductor fits the served model: what its adapter declares, what the operator overrides (FIT-004 to FIT-007).

A small model reads a long note at the cost of its task, and one that cannot answer the class question had better not be
asked. The documents stay as they are; a fit only leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

__all__ = ["ModelFit", "NO_FIT", "fit_of"]

MODEL, OFF = "model", "off"
WORDS = {"true": True, "on": True, "false": False, "off": False}
LIST_JOIN = "+"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFit:
    """The defaults are those of a model that declares nothing: the documents as written."""

    effort_note: bool = True
    """The note has the effort sentence."""
    rules: bool = True
    """The note has the class's rules."""
    questions: bool = True
    """Class and package are asked; else the turn takes the session's class or the profile's default."""
    packages: bool = True
    """Turns carry packages at all."""
    lean: bool = False
    """General packages stay out, core and task skill stay."""
    no_package_classes: tuple[str, ...] = ()
    """Classes without packages."""
    max_package_tokens: int = 0
    """Packages with a higher limit stay out; 0: none does."""

    @property
    def row(self) -> Mapping[str, Any] | None:
        """`extra.model_fit`: what differs from the documents as written; None where nothing does."""
        differing = {key: value for key in KEYS if (value := getattr(self, key)) != getattr(NO_FIT, key)}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in differing.items()} or None

    def __str__(self) -> str:
        """For the log: `questions=off packages=off lean=on`, or `as written`."""
        told = (f"{key}={_told(value)}" for key, value in (self.row or {}).items())
        return " ".join(told) or "as written"


NO_FIT = ModelFit()


def fit_of(declared: Mapping[str, Any], asked: str = MODEL) -> ModelFit:
    """The fit in use: `declared` by the model's adapter, as `asked` by `--conductor-fit`.

    Raises `ValueError`, one line, for what `asked` cannot mean and for a declaration with an unknown key.
    """
    fit = _replaced(NO_FIT, {} if asked.strip() == OFF else declared)
    if asked.strip() in (MODEL, OFF, ""):
        return fit
    overrides: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in asked.split(","))):
        key, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"{item!r} is neither {MODEL}, {OFF} nor key=value")
        overrides[key.strip()] = _parsed(key.strip(), value.strip())
    return _replaced(fit, overrides)


def _replaced(fit: ModelFit, changes: Mapping[str, Any]) -> ModelFit:
    for key in changes:
        _kind(key)
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()}
    return replace(fit, **values)


def _parsed(key: str, value: str) -> bool | int | tuple[str, ...]:
    read = _kind(key)
    try:
        return read(value)
    except (KeyError, ValueError):
        raise ValueError(f"{key}={value} is not {EXPECTED[type(getattr(NO_FIT, key))]}") from None


def _kind(key: str) -> Callable[[str], bool | int | tuple[str, ...]]:
    """How a key's value is read; `ValueError` names a key that there is not."""
    if key not in KEYS:
        raise ValueError(f"there is no fit key {key!r}; there are {', '.join(KEYS)}")
    return READERS[type(getattr(NO_FIT, key))]


def _switch(value: str) -> bool:
    return WORDS[value.lower()]


def _count(value: str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(value)
    return number


def _list(value: str) -> tuple[str, ...]:
    return tuple(filter(None, value.split(LIST_JOIN)))


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return LIST_JOIN.join(value) if isinstance(value, list) else str(value)


KEYS = tuple(field.name for field in fields(ModelFit))
READERS: Mapping[type, Callable[[str], Any]] = {bool: _switch, int: _count, tuple: _list}
EXPECTED = {bool: "on or off", int: "a whole number, 0 or more", tuple: "a list joined by +"}
