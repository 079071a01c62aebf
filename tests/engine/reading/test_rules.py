"""The rules that a plan adds to a reader, and that without them it reads as ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.conductor.masking import Secret, SecretMask
from tandem.engine.text.prompt import Thinking
from tandem.engine.text.reading.calls import pythonic_calls, xml_calls
from tandem.engine.text.reading.deltas import CallEnd, CallStart, Content, Delta, Reasoning
from tandem.engine.text.reading.reader import AnswerReader
from tandem.engine.text.reading.rules import ReadingRules
from tandem.engine.verbs import TokenLogprob
from tests.engine.reading.test_reader import TEXT, answer, parts, pieces_of, riding, token

KEY = Secret("api_key", "sk-abc123", "sk-")
MASKED = "sk-[redacted]"
CALL = "<tool_call>\n<function=f>\n<parameter=x>\nsk-abc123\n</parameter>\n</function>\n</tool_call>"


def with_mask(*secrets: Secret, **rules: Any) -> ReadingRules:
    return ReadingRules(mask=SecretMask(secrets).stage(), **rules)


def codec(*, live: bool = False) -> Any:
    return xml_calls([], live=live, new_id=lambda: "c0")


def read(
    text: str, places: Sequence[int], rules: ReadingRules, thinking: Thinking = "free", **options: Any
) -> list[Any]:
    return parts(answer(pieces_of(text, places), thinking, rules=rules, **options))


def one_by_one(text: str) -> range:
    return range(1, len(text.encode()))


# --- stop strings


@pytest.mark.spec("ANS-001", "API-085")
@pytest.mark.parametrize("places", [(), (1,), range(1, 9)])
def test_under_a_plan_stop_strings_leave_the_opening_blank_lines_alone(places: Sequence[int]) -> None:
    rules = ReadingRules(spares_opening=True)
    options: dict[str, Any] = {"stops": ["\n\n", "STOP"], "stop_scope": "answer"}
    assert read("\n\n b\n\nc", places, rules, **options) == [("Content", "\n\n b")]
    assert read("STOP\n\nSTOP", places, rules, "open", **options)[1:] == [("Reasoning", "STOP\n\nSTOP")]
    assert read("a</think>\n\nbSTOP", places, rules, "open", **options)[-1] == ("Content", "b")
    assert read("\n\nb", places, ReadingRules(), **options) == []


# --- calls that nobody offered


@pytest.mark.spec("ANS-002")
@pytest.mark.parametrize("thinking", ["free", "open"])
def test_a_call_that_nobody_offered_is_taken_out(thinking: Thinking) -> None:
    text = f"{'t</think>' if thinking == 'open' else ''}I look.\n{CALL}\n{CALL}"
    for places in ((), one_by_one(text)):
        reader = AnswerReader(TEXT, thinking=thinking, calls=codec(), rules=ReadingRules(refuses_calls=True))
        deltas: list[Delta] = [delta for piece in pieces_of(text, places) for delta in reader.feed(token(piece))]
        deltas += reader.end()
        assert not any(isinstance(delta, (CallStart, CallEnd)) for delta in deltas)
        assert parts(deltas)[-1] == ("Content", "I look.")
        assert reader.refused_calls == ("f", "f")
        assert not reader.stopped


@pytest.mark.spec("ANS-002")
def test_a_refused_list_of_calls_leaves_nothing() -> None:
    reader = AnswerReader(
        TEXT,
        thinking="free",
        calls=pythonic_calls([], live=False, new_id=lambda: "c0"),
        rules=ReadingRules(refuses_calls=True),
    )
    assert reader.feed(token("[f(a=1), g()]")) + reader.end() == []
    assert reader.refused_calls == ("f", "g")


# --- stray closers


@pytest.mark.spec("ANS-003", "ENG-184", "ENG-185")
def test_a_second_closer_is_not_sent() -> None:
    text = "t</think>\n\na\n</think>\nb\n</think>" + CALL + "</think>"
    for places in ((), one_by_one(text)):
        reader = AnswerReader(TEXT, thinking="open", calls=codec(), rules=ReadingRules(drops_closers=True))
        deltas = [delta for piece in pieces_of(text, places) for delta in reader.feed(token(piece))] + reader.end()
        assert [each for each in parts(deltas) if each[0] == "Content"] == [("Content", "a\nb\n")]
        assert reader.stray_closers == 3
    assert read("a\n</think>\nb", (), ReadingRules()) == [("Content", "a\n</think>\nb")]


# --- the mask


@pytest.mark.spec("MEM-011", "ENG-184")
def test_content_and_reasoning_are_masked_and_arguments_are_not() -> None:
    text = f"the key sk-abc123</think>\n\nIt is sk-abc123.\n{CALL}"
    for places in ((), one_by_one(text)):
        deltas = read(text, places, with_mask(KEY), "open", calls=codec())
        assert deltas == [
            ("ReasoningStart", ""),
            ("Reasoning", f"the key {MASKED}"),
            ("ReasoningEnd", ""),
            ("Blank", "\n\n"),
            ("Content", f"It is {MASKED}."),
            ("CallStart", ""),
            ("CallArguments", '{"x":"sk-abc123"}'),
            ("CallEnd", ""),
        ]


@pytest.mark.spec("MEM-012")
def test_what_waits_is_flushed_before_a_call_at_the_closer_and_at_the_end() -> None:
    text = f"sk-abc</think>sk-abc{CALL}sk-abc"
    for places in ((), one_by_one(text)):
        texts = [each for each in read(text, places, with_mask(KEY), "open", calls=codec(live=True)) if each[1]]
        assert texts[0] == ("Reasoning", "sk-abc")
        assert texts[1] == ("Content", "sk-abc")
        assert texts[-1] == ("Content", "sk-abc")
    reader = AnswerReader(TEXT, thinking="open", rules=with_mask(KEY))
    reader.feed(token("sk-abc"))
    assert parts(reader.close_reasoning()) == [("Reasoning", "sk-abc"), ("ReasoningEnd", "")]


@pytest.mark.spec("MEM-012")
@given(
    st.sampled_from(["open", "free", "off"]),
    st.lists(st.sampled_from(["sk-", "abc", "123", " ", "\n", "</think>", "<think>", "a", "é"]), max_size=12),
    st.lists(st.integers(1, 40), max_size=6),
    st.sampled_from(["all", "answer"]),
)
def test_every_cut_reads_the_same(thinking: Thinking, words: list[str], places: list[int], scope: str) -> None:
    text = "".join(words)
    options: dict[str, Any] = {"stops": ["c1 "], "stop_scope": scope}

    def reading(places: Sequence[int]) -> list[Any]:
        rules = with_mask(KEY, drops_closers=True, spares_opening=True, refuses_calls=True)
        return read(text, places, rules, thinking, calls=codec(), **options)

    assert reading(places) == reading(()) == reading(one_by_one(text))


@pytest.mark.spec("MEM-012", "ENG-082")
@given(
    st.sampled_from(["open", "free"]),
    st.lists(st.sampled_from(["sk-", "abc", "12", " x", "\n", "</think>", "a"]), max_size=12),
    st.booleans(),
)
def test_without_a_repeated_secret_everything_is_as_without_the_mask(
    thinking: Thinking, words: list[str], has_stop: bool
) -> None:
    options: dict[str, Any] = {"stops": ["12a"] if has_stop else [], "logprobs": True, "calls": codec()}
    plain = answer(words, thinking, **options)
    masked = answer(words, thinking, **options | {"calls": codec()}, rules=with_mask(KEY))
    assert parts(masked) == parts(plain)

    def entries(deltas: Sequence[Delta]) -> dict[str, list[float]]:
        kinds: dict[str, list[float]] = {}
        for kind, numbers in riding(deltas):
            kinds.setdefault(kind, []).extend(numbers)
        return kinds

    assert entries(masked) == entries(plain)


@pytest.mark.spec("MEM-010")
def test_no_log_probability_names_a_token_of_a_masked_value() -> None:
    deltas = answer(["key", " sk", "-abc", "123", ". b", "c"], logprobs=True, rules=with_mask(KEY))
    assert parts(deltas) == [("Content", f"key {MASKED}. bc")]
    assert [number for _, numbers in riding(deltas) for number in numbers] == [0.0, 4.0, 5.0]
    straddling = answer(["key sk-abc123. b"], logprobs=True, rules=with_mask(KEY))
    assert parts(straddling) == [("Content", f"key {MASKED}. b")]
    assert riding(straddling) == []


@pytest.mark.spec("MEM-008")
def test_shadow_changes_no_delta() -> None:
    mask = SecretMask([KEY], shadow=True)
    pieces = ["the ", "sk-a", "bc123", " it"]
    assert answer(pieces, logprobs=True, rules=ReadingRules(mask=mask.stage())) == answer(pieces, logprobs=True)
    assert mask.counts == {"api_key": 1}


def test_rules_of_an_answer_are_none_unless_given() -> None:
    assert ReadingRules() == ReadingRules(spares_opening=False, refuses_calls=False, drops_closers=False, mask=None)
    assert [type(delta) for delta in answer(["a"], "open")][1:] == [Reasoning]
    assert answer(["a"]) == [Content("a")]
    reader = AnswerReader(TEXT, thinking="free")
    reader.feed(token("a"), TokenLogprob(token("a"), 0.0))
    assert (reader.refused_calls, reader.stray_closers) == ((), 0)
