"""The texts that a call's parameter may have between its tags: what the codec reads as a value of its schema (ENG-090).

A string stands as it is, so its language is a terminal; a value of another type is JSON by its schema. Where the schema
allows both, the codec takes for another type what is its canonical JSON (API-109): such a text is kept out of the
strings where it need not validate, and let in beside them where it does.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, Final

from jsonschema import Draft202012Validator
from llguidance import LLMatcher, regex_to_lark

from tandem.engine.grammar.nodes import Definitions, Node, mapped, target
from tandem.engine.text.reading.calls.schemas import Types
from tandem.engine.text.reading.calls.values import typed_as

__all__ = ["SHARED", "Unwritable", "value_rule"]

SHARED: Final = r"""VALUE: TEXT CLOSE
CLOSE: "\n</parameter>\n"
TEXT: /(?s:.*)/ & ~/(?s:.*)(<\/(parameter|function|tool_call)>|<(parameter|function)=)(?s:.*)/ & ~/(?s:.*)\r/
"""
"""Terminals that `value_rule` refers to. `TEXT` has no tag that could end it, nor what belongs to a line break."""

MOST_ALTERNATIVES: Final = 64
_TAGS: Final = re.compile(r"</(parameter|function|tool_call)>|<(parameter|function)=|\r\Z")
_INTEGERS: Final = "/0|-?[1-9][0-9]*/"
_FLOATS: Final = r"/-?[0-9]+\.[0-9]+/"
_SHORT_FLOATS: Final = r"/-?(0|[1-9][0-9]{0,8})\.[0-9]{0,3}[1-9]/"
"""Of so few digits that the shortest form of the number is this text."""
_READ_AS: Final[Mapping[str, str]] = {
    "null": '"null"',
    "boolean": '"true" | "false"',
    "integer": _INTEGERS,
    "number": _FLOATS,
    "array": r"/\[(?s:.*)/",
    "object": r"/\{(?s:.*)/",
}
"""By type, at least the texts that the codec may take for it in a union with string."""
_WRITTEN: Final[Mapping[str, str]] = {
    "null": _READ_AS["null"],
    "boolean": _READ_AS["boolean"],
    "integer": _INTEGERS,
    "number": _SHORT_FLOATS,
}
"""By type, texts that the codec does take for it. Whether a list or an object is canonical no terminal can tell."""
_NARROWING: Final[Mapping[str, frozenset[str]]] = {
    "integer": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
    "number": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
    "string": frozenset(("pattern", "minLength", "maxLength")),
    "array": frozenset(("items", "prefixItems", "minItems", "maxItems")),
    "object": frozenset(
        ("properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties")
    ),
}
"""Keywords that rule out some value of a type."""


class Unwritable(ValueError):
    """The schema has no value that the form can carry, or none that can be told; the message says why."""


def value_rule(name: str, node: Node, definitions: Definitions, types: Types, options: Mapping[str, Any]) -> list[str]:
    """Lark lines of rule `name`: a value's text, and the closing tag on a line of its own.

    `node` is a rewritten schema, its references among `definitions`; `types` is what the codec reads there; `options`
    are the library's for JSON. Names of other rules and terminals begin with `name`, in capitals those of terminals.
    """
    schema = _Schema(node, definitions)
    if types and "string" not in types:
        return [f"{name}: {name}_json CLOSE", f"{name}_json: %json {schema.json(options)}"]
    others = (types or frozenset()) - {"string"}
    return _Union(name, schema, sorted(others)).lines()


class _Union:
    """A value that may be a string, and perhaps of `others`."""

    def __init__(self, name: str, schema: _Schema, others: Sequence[str]) -> None:
        self._name = name
        self._schema = schema
        self._others = others
        self._is_any = schema.is_full("string")
        self._narrowed = [kind for kind in others if not schema.is_full(kind)]

    def lines(self) -> list[str]:
        if self._is_any and not self._narrowed:
            return [f"{self._name}: VALUE"]
        own = f"{self._name}_text".upper().replace("_", "")
        texts = self._texts()
        lists = self._lists() if texts else []
        if not texts and not lists:
            raise Unwritable("no value that the call's form can carry satisfies it")
        rule = [f"{self._name}: {own}V" + (f" | {self._name}_json CLOSE" if lists else "")]
        return [*rule, f"{own}V: {own} CLOSE", f"{own}: {' | '.join(texts)}", *lists]

    def _texts(self) -> list[str]:
        """Alternatives of the terminal."""
        named = (*self._literals(), *self._constants())
        texts = [_json(text) for text in dict.fromkeys(named) if not _TAGS.search(text)]
        out = "".join(f" & ~({_READ_AS[kind]})" for kind in self._narrowed)
        texts += [f"({text}) & TEXT{out}" for text in self._schema.texts()]
        if not self._is_any:
            texts += [f"({_WRITTEN[kind]}) & TEXT" for kind in self._others if kind in _WRITTEN.keys() - self._narrowed]
        return texts

    def _literals(self) -> list[str]:
        """Strings the schema names that are read back as themselves."""
        return [text for text in self._schema.strings() if typed_as(text, self._read_types) == _json(text)]

    @property
    def _read_types(self) -> frozenset[str]:
        return frozenset(("string", *self._others))

    def _constants(self) -> Iterator[str]:
        """Values of the other types that the schema names, or may have, as they are written."""
        for value in (None, True, False, *self._schema.numbers()):
            text = json.dumps(value)
            if typed_as(text, self._read_types) == text and self._schema.allows(value):
                yield text

    def _lists(self) -> list[str]:
        """Lists and objects beside any string: no string begins like one, so the first byte tells them apart."""
        kinds = [kind for kind in self._narrowed if kind in ("array", "object")]
        if not kinds or not self._is_any:
            return []
        # One that is not written canonically is read as a string, and any string will do.
        options = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
        line = f"{self._name}_json: %json {self._schema.json(options, kinds)}"
        return [line] if not LLMatcher.validate_grammar(f"start: {self._name}_json\n{line}\n") else []


@dataclass(frozen=True, slots=True)
class _Schema:
    """A rewritten schema with what its references lead to."""

    node: Node
    definitions: Definitions

    def json(self, options: Mapping[str, Any], kinds: Sequence[str] = ()) -> str:
        """As the library takes it in a grammar; only values of `kinds`, where given."""
        node = {"not": {}} if self.node is False else {} if self.node is True else self.node
        root: dict[str, Any] = {"allOf": [node, {"type": list(kinds)}]} if kinds else dict(node)
        reached: dict[str, Node] = {}
        self._reach(root, reached)
        return json.dumps({"x-guidance": options} | root | {"$defs": reached})

    def _reach(self, node: Node, reached: dict[str, Node]) -> None:
        """Collect the definitions that the node leads to."""
        if not isinstance(node, bool) and (name := target(node)) is not None and name not in reached:
            reached[name] = self.definitions[name]
            self._reach(reached[name], reached)

        def into(child: Node) -> Node:
            self._reach(child, reached)
            return child

        mapped(node, into)

    def allows(self, value: Any) -> bool:
        """Whether the value validates."""
        return bool(_validator(self).is_valid(value))

    def is_full(self, kind: str) -> bool:
        """Whether it is plain that every value of the type validates."""
        return self._is_full(self.node, kind, frozenset())

    def _is_full(self, node: Node, kind: str, seen: frozenset[str]) -> bool:
        if isinstance(node, bool):
            return node
        types = node.get("type")
        types = [types] if isinstance(types, str) else types
        if types is not None and kind not in types and not (kind == "integer" and "number" in types):
            return False
        if (
            "enum" in node
            or "const" in node
            or "oneOf" in node
            or not _NARROWING.get(kind, frozenset()).isdisjoint(node)
        ):
            return False
        name = target(node)
        if name is not None and (name in seen or not self._is_full(self.definitions[name], kind, seen | {name})):
            return False
        if "anyOf" in node and not any(self._is_full(each, kind, seen) for each in node["anyOf"]):
            return False
        return all(self._is_full(each, kind, seen) for each in node.get("allOf", ()))

    def strings(self) -> list[str]:
        """Strings that `enum` and `const` name and that validate, each once."""
        return [value for value in self._named(str) if self.allows(value)]

    def numbers(self) -> list[Any]:
        return [value for value in self._named(int, float) if not isinstance(value, bool)]

    def _named(self, *kinds: type) -> list[Any]:
        found: dict[str, Any] = {}
        for node in self._reached(self.node, set()):
            values = [*node.get("enum", ()), *([node["const"]] if "const" in node else ())]
            found |= {_json(value): value for value in values if isinstance(value, kinds)}
        return list(found.values())

    def _reached(self, node: Node, seen: set[str]) -> Iterator[dict[str, Any]]:
        """The schemas that speak of the value itself."""
        if isinstance(node, bool):
            return
        yield node
        for key in ("anyOf", "oneOf", "allOf"):
            for each in node.get(key, ()):
                yield from self._reached(each, seen)
        if (name := target(node)) is not None and name not in seen:
            seen.add(name)
            yield from self._reached(self.definitions[name], seen)

    def texts(self) -> list[str]:
        """The strings that validate, those apart that the schema names: alternatives of a terminal."""
        return [strings.terminal() for strings in self._strings(self.node, frozenset()) if not strings.are_named]

    def _strings(self, node: Node, seen: frozenset[str]) -> list[_Strings]:
        if isinstance(node, bool):
            return [_Strings()] if node else []
        types = node.get("type", "string")
        if types != "string" and "string" not in types:
            return []
        if "enum" in node or "const" in node:
            return [_Strings(are_named=True)]
        together = [[_Strings.of(node)]]
        if (name := target(node)) is not None:
            together.append([] if name in seen else self._strings(self.definitions[name], seen | {name}))
        together += [self._strings(each, seen) for each in node.get("allOf", ())]
        if "anyOf" in node:
            together.append([strings for each in node["anyOf"] for strings in self._strings(each, seen)])
        if "oneOf" in node:
            options = [strings for each in node["oneOf"] for strings in self._strings(each, seen)]
            if len(options) > 1:
                raise Unwritable("`oneOf` has alternatives that cannot be told apart: use `anyOf`")
            together.append(options)
        if math.prod(map(len, together)) > MOST_ALTERNATIVES:
            raise Unwritable(f"it has more than {MOST_ALTERNATIVES} alternatives")
        return [strings for each in product(*together) if not (strings := reduce(_Strings.also, each)).is_empty]


@dataclass(frozen=True, slots=True)
class _Strings:
    """Some strings: as long as this, and each pattern found in them; or those that `enum` or `const` names.

    `format` has no part in it: beside raw text it is an annotation.
    """

    low: int = 0
    high: int | None = None
    patterns: frozenset[str] = frozenset()
    are_named: bool = False

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> _Strings:
        """What the node's own keywords ask for."""
        patterns = frozenset([node["pattern"]] if "pattern" in node else [])
        return cls(node.get("minLength", 0), node.get("maxLength"), patterns)

    def also(self, other: _Strings) -> _Strings:
        highs = [high for high in (self.high, other.high) if high is not None]
        return _Strings(
            max(self.low, other.low),
            min(highs) if highs else None,
            self.patterns | other.patterns,
            self.are_named or other.are_named,
        )

    @property
    def is_empty(self) -> bool:
        """No string is one of them. Of patterns the library can tell, where they stand in a schema."""
        if self.are_named or self.high is None:
            asked = len(self.patterns)
        elif self.high < self.low:
            return True
        else:
            asked = len(self.patterns) + 1
        return asked > 1 and "nsatisfiable" in LLMatcher.validate_grammar(f"start: %json {json.dumps(self._schema)}")

    @property
    def _schema(self) -> Mapping[str, Any]:
        length = {"minLength": self.low} | ({} if self.high is None else {"maxLength": self.high})
        return {"allOf": [{"type": "string"} | length, *({"pattern": pattern} for pattern in self.patterns)]}

    def terminal(self) -> str:
        parts = [_searched(pattern) for pattern in sorted(self.patterns)]
        if self.low or self.high is not None:
            parts.append(f"/(?s:.{{{self.low},{'' if self.high is None else self.high}}})/")
        return " & ".join(parts) or "TEXT"


