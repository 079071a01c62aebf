"""A client's JSON Schema, checked and rewritten into the part of the language that llguidance enforces exactly.

The library leaves out silently what its dialect does not know, and lets a schema switch its checks off (`x-guidance`),
so it gets nothing as the client wrote it. Here each schema that the root reaches is copied keyword by keyword: those
with an effect are checked and kept, the ones that cannot be enforced are refused by name, annotations and unknown
formats fall away (API-128). Every `$ref` is resolved, never by a fetch, and points to an entry of one flat `$defs`.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn, TypeVar

from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

from tandem.engine.errors import BadInput
from tandem.engine.grammar.nodes import TYPES, Comparer, Node, endless, levels, mapped, target

__all__ = ["FORMATS", "REFUSED", "rewritten", "schema_grammar"]

MAX_BYTES: Final = 512 * 1024
"""Largest schema as compact JSON. This and the next three bounds are decided for API-128."""
MAX_SCHEMAS: Final = 10_000
"""Most schemas that the root may reach."""
MAX_LEVELS: Final = 600
"""Most levels of nesting, those of all definitions together: the library recurses through them and their references.
It takes up to 5 kB of stack a level, and past the end of the stack (mostly 8 MB) the process would be gone."""
MAX_SIZE: Final = 1_000_000
"""Largest `maxLength`, `minItems` and the like."""
LARGEST: Final = 2**63 - 1024
"""Largest bound of a number that the library can express; a wider one is drawn in to it, which allows less."""

FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
)
"""Values of `format` that are enforced; any other is an annotation."""

REFUSED: Final = (
    frozenset(("not", "if", "then", "else", "contains", "minContains", "maxContains", "uniqueItems", "propertyNames"))
    | frozenset(("dependencies", "dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties"))
    | frozenset(("$dynamicRef", "$recursiveRef", "disallow", "divisibleBy", "extends"))
)
"""Keywords of some draft that can forbid a document in a way that no grammar here can say."""

_NO_EFFECT: Final[Mapping[str, tuple[Any, ...]]] = {
    "uniqueItems": (False,),
    "unevaluatedItems": (True, {}),
    "unevaluatedProperties": (True, {}),
    "propertyNames": (True, {}, {"type": "string"}),
    "dependencies": ({},),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
}
"""Values with which a refused keyword forbids nothing."""

_FLAT: Final = 20
"""Levels after which a nested schema becomes a definition of its own: the library's JSON parser goes 127 deep."""
_WHITESPACE: Final = r"[ \t]|\r?\n[ \t]{0,60}"
"""Between two parts of a document: a blank, or a line break and an indent; so no model can loop in blanks."""
_PLAIN_ESCAPES: Final = 'nrbtf\\"'
_KINDS: Final[Mapping[type, str]] = {dict: "object", list: "list", str: "string"}

T = TypeVar("T")


def schema_grammar(schema: Mapping[str, Any] | bool, param: str) -> str:
    """The grammar of the documents that validate against `schema`, as source in the library's Lark.

    `BadInput` names `param` and the keyword at fault.
    """
    return f"start: %json {json.dumps(rewritten(schema, param))}\n"


def rewritten(schema: Mapping[str, Any] | bool, param: str) -> dict[str, Any]:
    """`schema` as the library gets it: a reference to "0" of its `$defs`, and options in `x-guidance`."""
    try:
        if len(json.dumps(schema, allow_nan=False)) > MAX_BYTES:
            raise BadInput(param, f"the schema is larger than {MAX_BYTES // 1024} kB")
        rewriter = _Rewriter(schema, param)
        definitions = _settled(rewriter.definitions())
        options = {"whitespace_pattern": _WHITESPACE}
        if rewriter.has_open_names:
            # A name spelled with \u is none of those that are taken, and could be one of them written differently.
            options["json_allowed_escapes"] = _PLAIN_ESCAPES
        return {"x-guidance": options, "$ref": "#/$defs/0", "$defs": definitions}
    except RecursionError:
        raise BadInput(param, "the schema is nested too deeply") from None
    except ValueError as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(param, "the schema holds a number that is not JSON") from None


