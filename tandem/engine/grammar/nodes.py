"""Questions about rewritten schemas (`schemas.py`): can two of them share a document, and can one be ended at all.

Both answers are safe rather than complete: "not shown" where it would take more than a look at types, constants,
required properties and references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

__all__ = ["TYPES", "Comparer", "Definitions", "Node", "endless", "levels", "mapped", "target"]

Node: TypeAlias = "dict[str, Any] | bool"
"""A schema that holds keywords with an effect only; a `$ref` is `#/$defs/` and a name."""
Definitions: TypeAlias = "Mapping[str, Node]"

TYPES: Final = frozenset(("null", "boolean", "number", "string", "array", "object"))
_ONE: Final = frozenset(("items", "additionalProperties"))
_LISTED: Final = frozenset(("anyOf", "oneOf", "allOf", "prefixItems"))
_NAMED: Final = frozenset(("properties", "patternProperties"))
"""The keywords that hold schemas: one, a list of them, or one for each name."""
_REF: Final = "#/$defs/"
_ROUNDS: Final = 30
"""Most passes over the definitions; one or two do, unless their order goes back and forth on purpose."""
MOST_COMPARISONS: Final = 20_000
_LOOKS: Final = 8
"""How deep a comparison looks; each level may compare many pairs."""


def target(node: dict[str, Any]) -> str | None:
    """The name of the definition that the node refers to."""
    reference = node.get("$ref")
    return None if reference is None else reference.removeprefix(_REF)


def mapped(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with `change` made to each schema directly in it."""
    if isinstance(node, bool):
        return node
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key in _ONE:
            out[key] = change(value)
        elif key in _LISTED:
            out[key] = [change(each) for each in value]
        elif key in _NAMED:
            out[key] = {name: change(each) for name, each in value.items()}
        else:
            out[key] = value
    return out


def parts(node: dict[str, Any]) -> Iterator[Node]:
    """The schemas directly in the node."""
    for key, value in node.items():
        if key in _ONE:
            yield value
        elif key in _LISTED:
            yield from value
        elif key in _NAMED:
            yield from value.values()


def levels(node: Node) -> int:
    """How deep schemas nest in the node, itself and a reference included."""
    if isinstance(node, bool):
        return 1
    return 1 + max(map(levels, parts(node)), default=0) + ("$ref" in node)


def endless(definitions: Definitions) -> frozenset[str]:
    """The definitions without a finite document: each would need a smaller one of itself."""
    ended: set[str] = set()
    names = [*definitions]
    for _ in range(_ROUNDS):
        names.reverse()  # a definition mostly comes before those it refers to
        before = len(ended)
        for name in names:
            if name not in ended and _ends(definitions[name], ended):
                ended.add(name)
        if len(ended) == before:
            break
    return frozenset(definitions) - ended


def _ends(node: Node, ended: set[str]) -> bool:
    """Whether the node has a finite document if the definitions in `ended` do. True where something else forbids it."""
    if isinstance(node, bool):
        return True
    name = target(node)
    if name is not None and name not in ended:
        return False
    if not all(_ends(each, ended) for each in node.get("allOf", ())):
        return False
    for key in ("anyOf", "oneOf"):
        if node.get(key) and not any(_ends(each, ended) for each in node[key]):
            return False
    types = _types(node)
    return not types or any(_type_ends(node, kind, ended) for kind in types)


def _type_ends(node: dict[str, Any], kind: str, ended: set[str]) -> bool:
    if kind == "object":
        properties = node.get("properties", {})
        return all(_ends(properties.get(name, True), ended) for name in node.get("required", ()))
    if kind == "array":
        first = node.get("prefixItems", [])
        needed = node.get("minItems", 0)
        return all(_ends(each, ended) for each in first[:needed]) and (
            needed <= len(first) or _ends(node.get("items", True), ended)
        )
    return True