def _searched(pattern: str) -> str:
    """A terminal of the texts that `pattern` is found in; an anchor is known at the ends of its alternatives."""
    found = []
    for option in _options(pattern):
        body = option.removeprefix("^")
        front = "" if body != option else "(?s:.*)"
        is_ended = body.endswith("$") and (len(body) - len(body[:-1].rstrip("\\"))) % 2 == 1
        found.append(f"{front}(?:{body[:-1] if is_ended else body}){'' if is_ended else '(?s:.*)'}")
    return f"/{regex_to_lark('|'.join(found), use_ascii='dw')}/".replace("\n", "\\n")


def _options(pattern: str) -> list[str]:
    """The pattern's outermost alternatives."""
    options, depth, is_class, start = [], 0, False, 0
    for match in re.finditer(r"\\.|[\[\]()|]", pattern, re.DOTALL):
        mark = match[0]
        if is_class:
            is_class = mark != "]"
        elif mark == "[":
            is_class = True
        elif mark in "()":
            depth += 1 if mark == "(" else -1
        elif mark == "|" and depth == 0:
            options.append(pattern[start : match.start()])
            start = match.end()
    return [*options, pattern[start:]]


def _validator(schema: _Schema) -> Draft202012Validator:
    root = schema.node if isinstance(schema.node, bool) else schema.node | {"$defs": schema.definitions}
    return Draft202012Validator(root)


def _json(value: Any) -> str:
    """A value as JSON; a string's is also a literal of the grammar."""
    return json.dumps(value, ensure_ascii=False)
