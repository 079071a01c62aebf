"""The language of tool calls in the strict XML form (ENG-090, API-117): Lark source for llguidance.

One call or more, each of its tags on a line of its own. A call has one of the functions, all required parameters and
any of the others, in the schema's order; parameters that the schema does not list are never needed and not written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from llguidance import LLMatcher

from tandem.engine.errors import BadInput
from tandem.engine.grammar.nodes import Definitions, Node, target
from tandem.engine.grammar.parameters import SHARED, Unwritable, value_rule
from tandem.engine.grammar.schemas import rewritten
from tandem.engine.text.reading.calls.schemas import ToolSchemas

__all__ = ["call_grammar"]

_NAME: Final = re.compile(r"""(?!\s)[^<>\r\n"'`()*\\]{1,200}(?<!\s)""")
"""What the reading side takes for a name in `<function=…>` and `<parameter=…>`."""
_HANDLED: Final = frozenset(("type", "properties", "required", "additionalProperties", "patternProperties"))
"""Keywords of the arguments' schema that a grammar of calls can say."""


def call_grammar(
    tools: Sequence[Mapping[str, Any]], *, names: Sequence[str] | None, limit: int, markers: Mapping[str, int]
) -> str:
    """Lark source of one to `limit` calls of the `tools`, of those in `names` where given.

    `tools` are OpenAI's; of two with one name the first gives the schema. A call marker among `markers` is that one
    token, else text. `BadInput` names `tools` where a schema or a name cannot be expressed.
    """
    functions: dict[str, _Function] = {}
    for at, tool in enumerate(tools):
        name = tool["function"]["name"]
        if name not in functions and (names is None or name in names):
            functions[name] = _Function(f"f{len(functions)}", tool["function"], f"tools[{at}].function")
    if not functions:
        raise BadInput("tools", "none of the tools may be called")
    opener, closer = (name if name in markers else json.dumps(name) for name in ("<tool_call>", "</tool_call>"))
    more = f' ("\\n" call){{0,{limit - 1}}}' if limit > 1 else ""
    lines = [
        f"start: call{more}",
        f'call: {opener} "\\n" ({" | ".join(each.rule for each in functions.values())}) "</function>\\n" {closer}',
    ]
    for function in functions.values():
        lines += function.lines()
    return "\n".join((*lines, SHARED))


class _Function:
    """One function's part of the grammar; the names of its rules begin with `rule`."""

    def __init__(self, rule: str, function: Mapping[str, Any], place: str) -> None:
        self.rule = rule
        self._place = place
        self._name = function["name"]
        self._types = ToolSchemas([{"function": function}])
        self._options: Mapping[str, Any] = {}
        self._definitions: Definitions = {}
        self._read(function.get("parameters"))

    def lines(self) -> list[str]:
        """Its rules."""
        parameters: list[str] = []
        lines: list[str] = []
        for at, (key, node, is_required) in enumerate(self._parameters()):
            rule = f"{self.rule}p{at}"
            parameters.append(rule if is_required else f"{rule}?")
            lines.append(f"{rule}: {self._tag('parameter', key)} {rule}v")
            types = self._types.types(self._name, key)
            try:
                lines += value_rule(f"{rule}v", node, self._definitions, types, self._options)
            except Unwritable as error:
                self._refuse(f"#/properties/{key[:100]}", str(error))
        lines.insert(0, f"{self.rule}: {' '.join((self._tag('function', self._name), *parameters))}")
        if message := LLMatcher.validate_grammar("\n".join((f"start: {self.rule}", *lines, SHARED))):
            self._refuse("parameters", _reason(message))
        return lines

    def _read(self, parameters: Any) -> None:
        """Check and rewrite the schema."""
        if not parameters or parameters is True:
            return
        try:
            root = rewritten(parameters, "tools")
        except BadInput as error:
            self._refuse("parameters", str(error))
        self._options, self._definitions = root["x-guidance"], root["$defs"]

    def _parameters(self) -> Iterator[tuple[str, Node, bool]]:
        """Key, schema and whether it is required, in the schema's order; what no value can satisfy is left out."""
        node = self._object()
        properties: dict[str, Node] = node.get("properties", {})
        required = node.get("required", ())
        others = node.get("additionalProperties", True)
        for key, schema in {**properties, **{key: others for key in required if key not in properties}}.items():
            if schema is not False:
                yield key, schema, key in required
            elif key in required:
                self._refuse(f"#/required/{key[:100]}", "is required and can have no value")

    def _object(self) -> dict[str, Any]:
        """The schema of the arguments, behind its references; it may say what is handled here and no more."""
        node: Node = self._definitions.get("0", {})
        for _ in range(len(self._definitions)):
            if isinstance(node, bool) or (name := target(node)) is None or len(node) > 1:
                break
            node = self._definitions[name]
        if node is True:
            return {}
        if node is False or "object" not in node.get("type", "object"):
            self._refuse("parameters", "is no schema of an object, as the arguments of a call are")
        properties, required = set(node.get("properties", ())), set(node.get("required", ()))
        for pattern in node.get("patternProperties", ()):
            if any(_finds(pattern, key) for key in properties | required):
                self._refuse("parameters", "has `patternProperties` that speak of a listed property")
        few = node.get("minProperties", 0) <= len(required)
        many = node.get("maxProperties", len(properties | required)) >= len(properties | required)
        handled = _HANDLED | ({"minProperties"} if few else set()) | ({"maxProperties"} if many else set())
        for key in node:
            if key not in handled:
                self._refuse("parameters", f"has `{key}` at its top, which cannot be enforced for a call")
        return node

    def _tag(self, kind: str, name: str) -> str:
        """The literal of an opening tag and its line break."""
        if not _NAME.fullmatch(name):
            self._refuse(json.dumps(name[:100]), "is a name that the call's form cannot carry")
        return json.dumps(f"<{kind}={name}>\n", ensure_ascii=False)

    def _refuse(self, place: str, why: str) -> NoReturn:
        raise BadInput("tools", f"{self._place}, {place}: {why}")


def _finds(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:
        return True


def _reason(error: str) -> str:
    """What the library's message means; it itself may quote the schema at length."""
    if "regex" in error:
        return "`pattern` is not a regular expression, or has a look-around or an anchor inside"
    if "nsatisfiable" in error:
        return "no value can satisfy it"
    return "it cannot be turned into a grammar"