class Comparer:
    """Tells alternatives apart, up to a number of comparisons that bounds the time for a whole schema."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._left = MOST_COMPARISONS

    def exclude_each_other(self, options: Sequence[Node]) -> bool:
        """Whether no document can satisfy two of `options`: then `oneOf` says the same as `anyOf`."""
        return self._are_tagged(options) or all(
            self._are_disjoint(one, other, _LOOKS) for at, one in enumerate(options) for other in options[at + 1 :]
        )

    def _are_tagged(self, options: Sequence[Node]) -> bool:
        """Whether all of them require one property, and each has values for it that no other has."""
        nodes = [self._resolved(option) for option in options]
        if not nodes or not all(node.get("type") == ["object"] for node in nodes):
            return False
        for name in nodes[0].get("required", ()):
            requiring = [node for node in nodes if name in node.get("required", ())]
            tags = [_values(self._resolved(_property(node, name))) for node in requiring]
            values = [value for tag in tags for value in tag or ()]
            if len(tags) == len(nodes) and all(tags) and all(isinstance(value, str) for value in values):
                return len(set(values)) == len(values)
        return False

    def _resolved(self, node: Node) -> dict[str, Any]:
        """The node, or what it is nothing but a reference to."""
        for _ in range(_LOOKS):
            if isinstance(node, bool) or node.keys() != {"$ref"}:
                break
            node = self._definitions[node["$ref"].removeprefix(_REF)]
        return {} if isinstance(node, bool) else node

    def _are_disjoint(self, one: Node, other: Node, looks: int) -> bool:
        self._left -= 1
        if looks == 0 or self._left < 0:
            return False
        if isinstance(one, bool) or isinstance(other, bool):
            return one is False or other is False
        if _types(one).isdisjoint(_types(other)):
            return True
        ours, theirs = _values(one), _values(other)
        if ours is not None and theirs is not None:
            return not _share(ours, theirs)
        if _types(one) & _types(other) == {"object"} and self._objects_are_disjoint(one, other, looks - 1):
            return True
        return self._excludes(one, other, looks - 1) or self._excludes(other, one, looks - 1)

    def _excludes(self, node: dict[str, Any], other: Node, looks: int) -> bool:
        """Whether what `node` refers to or combines is disjoint from `other`."""
        name = target(node)
        needed = [*node.get("allOf", ()), *(() if name is None else (self._definitions[name],))]
        if any(self._are_disjoint(part, other, looks) for part in needed):
            return True
        choices = [node[key] for key in ("anyOf", "oneOf") if key in node]
        return any(all(self._are_disjoint(part, other, looks) for part in choice) for choice in choices)

    def _objects_are_disjoint(self, one: dict[str, Any], other: dict[str, Any], looks: int) -> bool:
        """A property that one side requires and that cannot be what both want."""
        for needing, against in ((one, other), (other, one)):
            for name in needing.get("required", ()):
                here, there = _property(needing, name), _property(against, name)
                if there is False or self._are_disjoint(here, there, looks):
                    return True
        return False


def _property(node: dict[str, Any], name: str) -> Node:
    if name in node.get("properties", {}):
        return node["properties"][name]  # type: ignore[no-any-return]
    return not (node.get("additionalProperties") is False and not node.get("patternProperties"))


def _types(node: dict[str, Any]) -> frozenset[str]:
    """The JSON types that the node's own keywords leave; an integer is a number."""
    types = node.get("type", TYPES)
    kinds = frozenset(
        "number" if kind == "integer" else kind for kind in ([types] if isinstance(types, str) else types)
    )
    values = _values(node)
    return kinds if values is None else kinds & frozenset(map(_type, values))


def _values(node: dict[str, Any]) -> list[Any] | None:
    if "const" in node:
        return [node["const"]]
    return node.get("enum")


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _share(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Whether a value may be on both sides, by JSON's equality. Lists and objects are not compared any further."""

    def keys(values: Sequence[Any]) -> set[tuple[str, Any]]:
        return {(_type(value), None if isinstance(value, list | dict) else value) for value in values}

    return not keys(ours).isdisjoint(keys(theirs))
