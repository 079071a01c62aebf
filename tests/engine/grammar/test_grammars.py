"""Languages compiled, bounded and kept; the masks of rows that are written under them."""

from __future__ import annotations

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.engine.errors import BadInput
from tandem.engine.fake import FakeEngine, FakeText
from tandem.engine.fake.vocabulary import END_OF_TEXT, IM_END
from tandem.engine.grammar.constraints import Choice, Constraint, JsonObject, JsonSchema, Regex
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.verbs import SamplingRules
from tests.embedded import embedded_checkpoint
from tests.engine.fake.running import ids, one_round, opened, text
from tests.engine.grammar.vocabularies import allowed

GRAMMARS = Grammars(FakeText(), cached=8)


def accepts(constraint: Constraint, answer: str) -> bool:
    state = GRAMMARS.compile(constraint).matcher.copy()
    state.commit_bytes(answer.encode())
    return state.accepting


def refusal(constraint: Constraint) -> BadInput:
    with pytest.raises(BadInput) as caught:
        GRAMMARS.compile(constraint)
    return caught.value


@pytest.mark.spec("API-125", "API-128")
@pytest.mark.parametrize(
    "pattern", [r"\d{3}", r"^\d{3}$", "(^a|b$)", "a/b|c\nd", r"a\/\\/?", "", "(?i)ja", r"é+[^\W\d_]?", "(?P<x>a)|[/]"]
)
def test_a_regex_is_matched_whole(pattern: str) -> None:
    """G-16."""
    for answer in ("123", "12", "1234", "a", "b", "a/b", "c\nd", "a/\\", "a/\\/", "", "JA", "éé", "éß", "/"):
        assert accepts(Regex(pattern, "regex"), answer) == (re.fullmatch(pattern, answer) is not None), answer


@pytest.mark.spec("API-128", "ENG-089")
@pytest.mark.parametrize("pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", r"\bword", "a^b", "a$b", "a(", "[z-a]", "a\\", "*"])
def test_a_regex_that_is_broken_or_not_regular_is_refused(pattern: str) -> None:
    error = refusal(Regex(pattern, "structured_outputs.regex"))
    assert error.param == "structured_outputs.regex"
    assert "regex" in str(error)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=6), st.text(max_size=5))
def test_a_choice_is_one_of_its_texts(texts: list[str], other: str) -> None:
    choice = Choice(tuple(texts), "choice")
    assert all(accepts(choice, each) for each in texts)
    assert accepts(choice, other) == (other in texts)
    state = GRAMMARS.compile(choice).matcher
    assert all(state.allows_bytes(each.encode()[:size]) for each in texts for size in range(len(each.encode()) + 1))


@pytest.mark.spec("API-125", "API-128")
def test_choices_are_checked() -> None:
    assert refusal(Choice((), "structured_outputs.choice")).param == "structured_outputs.choice"
    assert "longer" in str(refusal(Choice(("x" * 70_000,), "choice")))
    assert "longer" in str(refusal(Regex("x" * 70_000, "regex")))
    for lone in (Regex("\ud800", "text"), Choice(("a", "\ud800"), "text"), JsonSchema({"const": "\ud800"}, "text")):
        assert refusal(lone).param == "text"


@pytest.mark.spec("API-128")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "maxLength": 4000},
        {"type": "string", "minLength": 2000, "maxLength": 4000},
        {"type": "string", "pattern": "^([a-z]{1,500}/){1,500}$", "maxLength": 2000},
        {"type": "array", "items": {"type": "string", "maxLength": 4000}, "maxItems": 4000},
        {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083},
    ],
)
def test_long_repeats_compile_in_no_time_or_are_refused(schema: Any) -> None:
    """G-07; on the embedded model's vocabulary."""
    grammars = Grammars(embedded_checkpoint().text)
    grammars.compile(JsonObject())
    taken = []
    for attempt in range(3):
        begin = time.process_time()
        with suppress(BadInput):
            grammars.compile(JsonSchema({**schema, "title": str(attempt)}, "schema"))
        taken.append(time.process_time() - begin)
    assert min(taken) < 0.25, "50 ms on a quiet machine; what explodes takes seconds"


@pytest.mark.spec("API-128")
def test_other_threads_go_on_while_a_grammar_is_compiled() -> None:
    """Most of the time is spent in the library, which gives up the interpreter's lock."""
    wide = {"anyOf": [{"type": "object", "properties": {f"k{a}_{b}": {} for b in range(12)}} for a in range(150)]}
    gaps, done = [0.0], threading.Event()

    def tick() -> None:
        last = time.perf_counter()
        while not done.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    with ThreadPoolExecutor(1) as pool:
        ticking = pool.submit(tick)
        begin = time.perf_counter()
        GRAMMARS.compile(JsonSchema(wide, "schema"))
        taken = time.perf_counter() - begin
        done.set()
        ticking.result()
    assert max(gaps) < max(0.25, taken / 2)


