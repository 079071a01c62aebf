"""The field table in code is the field table of the document, and what the parsers do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tandem.http.openai.errors import ApiError
from tandem.http.openai.field_table import CHAT, COMPLETIONS
from tandem.http.openai.fields import CHAT_FIELDS, COMPLETION_FIELDS, Disposition, Field, or_null
from tests.http.openai.documents import validator
from tests.http.openai.samples import ask, complete, tool
from tools.fields_doc import PAGE, page

SPEC = (Path(__file__).parents[3] / "docs/spec/http-api.md").read_text("utf-8")
ROWS = {
    Disposition.HONOURED: "honoured",
    Disposition.ACCEPTED: "accepted without effect",
    Disposition.REFUSED: "refused, 400 naming the field",
    Disposition.EXTENSION: "extensions read",
}


def cells(row: str) -> list[str]:
    [line] = [line for line in SPEC.splitlines() if line.startswith(f"| {row} |")]
    return line.split("|")[2:4]


def names(cell: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", cell))


def thinking_paths() -> set[str]:
    section = SPEC.split("## 13. Thinking budgets")[1].split("| Word |")[0]
    words = ("enabled", "adaptive", "auto", "disabled")
    return {name for name in re.findall(r"`([a-z_.]+)`", section) if name not in words}


@pytest.mark.parametrize("disposition", Disposition)
@pytest.mark.parametrize("column", [0, 1])
def test_table_is_the_documents(disposition: Disposition, column: int) -> None:
    row = cells(ROWS[disposition])
    expected = names(row[column])
    if column and disposition is Disposition.ACCEPTED:
        assert row[1].strip() == "the same fields"
        expected = names(row[0])
    if disposition is Disposition.EXTENSION and column == 0:
        assert "the thinking shapes of section 13" in row[0]
        expected |= {path.partition(".")[0] for path in thinking_paths()} - names(cells("honoured")[0])
    table = (CHAT_FIELDS, COMPLETION_FIELDS)[column]
    assert {name for name, row in table.items() if row.disposition is disposition} == expected


def test_thinking_shapes_are_the_documents() -> None:
    read = {row.name for row in CHAT if row.disposition in (Disposition.HONOURED, Disposition.EXTENSION)}
    assert thinking_paths() <= read


@pytest.mark.parametrize("rows", [CHAT, COMPLETIONS])
def test_rows_are_whole(rows: tuple[Field, ...]) -> None:
    names = [row.name for row in rows]
    assert len(set(names)) == len(names)
    for row in rows:
        assert row.ids
        assert all(f"**{each}**" in SPEC for each in row.ids)
        assert row.meaning.endswith(".")
        assert "|" not in row.meaning
        parent = row.name.rpartition(".")[0]
        assert not parent or parent in names[: names.index(row.name)]
        jsonschema.Draft202012Validator.check_schema(or_null(row.schema))


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run make docs"
    assert all(f"| `{row.name}` |" in page() for row in (*CHAT, *COMPLETIONS))


READ = (Disposition.HONOURED, Disposition.EXTENSION)
NEEDED: Mapping[str, dict[str, Any]] = {
    "top_logprobs": {"logprobs": True},
    "tool_choice": {"tools": [tool()]},
    "response_format.type": {"response_format": {"json_schema": {"schema": {"type": "object"}}}},
    "response_format.json_schema": {"response_format": {"type": "json_schema"}},
    "response_format.json_schema.schema": {"response_format": {"type": "json_schema"}},
}
"""What a field needs beside it."""
SAMPLES: Mapping[str, tuple[list[Any], list[Any]]] = {
    "messages": ([[{"role": "user", "content": "hi"}]], [[], {}, "hi", 5]),
    "prompt": (["x", [1], ["x"], [[1, 2]]], ["", [], {}, 5, True, ["a", "b"]]),
    "stop": (["x", ["x"], ["x"] * 16, []], ["", [""], ["x"] * 17, 5, [5], {}, True]),
    "logit_bias": ([{"1": 100}, {"0": -0.5}, {}], [{"x": 1}, {"1": 101}, {"01": 1}, {"1": "1"}, 5, "x", []]),
    "tools": ([[tool()], []], [{}, "x", 5]),
    "tool_choice": (["auto", "none", "required"], ["any", 5, {}, []]),
    "modalities": ([["text"]], [["audio"], [], "text", ["text", "text"]]),
    "structured_outputs": ([{"regex": "a"}, {"choice": ["a"]}], [{}, 5, "x", [], {"regex": "a", "choice": ["a"]}]),
    "structured_outputs.regex": (["a"], [5, {}, []]),
    "structured_outputs.choice": ([["a"], ["a", "b"]], [[], "a", 5, [5]]),
    "structured_outputs.json": ([{"type": "object"}], [5, "x", []]),
    "response_format": ([{"type": "text"}], [5, "x", []]),
    "response_format.type": (["text", "json_object", "json_schema"], ["xml", 5, [], {}]),
    "response_format.json_schema": ([{"schema": {"type": "object"}}], [5, "x", []]),
    "response_format.json_schema.schema": ([{"type": "object"}], [5, "x", []]),
    "chat_template_kwargs": ([{}, {"x": 1}], [5, "x", []]),
}
"""Values that are served, and values that are not, of the fields whose schemas do not give them."""


def samples(row: Field) -> tuple[list[Any], list[Any]]:
    """Served values at the ends of what the schema allows, and refused ones just beyond."""
    if row.name in SAMPLES:
        return SAMPLES[row.name]
    schema = row.schema
    kind = schema["type"]
    if "enum" in schema:
        return schema["enum"], ["zzz", 5, True, [], {}]
    if kind == "boolean":
        return [True, False], ["true", 1, 0, [], {}]
    if kind == "string":
        return ["x", ""], [5, True, [], {}]
    if kind == "object":
        return [{}], [5, True, [], "x"]
    return numbers(schema)


def numbers(schema: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    low, above, high = (schema.get(name) for name in ("minimum", "exclusiveMinimum", "maximum"))
    step = 1 if schema["type"] == "integer" else 0.01
    served = [each for each in (low, high, None if above is None else above + step) if each is not None]
    refused = [None if low is None else low - step, above, None if high is None else high + step]
    wrong = ["1", True, [], {}, *([1.5] if schema["type"] == "integer" else [])]
    return served, [*[each for each in refused if each is not None], *wrong]


def body_with(row: Field, value: Any) -> dict[str, Any]:
    """A body that holds `value` at the row's path, with what it needs beside it."""
    body: dict[str, Any] = {}
    for name, beside in NEEDED.get(row.name, {}).items():
        body[name] = dict(beside) if isinstance(beside, dict) else beside
    *parents, last = row.name.split(".")
    member = body
    for parent in parents:
        member = member.setdefault(parent, {})
    member[last] = value
    if row.name == "best_of":
        body["n"] = value if type(value) is int and value in range(1, 17) else 1
    return body


