"""The shapes in which clients speak about thinking, and what becomes of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.http.openai.checks import MAX_INT
from tandem.http.openai.errors import ApiError
from tandem.http.openai.thinking import (
    EFFORTS,
    Budget,
    budget_row,
    read_budget,
    resolve_cap,
    resolve_reserve,
    template_defaults,
    template_kwargs,
)
from tests.http.openai.samples import ask, refusal_of

SECTION = (Path(__file__).parents[3] / "docs/spec/http-api.md").read_text("utf-8").split("## 13.")[1].split("## 14.")[0]
PATH = re.compile(r"`([a-z_.]+)`")


def rows(heading: str) -> list[list[str]]:
    """The cells of the section's table that begins with this heading."""
    table = SECTION.split(f"| {heading} |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def column(place: int) -> list[str]:
    """The paths of the first table's column, in the document's order; of a cell only the first name is a path."""
    return [found[0] for cells in rows("Order") if (found := PATH.findall(cells[place]))]


NUMBERS, WORDS, SWITCHES = (column(place) for place in (1, 2, 3))
OFF = ("none", "off")
MEDIUM = 8192
BUDGET_SWITCHES = {True: MEDIUM, "enabled": MEDIUM, "adaptive": None, "auto": None}


def body_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A body with these values at these paths."""
    body: dict[str, Any] = {}
    for path, value in fields.items():
        outer, _, name = path.rpartition(".")
        (body.setdefault(outer, {}) if outer else body)[name] = value
    return body


def budget_of(fields: Mapping[str, Any], default: str = "medium") -> Budget:
    body = body_of(fields)
    return read_budget(body, body.get("chat_template_kwargs", {}), default=default)


def kwargs_of(fields: Mapping[str, Any], default: str = "medium") -> dict[str, Any]:
    sent = body_of(fields).get("chat_template_kwargs", {})
    budget = budget_of(fields, default)
    return template_defaults(budget, default) | template_kwargs(budget, sent)


def cap_of(
    budget: Budget, limit: int, *, reserve: int | None = None, closer: int = 20, json: bool = False
) -> int | None:
    return resolve_cap(budget, limit=limit, reserve=reserve, closer=closer, wants_json=json)


numbers = st.integers(0, 20_000)
words = st.sampled_from(list(EFFORTS)).flatmap(lambda word: st.sampled_from([word, word.upper(), word.title()]))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(NUMBERS, numbers),
    **dict.fromkeys(WORDS, words),
    **dict.fromkeys(SWITCHES, st.booleans()),
    "thinking.type": st.sampled_from(["enabled", "adaptive", "auto", "disabled", "Enabled", "DISABLED"]),
}
some_fields = st.fixed_dictionaries({}, optional=VALUES)


def test_the_tables_are_the_documents() -> None:
    assert (len(NUMBERS), len(WORDS), len(SWITCHES)) == (8, 3, 4)
    told = {word: cells for cells in rows("Word") for word in PATH.findall(cells[0])}
    assert list(told) == list(EFFORTS)
    for word, (_, template, cap) in told.items():
        digits = re.match(r"[\d,]+", cap)
        assert EFFORTS[word].cap == (int(digits[0].replace(",", "")) if digits else None)
        assert EFFORTS[word].word == (found[0] if (found := PATH.findall(template)) else None)


# --- what is refused -------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(NUMBERS, (-1, 1.0, 1.5, True, "5", [], {})),
    **dict.fromkeys(WORDS, ("extreme", "", 5, True, ["low"])),
    **dict.fromkeys(SWITCHES, ("no", 1, 0, {})),
    "thinking.type": ("on", True, 1),
    "reasoning": ("high", True, 1, []),
    "thinking": ("enabled", True, 1024, []),
}


@pytest.mark.spec("API-091")
@pytest.mark.parametrize(("path", "value"), [(path, value) for path, values in BAD.items() for value in values])
def test_a_wrong_value_is_named(path: str, value: Any) -> None:
    assert refusal_of(body_of({path: value})).param == path


@pytest.mark.spec("API-091")
@pytest.mark.parametrize("path", [path for path in BAD if path not in ("reasoning", "thinking", NUMBERS[0])])
def test_a_wrong_value_is_named_where_another_field_decides(path: str) -> None:
    winners = {NUMBERS[0]: 5, SWITCHES[0]: True, WORDS[0]: "low"}
    fields = {name: value for name, value in winners.items() if name != path} | {path: BAD[path][0]}
    with pytest.raises(ApiError) as refusal:
        budget_of(fields)
    assert (refusal.value.status, refusal.value.param) == (400, path)


# --- every shape -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("API-088", "API-090")
@pytest.mark.parametrize("path", NUMBERS)
def test_a_number_is_the_cap_and_zero_is_none(path: str) -> None:
    assert budget_of({path: 300}) == Budget(cap=300, field=path, kind="number", value=300)
    assert budget_of({path: 0}) == Budget(cap=None, field=path, kind="number", value=0)
    assert budget_of({path: None}) == Budget()
    assert budget_of({path: 10**30}).cap == budget_of({path: 10**30}).value == MAX_INT


@pytest.mark.spec("API-087", "API-088", "API-091", "API-092")
@pytest.mark.parametrize("path", WORDS)
@pytest.mark.parametrize("word", EFFORTS)
def test_a_word_in_any_case(path: str, word: str) -> None:
    for sent in (word, word.upper(), word.title()):
        budget = budget_of({path: sent})
        assert (budget.field, budget.kind, budget.value) == (path, "word", sent)
        assert (budget.cap, budget.effort) == (EFFORTS[word].cap, EFFORTS[word].word)
        assert (budget.enabled, budget.switch) == ((False, path) if word in OFF else (None, None))


@pytest.mark.spec("API-087", "API-093")
@pytest.mark.parametrize("path", SWITCHES[:2])
@pytest.mark.parametrize("value", [True, False])
def test_a_bare_switch_is_no_budget(path: str, value: bool) -> None:
    budget = budget_of({path: value})
    assert budget == Budget(enabled=value, switch=path)
    assert not budget.asked
    assert cap_of(budget, 100) is None


@pytest.mark.spec("API-087", "API-089")
@pytest.mark.parametrize(
    ("path", "value", "cap"),
    [
        ("reasoning.enabled", True, MEDIUM),
        ("thinking.type", "enabled", MEDIUM),
        ("thinking.type", "ADAPTIVE", None),
        ("thinking.type", "auto", None),
    ],
)
def test_a_switch_that_is_a_budget(path: str, value: Any, cap: int | None) -> None:
    assert budget_of({path: value}) == Budget(cap=cap, field=path, kind="switch", value=value)


@pytest.mark.spec("API-087")
@pytest.mark.parametrize(("path", "value"), [("reasoning.enabled", False), ("thinking.type", "Disabled")])
def test_an_off_switch_is_no_budget(path: str, value: Any) -> None:
    assert budget_of({path: value}) == Budget(enabled=False, switch=path)


@pytest.mark.parametrize("fields", [{"reasoning": {}}, {"thinking": None}, {"reasoning": {"exclude": True}}])
def test_an_object_that_says_nothing(fields: dict[str, Any]) -> None:
    assert read_budget(fields, {}) == Budget()
    assert read_budget(fields, {}, default="off") == Budget(enabled=False)


# --- several shapes at once ------------------------------------------------------------------------------------------


@pytest.mark.spec("API-087", "API-088", "API-089", "API-090", "API-092")
@given(some_fields, st.sampled_from(["medium", "off"]))
def test_precedence(fields: dict[str, Any], default: str) -> None:
    budget = budget_of(fields, default)
    number = [path for path in NUMBERS if path in fields]
    word = [path for path in WORDS if path in fields]
    rest = [path for path in SWITCHES[2:] if path in fields and low(fields[path]) in BUDGET_SWITCHES]
    decides = next(iter([*number, *word, *rest]), None)
    assert budget.field == decides
    if number:
        assert budget.cap == (fields[number[0]] or None)
    elif word:
        assert budget.cap == EFFORTS[low(fields[word[0]])].cap
    elif rest:
        assert budget.cap == BUDGET_SWITCHES[low(fields[rest[0]])]
    else:
        assert budget.cap is None
    assert budget.asked is (decides is not None)
    assert budget.effort == (EFFORTS[low(fields[word[0]])].word if word else None)
    bare = [fields[path] for path in SWITCHES[:2] if path in fields]
    off = any(low(fields[path]) in (*OFF, False, "disabled") for path in (*WORDS, *SWITCHES[2:]) if path in fields)
    silent = default == "off" and not fields
    assert budget.enabled is (bare[0] if bare else False if off or silent else None)


def low(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


@given(some_fields)
def test_the_order_of_the_fields_is_none_of_the_clients(fields: dict[str, Any]) -> None:
    assert budget_of(dict(reversed(fields.items()))) == budget_of(fields)


@pytest.mark.spec("API-087")
@pytest.mark.parametrize("word", OFF)
def test_thinking_that_was_turned_on_outlives_an_off_word(word: str) -> None:
    budget = budget_of({"enable_thinking": True, "reasoning_effort": word, "reasoning.effort": "low"})
    assert (budget.enabled, budget.switch, budget.cap, budget.effort) == (True, "enable_thinking", None, None)


@pytest.mark.spec("API-087", "API-088")
def test_an_off_word_that_is_not_the_first_turns_off_all_the_same() -> None:
    budget = budget_of({"reasoning_effort": "high", "reasoning.effort": "none", "thinking_budget": 7})
    assert (budget.enabled, budget.switch) == (False, "reasoning.effort")
    # A block that the model opens by itself is still held to it (API-258).
    assert (budget.cap, budget.field) == (7, "thinking_budget")


def test_a_null_is_passed_over() -> None:
    assert budget_of({NUMBERS[0]: None, NUMBERS[1]: 5}).cap == 5
    assert budget_of({SWITCHES[0]: None, SWITCHES[1]: False}).enabled is False
    assert budget_of({WORDS[0]: None, WORDS[1]: "low"}).effort == "low"


# --- the server's default --------------------------------------------------------------------------------------------


@pytest.mark.spec("API-094")
@pytest.mark.parametrize("default", OFF)
def test_a_default_of_off_is_for_requests_that_say_nothing(default: str) -> None:
    assert budget_of({}, default) == Budget(enabled=False)
    assert kwargs_of({}, default) == {"enable_thinking": False}
    says = (
        [{path: 0} for path in NUMBERS] + [{path: "high"} for path in WORDS] + [{path: True} for path in SWITCHES[:3]]
    )
    for fields in (*says, {"thinking.type": "auto"}):
        assert budget_of(fields, default) == budget_of(fields)
        assert budget_of(fields, default).enabled is not False
        assert "reasoning_effort" not in kwargs_of(fields, default)


@pytest.mark.spec("API-092", "API-094", "EFF-016")
@pytest.mark.parametrize(
    ("fields", "default", "word"),
    [
        ({}, "medium", "medium"),
        ({}, "minimal", "low"),
        ({}, "max", "xhigh"),
        ({}, "high", None),
        ({"reasoning_effort": "high"}, "xhigh", "xhigh"),
        ({"reasoning_effort": "high"}, "high", None),
        ({"reasoning_effort": "max"}, "low", "xhigh"),
        ({"reasoning_effort": "Minimal", "reasoning.effort": "xhigh"}, "medium", "low"),
        ({"chat_template_kwargs.reasoning_effort": "high", "reasoning_effort": "low"}, "medium", "medium"),
        ({"enable_thinking": True, "reasoning_effort": "none"}, "medium", "medium"),
    ],
)
def test_the_word_of_the_template(fields: dict[str, Any], default: str, word: str | None) -> None:
    assert kwargs_of(fields, default).get("reasoning_effort") == word


@pytest.mark.parametrize(
    "off", [{"enable_thinking": False}, {"reasoning_effort": "none"}, {"thinking.type": "disabled"}]
)
def test_no_word_where_thinking_is_off(off: dict[str, Any]) -> None:
    assert kwargs_of({"chat_template_kwargs.reasoning_effort": "low", **off}) == {"enable_thinking": False}


@pytest.mark.spec("API-093")
@pytest.mark.parametrize("default", EFFORTS)
def test_only_words_and_switches_change_the_prompt(default: str) -> None:
    plain = kwargs_of({"thinking.type": "adaptive"}, default)
    for fields in ({path: 5} for path in NUMBERS[:-1]):
        assert kwargs_of(fields, default) == plain
    if default not in OFF:
        assert kwargs_of({}, default) == plain


@pytest.mark.spec("API-036")
def test_template_kwargs_reach_the_template_as_sent() -> None:
    sent = {"style": [1, {"a": None}], "reasoning_effort": "low", "other": None, "thinking_budget": 5}
    assert ask(chat_template_kwargs=sent).template_kwargs == sent
    nulls = dict.fromkeys(["enable_thinking", "reasoning_effort", "thinking_budget", "messages"])
    assert ask(chat_template_kwargs=nulls).template_kwargs == ask().template_kwargs


# --- the reserve -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("API-101")
@pytest.mark.parametrize(
    ("limit", "reserve", "kept"),
    [(32_768, None, 2048), (8192, None, 2048), (8188, None, 2047), (3, None, 0), (100, 0, 0), (100, 500, 500)],
)
def test_the_reserve(limit: int, reserve: int | None, kept: int) -> None:
    assert resolve_reserve(limit, reserve) == kept


@pytest.mark.spec("API-101", "API-102")
@pytest.mark.parametrize(
    ("fields", "limit", "reserve", "cap"),
    [
        ({}, 100, None, None),
        ({"thinking_budget": 10}, 100, None, 10),
        ({"thinking_budget": 90}, 100, None, 55),
        ({"thinking_budget": 90}, 100, 30, 50),
        ({"thinking_budget": 90}, 100, 0, 90),
        ({"thinking_budget": 0}, 1000, None, 730),
        ({"reasoning_effort": "xhigh"}, 32_768, None, 30_700),
        ({"reasoning_effort": "max"}, 8000, None, 5980),
        ({"reasoning_effort": "max"}, 8000, 0, None),
        ({"reasoning_effort": "low"}, 1000, None, 730),
        ({"thinking.type": "adaptive"}, 1000, 80, 900),
        ({"reasoning.enabled": True}, 1000, None, 730),
        ({"reasoning.enabled": True}, 32_768, None, MEDIUM),
        ({"enable_thinking": True, "reasoning_effort": "none"}, 1000, None, 730),
        ({"reasoning_effort": "low"}, 24, None, 0),
        ({"reasoning_effort": "low"}, 1000, 5000, 0),
        ({"reasoning_effort": "low"}, 20, None, 1024),
    ],
)
def test_the_cap(fields: dict[str, Any], limit: int, reserve: int | None, cap: int | None) -> None:
    assert cap_of(budget_of(fields), limit, reserve=reserve) == cap


@pytest.mark.spec("EFF-017", "API-103")
def test_what_the_row_says_of_budget_and_reserve() -> None:
    def row(fields: dict[str, Any], *, reserve: int | None = None, json: bool = False) -> dict[str, Any]:
        return budget_row(budget_of(fields), limit=1000, reserve=reserve, cap=730, wants_json=json)

    kept = {"reserve": 250, "limit": 1000, "cap": 730}
    asked = {"field": "reasoning.effort", "kind": "word", "asked": "high", **kept}
    assert row({"reasoning.effort": "high"}) == {"client_budget": asked}
    assert row({"reasoning.effort": "high"}, json=True) == {"client_budget": asked}
    assert row({"thinking_budget": 0})["client_budget"]["asked"] == 0
    assert row({}, json=True) == {"json_reserve": kept}
    assert row({}, json=True, reserve=0) == {}
    assert row({"enable_thinking": True}) == {}


@pytest.mark.spec("API-131")
def test_a_json_answer_has_the_reserve_unasked() -> None:
    for fields in ({}, {"enable_thinking": True}):
        assert cap_of(budget_of(fields), 1000, json=True) == 730
        assert cap_of(budget_of(fields), 1000, json=True, reserve=0) is None
    assert cap_of(budget_of({"thinking_budget": 10}), 1000, json=True) == 10


@given(some_fields, st.integers(1, 40_000), st.none() | st.integers(0, 5000), st.integers(0, 60), st.booleans())
def test_a_cap_keeps_its_promises(
    fields: dict[str, Any], limit: int, reserve: int | None, closer: int, json: bool
) -> None:
    budget = budget_of(fields)
    cap = cap_of(budget, limit, reserve=reserve, closer=closer, json=json)
    kept = resolve_reserve(limit, reserve)
    assert cap is None or cap >= 0
    assert budget.cap is None or (cap is not None and cap <= budget.cap)
    if cap and kept and limit > closer and (budget.asked or json):
        assert cap + closer + kept <= limit