def _settled(definitions: dict[str, Node]) -> dict[str, Node]:
    """What can only be told when every definition is known: what never ends, and which `oneOf` is an `anyOf`."""
    dead = endless(definitions)
    comparer = Comparer(definitions)

    def settle(node: Node) -> Node:
        if isinstance(node, bool):
            return node
        if target(node) in dead:
            return False
        settled = mapped(node, settle)
        if isinstance(settled, bool) or "oneOf" not in settled or "anyOf" in settled:
            return settled
        if not comparer.exclude_each_other(settled["oneOf"]):
            return settled
        return {"anyOf" if key == "oneOf" else key: value for key, value in settled.items()}

    return {name: settle(node) for name, node in definitions.items() if name not in dead or name == "0"}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the client's schema: what a `$ref` is relative to, a JSON pointer, and how deep."""

    resolver: Any
    at: str
    depth: int = 0

    def below(self, step: object) -> _Place:
        return _Place(self.resolver, f"{self.at}/{step}", self.depth + 1)


class _Rewriter:
    """One schema's walk. `has_open_names`: some object may have names beside those that its schema lists."""

    def __init__(self, schema: Any, param: str) -> None:
        self._param = param
        self._specification = specification_with(_text(schema, "$schema"), default=DRAFT202012)
        base = _text(schema, "$id")
        registry = Registry().with_resource(base, self._specification.create_resource(schema))
        self._names: dict[int, str] = {}
        self._pending: deque[tuple[str, Any, _Place]] = deque()
        self._count = 0
        self.has_open_names = False
        self._name(schema, _Place(registry.resolver(base), "#"))

    def definitions(self) -> dict[str, Node]:
        """Every schema that the root refers to, by name; the root itself is "0"."""
        found: dict[str, Node] = {}
        while self._pending:
            name, node, place = self._pending.popleft()
            found[name] = self._schema(node, place)
        if sum(map(levels, found.values())) > MAX_LEVELS:
            raise BadInput(
                self._param, f"the schema and what its `$ref`s lead to nest more than {MAX_LEVELS} levels deep"
            )
        return found

    def _name(self, node: Any, place: _Place) -> str:
        known = self._names.get(id(node))  # every node is part of the client's schema, which outlives this walk
        if known is None:
            known = self._names[id(node)] = str(len(self._names))
            self._pending.append((known, node, place))
        return known

    def _schema(self, node: Any, place: _Place) -> Node:
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            self._refuse(place, "is no schema: that is an object, true or false")
        self._count += 1
        if self._count > MAX_SCHEMAS:
            raise BadInput(self._param, f"the schema has more than {MAX_SCHEMAS} schemas in it")
        if place.depth > _FLAT:
            return {"$ref": f"#/$defs/{self._name(node, replace(place, depth=0))}"}
        if "$id" in node and place.at != "#":
            place = replace(place, resolver=self._inside(node, place))
        out: dict[str, Any] = {}
        for key, value in node.items():
            if key in REFUSED and value not in _NO_EFFECT.get(key, ()):
                self._refuse(place, f"has `{key}`, which cannot be enforced")
            self._keyword(out, key, value, place.below(key))
        if isinstance(node.get("items"), list) and "additionalItems" in node:
            out["items"] = self._schema(node["additionalItems"], place.below("additionalItems"))
        self._finish(out, place)
        return out

    def _keyword(self, out: dict[str, Any], key: str, value: Any, place: _Place) -> None:
        """Copy one keyword with an effect; any other is an annotation."""
        match key:
            case "additionalProperties":
                out[key] = self._schema(value, place)
            case "items" if not isinstance(value, list):
                out[key] = self._schema(value, place)
            case "items" | "prefixItems":  # the list form of `items` is the older name of `prefixItems`
                out["prefixItems"] = self._schemas(value, place)
            case "anyOf" | "oneOf" | "allOf":
                out[key] = self._schemas(value, place)
            case "properties" | "patternProperties":
                members = self._checked(value, dict, place)
                out[key] = {name: self._schema(each, place.below(name)) for name, each in members.items()}
            case "$ref":
                out[key] = self._reference(self._checked(value, str, place), place)
            case "const":
                out[key] = self._constant(value, place)
            case "enum":
                out[key] = [self._constant(each, place) for each in self._checked(value, list, place)]
            case "type":
                out[key] = self._types(value, place)
            case "required":
                out[key] = [self._checked(name, str, place) for name in self._checked(value, list, place)]
            case "pattern":
                out[key] = self._checked(value, str, place)
            case "format" if value in FORMATS:
                out[key] = value
            case "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties":
                out[key] = self._size(value, place)
            case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
                out[key] = self._bound(value, place, lower=key.endswith("inimum"))
            case "multipleOf":
                out[key] = self._step(value, place)
            case _:
                pass

    def _finish(self, out: dict[str, Any], place: _Place) -> None:
        """What two keywords say together."""
        for key, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            flag = out.get(exclusive)
            if isinstance(flag, bool):  # as in draft 4
                del out[exclusive]
                if flag and key in out:
                    out[exclusive] = out.pop(key)
        if out.get("minProperties", 0) > len(set(out.get("required", ()))) + 1:
            # Names that the schema does not list may come twice, and then count once.
            self._refuse(
                place, "has `minProperties` above the number of required properties and one, which cannot be enforced"
            )
        lists_names = out.get("properties") or out.get("required") or out.get("patternProperties")
        if lists_names and out.get("additionalProperties") is not False:
            self.has_open_names = True

    def _schemas(self, value: Any, place: _Place) -> list[Node]:
        return [self._schema(each, place.below(at)) for at, each in enumerate(self._checked(value, list, place))]

    def _reference(self, reference: str, place: _Place) -> str:
        try:
            found = place.resolver.lookup(reference)
        except (Unresolvable, ValueError, TypeError, AttributeError, LookupError):
            # The last four are what the search for ids and anchors meets in a schema that is none.
            place_of = (
                "leads nowhere" if reference.startswith("#") else "leads out of the schema, and nothing is fetched"
            )
            self._refuse(place, place_of)
        return f"#/$defs/{self._name(found.contents, _Place(found.resolver, reference))}"

    def _inside(self, node: dict[str, Any], place: _Place) -> Any:
        try:
            return place.resolver.in_subresource(self._specification.create_resource(node))
        except (ValueError, TypeError, AttributeError):
            self._refuse(place, "has an `$id` that is no address")

    def _constant(self, value: Any, place: _Place) -> Any:
        """A value that is compared exactly."""
        match value:
            case bool() | str() | None:
                pass
            case int() if abs(value) > LARGEST or int(float(value)) != value:
                self._refuse(place, "holds a number too large to be compared exactly")
            case list():
                for each in value:
                    self._constant(each, place)
            case dict():
                for each in value.values():
                    self._constant(each, place)
            case _:
                pass
        return value

    def _types(self, value: Any, place: _Place) -> list[str]:
        names = [value] if isinstance(value, str) else self._checked(value, list, place)
        for name in names:
            if not isinstance(name, str) or (name not in TYPES and name != "integer"):
                self._refuse(place, "is no type of JSON")
        return names

    def _size(self, value: Any, place: _Place) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 0:
            self._refuse(place, "is no whole number from 0 on")
        if value > MAX_SIZE:
            self._refuse(place, f"is above {MAX_SIZE}")
        return int(value)

    def _bound(self, value: Any, place: _Place, *, lower: bool) -> Any:
        """The bound as a float can hold it: itself, else the next that allows less."""
        if isinstance(value, bool):
            return value
        if not isinstance(value, int | float):
            self._refuse(place, "is no number")
        if (value > LARGEST) if lower else (value < -LARGEST):
            self._refuse(place, "is too far from 0 to be enforced")
        value = max(value, -LARGEST) if lower else min(value, LARGEST)
        near = float(value)
        if (near < value) if lower else (near > value):
            near = math.nextafter(near, math.inf if lower else -math.inf)
        return value if near == value else near

    def _step(self, value: Any, place: _Place) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
            self._refuse(place, "is no number above 0 that can be enforced")
        return value

    def _checked(self, value: Any, kind: type[T], place: _Place) -> T:
        if not isinstance(value, kind):
            self._refuse(place, f"is no {_KINDS[kind]}")
        return value

    def _refuse(self, place: _Place, why: str) -> NoReturn:
        raise BadInput(self._param, f"{place.at[:200]} {why}")


def _text(schema: Any, key: str) -> str:
    value = schema.get(key, "") if isinstance(schema, Mapping) else ""
    return value if isinstance(value, str) else ""