def read_rows() -> Iterator[Any]:
    for route, rows, parse in (("chat", CHAT, ask), ("text", COMPLETIONS, complete)):
        yield from (pytest.param(row, parse, id=f"{route}-{row.name}") for row in rows if row.disposition in READ)


LAX: Mapping[str, list[Any]] = {"structured_outputs": [{}, {"regex": "a", "choice": ["a"]}]}
"""Values that the parsers refuse and the schemas do not: they say nothing of what one member means to another."""


def whole(body: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}], "prompt": "once", **body}


@pytest.mark.spec("API-028", "API-171")
@pytest.mark.parametrize(("row", "parse"), [*read_rows()])
def test_parsers_take_what_the_table_says(row: Field, parse: Callable[..., Any]) -> None:
    served, refused = samples(row)
    schema = validator("ChatRequest" if parse is ask else "CompletionRequest")
    for value in served:
        parse(**body_with(row, value))
        assert schema.is_valid(whole(body_with(row, value))), value
    for value in refused:
        assert value in LAX.get(row.name, ()) or not schema.is_valid(whole(body_with(row, value))), value
        with pytest.raises(ApiError) as refusal:
            parse(**body_with(row, value))
        assert refusal.value.status == 400, value
        assert (refusal.value.param or "").startswith(row.name), (value, refusal.value.param)


def test_shared_rows_are_shared() -> None:
    different = {name for name in CHAT_FIELDS if CHAT_FIELDS[name] != COMPLETION_FIELDS.get(name, CHAT_FIELDS[name])}
    assert different == {"logprobs"}


def refused(table: Mapping[str, Field]) -> list[str]:
    return sorted(name for name, row in table.items() if row.disposition is Disposition.REFUSED)


@pytest.mark.spec("API-028")
@pytest.mark.parametrize("name", refused(CHAT_FIELDS))
def test_refused_chat_field(name: str) -> None:
    with pytest.raises(ApiError) as refusal:
        ask(**{name: "low"})
    assert (refusal.value.status, refusal.value.param) == (400, name)
    assert ("tools" in refusal.value.message) == (name in ("functions", "function_call"))
    assert ask(**{name: None}) == ask()


@pytest.mark.spec("API-028")
@pytest.mark.parametrize("name", refused(COMPLETION_FIELDS))
def test_refused_completion_field(name: str) -> None:
    for value in ("x", True):
        with pytest.raises(ApiError) as refusal:
            complete(**{name: value})
        assert (refusal.value.status, refusal.value.param) == (400, name)
    assert complete(**{name: None}) == complete()
    assert complete(echo=False) == complete()


@pytest.mark.spec("API-028")
def test_a_null_field_counts_as_absent() -> None:
    sent = {name: None for name in CHAT_FIELDS if name != "messages"}
    assert ask(**sent) == ask()
    assert complete(**{name: None for name in COMPLETION_FIELDS if name != "prompt"}) == complete()


@pytest.mark.spec("API-029", "API-030")
@pytest.mark.parametrize("value", [5, "x", {"a": 1}, [1], True])
def test_fields_without_effect_and_unknown_ones_change_nothing(value: Any) -> None:
    accepted = [name for name, row in CHAT_FIELDS.items() if row.disposition is Disposition.ACCEPTED]
    for name in [*accepted, "continuous_usage_stats", "cache_prompt", "x"]:
        assert ask(**{name: value}) == ask()
        assert complete(**{name: value}) == complete()
