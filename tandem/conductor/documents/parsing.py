"""From a JSON value to a document, or the path of what is wrong with it (CFG-004)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from tandem.conductor.documents.deciders import Deciders
from tandem.conductor.documents.documents import Body, Kind
from tandem.conductor.documents.monitor import MonitorDocument
from tandem.conductor.documents.packages import Packages
from tandem.conductor.documents.profiles import Profile
from tandem.conductor.documents.residency import Residency
from tandem.conductor.documents.roles import Roles
from tandem.conductor.documents.router import Router
from tandem.conductor.documents.settings import SettingsDocument

__all__ = ["TYPES", "DocumentError", "parse"]

TYPES: Mapping[Kind, Any] = MappingProxyType(
    {
        "profiles": Profile,
        "router": Router,
        "roles": Roles,
        "packages": Packages,
        "settings": SettingsDocument,
        "monitor": MonitorDocument,
        "deciders": Deciders,
        "residency": Residency,
    }
)

FIELD = re.compile(r"(?:unknown|required) field `(?P<name>.*)`", re.DOTALL)
STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\.\.\.)\]")
ANY_KEY = "..."
"""How msgspec writes the place of a value within a mapping."""
QUOTED = 200

Steps: TypeAlias = list[str | int]
"""Keys and indices, from the document down."""


class DocumentError(Exception):
    """A document was refused; `path` is the failing key, `""` the document itself."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


def parse(kind: Kind, body: Any) -> Body:
    """The document in `body`, a decoded JSON value. Raises `DocumentError` with the path of the failing key."""
    found: Body = convert(body, TYPES[kind])
    return found


def convert(body: Any, type_: Any) -> Any:
    """`body` as `type_`, which msgspec knows. Raises `DocumentError`."""
    try:
        return msgspec.convert(body, type_)
    except msgspec.ValidationError as error:
        steps, what = _located(str(error))
        path = _path(_with_keys(body, type_, steps))
        raise DocumentError(path[:QUOTED], what[:QUOTED]) from None


def _located(said: str) -> tuple[Steps, str]:
    """Place and cause out of msgspec's sentence, `… - at `$.a.b[0]``."""
    what, _, place = said.partition(" - at `")
    is_key = place.startswith("key` in `")
    place = place.removeprefix("key` in `").removesuffix("`").removeprefix("$")
    steps: Steps = [int(index) if index.isdigit() else index or name for name, index in STEP.findall(place)]
    if is_key:
        steps.append(ANY_KEY)
    field = FIELD.search(what)
    if field is not None:
        steps.append(field["name"])
    return steps, what


def _with_keys(body: Any, type_: Any, steps: Steps) -> Steps:
    """`steps` with every `...` replaced by the key at fault: alone in its mapping it is still refused."""
    named: Steps = []
    for step in steps:
        if step == ANY_KEY:
            keys = _at(body, named)
            found = next((key for key in keys if not _fits(_with_only(body, named, key), type_)), None)
            if found is None:  # wrong only together, which msgspec has no rule for
                break
            body, step = _with_only(body, named, found), found
        named.append(step)
    return named


def _fits(body: Any, type_: Any) -> bool:
    try:
        msgspec.convert(body, type_)
    except msgspec.ValidationError:
        return False
    return True


def _at(body: Any, steps: Steps) -> Any:
    for step in steps:
        body = body[step]
    return body


def _with_only(body: Any, steps: Steps, key: str) -> Any:
    """A copy of `body` whose mapping at `steps` holds `key` alone."""
    if not steps:
        return {key: body[key]}
    changed = body.copy()
    changed[steps[0]] = _with_only(body[steps[0]], steps[1:], key)
    return changed


def _path(steps: Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
