"""The field table in code is the field table of the document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tandem.http.openai.errors import ApiError
from tandem.http.openai.fields import CHAT_FIELDS, COMPLETION_FIELDS, THINKING_FIELDS, Disposition
from tests.http.openai.samples import ask, complete

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


def thinking_names() -> set[str]:
    section = SPEC.split("## 13. Thinking budgets")[1].split("| Word |")[0]
    return {
        name.split(".")[0]
        for name in re.findall(r"`([a-z_.]+)`", section)
        if not name.startswith("chat_template_kwargs") and name not in ("enabled", "adaptive", "auto", "disabled")
    }


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
        expected |= thinking_names() - names(cells("honoured")[0])
    table = (CHAT_FIELDS, COMPLETION_FIELDS)[column]
    assert {name for name, found in table.items() if found is disposition} == expected


def test_thinking_shapes_are_the_documents() -> None:
    assert thinking_names() == THINKING_FIELDS


def refused(table: Mapping[str, Disposition]) -> list[str]:
    return sorted(name for name, disposition in table.items() if disposition is Disposition.REFUSED)


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
    accepted = [name for name, found in CHAT_FIELDS.items() if found is Disposition.ACCEPTED]
    for name in [*accepted, "continuous_usage_stats", "cache_prompt", "x"]:
        assert ask(**{name: value}) == ask()
        assert complete(**{name: value}) == complete()
