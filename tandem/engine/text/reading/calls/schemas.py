"""What a tool's schema says about the type of a parameter (API-109).

Only what decides a value's type is read: `type`, `nullable`, `enum`, `const`, `$ref` inside the schema, `anyOf`,
`oneOf` and `allOf`. A schema a client wrote badly is read as far as it makes sense and never raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias
from urllib.parse import unquote

__all__ = ["ToolSchemas", "Types", "types_of"]

Types: TypeAlias = frozenset[str] | None
"""Names of the JSON types a value may have; `number` comes with `integer`. None: the schema does not say."""

_KNOWN = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
_DEEPEST = 64
"""Schemas nested deeper than this say nothing; it is far beyond any real one and keeps the recursion bounded."""


class ToolSchemas:
    """The parameters of the offered tools by name; of two tools with one name the first counts (API-104)."""

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._roots: dict[str, Any] = {}
        for tool in tools:
            function = tool["function"]
            self._roots.setdefault(function["name"], function.get("parameters"))

    def types(self, name: str, key: str) -> Types:
        """The types of a parameter; None for an unknown tool or parameter."""
        root = self._roots.get(name)
        return types_of(_property(root, key, root, 0), root)


def types_of(schema: Any, root: Any) -> Types:
    """The types that `schema` admits; `$ref` is looked up in `root`."""
    return _Reading(root).types(schema, 0)


class _Reading:
    """One reading of a schema. Each `$ref` is followed once, so one that leads back to itself ends."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._refs: dict[str, Types] = {}

    def types(self, schema: Any, depth: int) -> Types:
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return None
        rules = [_stated(schema), _listed(schema)]
        if isinstance(ref := schema.get("$ref"), str):
            rules.append(self._referred(ref, depth + 1))
        unions = [branches for word in ("anyOf", "oneOf") if (branches := _branches(schema, word))]
        rules += [_any(self.types(each, depth + 1) for each in branches) for branches in unions]
        rules += [self.types(each, depth + 1) for each in _branches(schema, "allOf")]
        found = reduce(_both, rules)
        # OpenAPI's way to say `or null`.
        return found | {"null"} if found is not None and schema.get("nullable") is True else found

    def _referred(self, ref: str, depth: int) -> Types:
        if ref not in self._refs:
            self._refs[ref] = frozenset()  # the least answer, for a reference that leads back here
            self._refs[ref] = self.types(_resolve(ref, self._root), depth)
        return self._refs[ref]


def _stated(schema: Mapping[str, Any]) -> Types:
    stated = schema.get("type")
    if stated is None:
        # Strictly these words rule nothing out; who writes them means an object or a list.
        return frozenset({"object"}) if "properties" in schema else frozenset({"array"}) if "items" in schema else None
    names = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    types = frozenset(name for name in names if isinstance(name, str)) & _KNOWN
    if not types:
        return None
    return types | {"integer"} if "number" in types else types


def _listed(schema: Mapping[str, Any]) -> Types:
    """The types of the values that `enum` or `const` lists."""
    if "const" in schema:
        return _type_of(schema["const"])
    values = schema.get("enum")
    return frozenset().union(*map(_type_of, values)) if isinstance(values, list) and values else None


def _type_of(value: Any) -> frozenset[str]:
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer"})
        case float():
            return frozenset({"number", "integer"})
        case str():
            return frozenset({"string"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})


def _both(one: Types, other: Types) -> Types:
    return other if one is None else one if other is None else one & other


def _any(branches: Iterable[Types]) -> Types:
    union: frozenset[str] = frozenset()
    for types in branches:
        if types is None:
            return None
        union |= types
    return union


def _branches(schema: Mapping[str, Any], word: str) -> list[Any]:
    branches = schema.get(word)
    return branches if isinstance(branches, list) else []


def _resolve(ref: str, root: Any) -> Any:
    """The schema at a JSON pointer (RFC 6901) into the root; None for any other reference."""
    if not ref.startswith("#"):
        return None
    found = root
    for part in unquote(ref[1:]).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def _property(schema: Any, key: str, root: Any, depth: int) -> Any:
    """The schema of a property, also behind the references and branches of an object's schema."""
    if not isinstance(schema, Mapping) or depth > 8:
        return None
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        return properties[key]
    inner = [each for word in ("allOf", "anyOf", "oneOf") for each in _branches(schema, word)[:16]]
    if isinstance(ref := schema.get("$ref"), str):
        inner.append(_resolve(ref, root))
    found = (_property(each, key, root, depth + 1) for each in inner)
    return next((each for each in found if each is not None), None)
