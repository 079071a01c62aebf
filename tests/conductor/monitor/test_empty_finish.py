"""E1: no turn ends in silence; calls that were only thought are made, each of them whole or none."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.events import FinishEvent, MonitorEvent, RequestEvent, Task, View
from tandem.conductor.monitor.reasoned import Reasoned, reasoned_calls
from tandem.conductor.monitor.rules.empty_finish import empty_finish
from tandem.engine.fake.text import FakeText
from tandem.engine.text.checkpoint import CheckpointText
from tandem.engine.text.model import TextModel
from tandem.engine.text.reading.calls import pythonic_calls
from tandem.engine.text.reading.trace import Trace
from tandem.engine.text.tokenizer import BpeTokenizer
from tandem.engine.tiny.vocabulary import qwen_tokenizer, tiny_tokenizer

TOOLS: Sequence[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("ls", "write")
]
LS = '<tool_call>\n{"name": "ls", "arguments": {"path": "/"}}\n</tool_call>'
WRITE = "<tool_call>\n<function=write>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>"
TEXTS = {"vendor_close": "Done.</think>", "nudge": "Nudge.", "nudge_again": "Again.", "give_up": "[Ended.]"}
TASK = Task(id="E1", rule="empty_finish", mode="act", params={"tries": 2})
REQUEST = RequestEvent(messages=(), tools=TOOLS)


def view(*done: MonitorEvent, req: RequestEvent = REQUEST, reasoning: Sequence[int] = (1, 2, 3)) -> View:
    return View(req=req, trace=Trace(reasoning=list(reasoning)), texts=TEXTS, done=done)


def tried(reason: str) -> MonitorEvent:
    about: dict[str, Any] = {"rule": "empty_finish", "tier": 0, "sp": "SP2", "mode": "act"}
    return MonitorEvent(task="E1", decision="CONTINUE_HIDDEN", acted="CONTINUE_HIDDEN", reason=reason, **about)


def found(event: FinishEvent, seen: View) -> Action:
    action = empty_finish(event, TASK, seen)
    assert isinstance(action, Action)
    return action


@pytest.mark.spec("MON-052", "MON-056")
@pytest.mark.parametrize(
    ("inside", "reason", "text"), [(True, "empty(A)", "Done.</think>"), (False, "empty(B)", "Nudge.")]
)
def test_it_goes_on_where_nothing_was_answered(inside: bool, reason: str, text: str) -> None:
    for answer in ("", " \n\t"):
        action = found(FinishEvent(inside=inside, answer=answer), view())
        assert (action.kind, action.reason, action.text, action.ids) == ("CONTINUE_HIDDEN", reason, text, ())
        assert action.detail == {"try": 1, "reasoning_tokens": 3}


@pytest.mark.spec("MON-052")
@pytest.mark.parametrize(
    "event", [FinishEvent(inside=False, answer="."), FinishEvent(inside=False, answer="", has_calls=True)]
)
def test_an_answer_or_a_call_is_none_of_its_affairs(event: FinishEvent) -> None:
    assert empty_finish(event, TASK, view()) is None


@pytest.mark.spec("MON-055")
def test_after_its_tries_the_turn_is_given_up() -> None:
    empty = FinishEvent(inside=False, answer="")
    again = found(empty, view(tried("empty(A)")))
    assert (again.kind, again.text, again.detail["try"]) == ("CONTINUE_HIDDEN", "Again.", 2)
    end = found(empty, view(tried("empty(A)"), tried("empty(B)")))
    assert (end.kind, end.reason, end.text) == ("GIVE_UP", "empty(B)", None)
    others = replace(tried("claim_check(x)"), task="E2")
    shadowed = replace(tried("empty(B)"), acted=None)
    assert found(empty, view(others, shadowed)).text == "Nudge.", "neither was a try"


def test_without_a_phrase_in_the_policy_it_is_the_models() -> None:
    seen = replace(view(), texts={name: text for name, text in TEXTS.items() if name != "vendor_close"})
    assert found(FinishEvent(inside=True, answer=""), seen).text is None


@pytest.mark.spec("MON-053", "MON-054", "MON-056")
@pytest.mark.parametrize("inside", [True, False])
def test_calls_at_the_end_of_the_reasoning_are_made(inside: bool) -> None:
    event = FinishEvent(inside=inside, answer="", reasoned=Reasoned((7, 8), ("ls", "ls")))
    action = found(event, view())
    assert (action.kind, action.reason, action.text, action.ids) == ("CONTINUE_HIDDEN", "empty(C)", "", (7, 8))
    assert action.detail == {"try": 1, "reasoning_tokens": 3, "call_count": 2, "tools": ["ls", "ls"]}
    again = found(event, view(tried("empty(C)")))
    assert again.reason == ("empty(A)" if inside else "empty(B)"), "they came to nothing"
    for req in (replace(REQUEST, tools=()), replace(REQUEST, tool_choice="none"), replace(REQUEST, constrained=True)):
        assert found(event, view(req=req)).ids == ()


# --- which calls


@functools.cache
def model(name: str) -> TextModel:
    """`marked`: the tags are tokens; `spelled`: they are text."""
    if name == "fake":
        return FakeText()
    tokenizer = qwen_tokenizer() if name == "marked" else tiny_tokenizer()
    return CheckpointText(BpeTokenizer(tokenizer, "0" * 64), template=None)


MODELS = ("fake", "marked", "spelled")


def spelled(text: TextModel, ids: Sequence[int]) -> str:
    return b"".join(map(text.piece, ids)).decode()


@pytest.mark.spec("MON-053", "MON-054")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("reasoning", "calls"),
    [
        (f"I look.\n{LS}", LS),
        (f"{LS}\n\n", LS),
        (f"Both.\n{LS}\n{WRITE}\n", f"{LS}\n{WRITE}"),
        (f"First {LS}\nNo, better:\n\n{WRITE}", WRITE),
        (f"Zwölf — ü\n{WRITE} \n", WRITE),
    ],
)
def test_the_calls_own_tokens(name: str, reasoning: str, calls: str) -> None:
    text = model(name)
    ids = text.encode_own(reasoning)
    got = reasoned_calls(ids, text, TOOLS)
    assert got is not None
    assert spelled(text, got.ids).strip() == calls
    at = next(at for at in range(len(ids)) if tuple(ids[at : at + len(got.ids)]) == got.ids)
    assert not spelled(text, ids[at + len(got.ids) :]).strip()
    assert list(got.names) == [each for each in ("ls", "write") if each in calls]


@pytest.mark.spec("MON-053")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "reasoning",
    [
        "",
        "I only think.",
        f"{LS} and then",
        LS.removesuffix("</tool_call>"),
        f"{LS}\n<tool_call>",
        f"{LS}\n<tool_call>\nno call\n</tool_call>",
        f"<tool_call>\nno call\n</tool_call>\n{LS}",
        f"{LS.replace('ls', 'rm')}\n{LS}",
        LS.replace("ls", "rm"),
        '{"name": "ls", "arguments": {"path": "/"}}',
    ],
)
def test_no_calls_to_be_made(name: str, reasoning: str) -> None:
    text = model(name)
    assert reasoned_calls(text.encode_own(reasoning), text, TOOLS) is None


@pytest.mark.spec("MON-053")
def test_without_tools_there_are_none_and_each_codec_reads_its_own_form() -> None:
    text = model("fake")
    assert reasoned_calls(text.encode_own(LS), text, ()) is None
    listed = '<|tool_call_start|>[ls(path="/"), write()]<|tool_call_end|>'
    ids = text.encode(f"I look. {listed}\n")
    assert reasoned_calls(ids, text, TOOLS) is None
    got = reasoned_calls(ids, text, TOOLS, pythonic_calls)
    assert got is not None
    assert got.names == ("ls", "write")
    assert spelled(text, got.ids).strip() == listed


PIECES = st.sampled_from(
    [LS, WRITE, "<tool_call>", "</tool_call>", "<function=ls>", " ", "\n", "ü", "so", "}", "[ls()]"]
)


@pytest.mark.spec("MON-053")
@settings(max_examples=60)
@given(st.lists(PIECES, max_size=6), st.lists(st.integers(0, 399), max_size=2), st.sampled_from(MODELS[1:]))
def test_whatever_was_thought_what_is_made_reads_alike(parts: list[str], noise: list[int], name: str) -> None:
    text = model(name)
    ids = [*noise, *text.encode_own("".join(parts))]
    got = reasoned_calls(ids, text, TOOLS)
    if got is not None:
        again = reasoned_calls(got.ids, text, TOOLS)
        assert again is not None
        assert again.names == got.names