@pytest.mark.spec("ENG-085")
def test_a_language_is_compiled_once_and_the_oldest_is_dropped() -> None:
    grammars = Grammars(FakeText(), cached=2)
    first = grammars.compile(JsonSchema({"type": "object", "properties": {"a": {}, "b": {}}}, "one")).matcher
    same = grammars.compile(JsonSchema({"type": "object", "properties": {"a": {}, "b": {}}}, "other")).matcher
    assert same is first
    turned = grammars.compile(JsonSchema({"type": "object", "properties": {"b": {}, "a": {}}}, "one")).matcher
    assert turned is not first
    grammars.compile(Choice(("a",), "choice"))
    again = grammars.compile(JsonSchema({"type": "object", "properties": {"a": {}, "b": {}}}, "one")).matcher
    assert again is not first
    assert grammars.compile(Regex("a", "r")).matcher is not grammars.compile(Choice(("a",), "r")).matcher


@pytest.mark.spec("API-128")
def test_a_refusal_is_not_kept_and_names_the_field_of_its_own_request() -> None:
    schema: dict[str, Any] = {"not": {}}
    assert [refusal(JsonSchema(schema, param)).param for param in ("a", "b")] == ["a", "b"]


@pytest.mark.spec("ENG-085")
def test_threads_that_ask_at_once_get_working_grammars() -> None:
    grammars = Grammars(FakeText(), cached=4)
    constraints = [JsonObject(), Choice(("yes", "no"), "choice"), JsonSchema({"type": "integer"}, "schema")] * 8

    def first_byte(constraint: Any) -> set[int]:
        return allowed(grammars.compile(constraint).matcher.copy().bits(()))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(first_byte, constraints))
    assert found[:3] * 8 == found
    assert found[1] == {ord("y"), ord("n")}


# --- rows of the fake engine under a mask


def written(constraint: Constraint, script: dict[str, Any], **rules: Any) -> str:
    engine = FakeEngine()
    grammars = Grammars(engine.text)
    mask = grammars.compile(constraint).mask("off")
    return _generated(engine, script, replace(SamplingRules(mask=mask), **rules))


def _generated(engine: FakeEngine, script: dict[str, Any], rules: SamplingRules, limit: int = 60) -> str:
    seq, out = opened(engine, script), list[int]()
    assert rules.mask is not None
    while len(out) < limit and not (out and out[-1] in engine.text.end_ids):
        new = one_round(engine, seq, rules).ids
        rules.mask.commit(new)
        out += new
    return text(engine, out)


@pytest.mark.spec("ENG-084", "ENG-086", "ENG-188", "API-126", "API-127")
@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_scripted_document_comes_through_whole(block: int, temperature: float) -> None:
    document = '{"größe": ["sehr groß", {"日本": 1.5}], "b": null}'
    assert written(JsonObject(), {"say": document, "block": block}, temperature=temperature) == document


@pytest.mark.spec("ENG-188", "API-126")
@pytest.mark.parametrize("block", [1, 3])
def test_a_script_that_leaves_the_language_is_led_back(block: int) -> None:
    """G-14: a fence around the document. Whatever is scripted, the answer is a member."""
    schema = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"], "additionalProperties": False}
    fenced = {"say": '```json\n{"a": "x"}\n```', "block": block}
    assert json.loads(written(JsonSchema(schema, "schema"), fenced)) == {"a": "x"}
    assert written(Choice(("yes", "no"), "choice"), {"say": "no, never", "block": block}) == "no"
    assert written(Regex(r"\d{3}", "regex"), {"say": "12 or 345", "block": block}) == "120"


@pytest.mark.spec("ENG-084", "ENG-188")
def test_log_probabilities_are_those_of_the_masked_row() -> None:
    engine = FakeEngine()
    mask = Grammars(engine.text).compile(Choice(("no", "none"), "choice")).mask("off")
    seq = opened(engine, {"say": ["no", "ne"]})
    rules = SamplingRules(mask=mask, logprobs=5)
    first = one_round(engine, seq, rules)
    mask.commit(first.ids)
    assert [text(engine, (token,)) for token, _ in first.logprobs[0].top] == ["no", "n"]
    second = one_round(engine, seq, rules)
    assert {token for token, _ in second.logprobs[0].top} == {
        *engine.text.vocabulary.ids(b"ne"),
        ord("n"),
        IM_END,
        END_OF_TEXT,
    }
    assert ids(engine, {"say": "no"}, SamplingRules(), count=1) == list(first.ids)
