"""Where state lines stand in streams and bodies, and that what comes back is what came without them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from tandem.conductor.lines.frame import framed
from tandem.conductor.lines.history import clean
from tandem.conductor.lines.templates import say
from tandem.engine.text.reading.deltas import (
    Blank,
    Content,
    Delta,
    Line,
    Reasoning,
    ReasoningEnd,
    ReasoningStart,
)
from tandem.http.openai.answers import Answer, chat_body
from tandem.http.openai.chunks import ChatStream
from tandem.http.openai.errors import ApiError, queue_timeout
from tandem.http.openai.formats import PLAIN_CLIENTS, ReasoningFormat
from tandem.http.openai.lines import Channel, LineWay
from tests.http.openai.returning import CLIENTS, opencode_parts
from tests.http.openai.samples import CALL, finish
from tests.http.openai.sse import objects

ROUTE = say("route", label="Chat", effort="low")
LATE = say("thinking", elapsed="2 min 0 s", tokens=900)
LATER = say("thinking", elapsed="4 min 0 s", tokens=1_800)
LOOP = say("loop", where="the answer")
KEPT = say("memory", verb="remembered", what="tabs, not blanks")
A, B, C, D, M = (framed(line.text) for line in (ROUTE, LATE, LATER, LOOP, KEPT))
THOUGHT: list[Delta] = [
    ROUTE,
    ReasoningStart(),
    Reasoning("why "),
    LATE,
    Reasoning("not"),
    LATER,
    Reasoning("?\n"),
    ReasoningEnd(),
    Blank("\n\n"),
    Content("Be"),
    LOOP,
    Content("cause."),
    KEPT,
    finish(),
]
FORMATS: tuple[ReasoningFormat, ...] = get_args(ReasoningFormat)
CHANNELS: tuple[Channel, ...] = get_args(Channel)


def stream(format: ReasoningFormat, way: LineWay | None, **more: Any) -> ChatStream:
    return ChatStream(id="c", created=7, model="M", reasoning_format=format, lines=way, **more)


def chunks_of(deltas: Sequence[Delta], way: LineWay | None, format: ReasoningFormat | None = None) -> list[Any]:
    encoder = stream(way.format if way else format or "tags", way)
    return objects(encoder.open() + b"".join(encoder.feed([delta]) for delta in deltas))


def shown(chunks: list[Any]) -> tuple[str, str]:
    """Content and reasoning of a stream."""
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert all(delta.get("reasoning") == delta.get("reasoning_content") for delta in deltas)
    joined = ("".join(delta.get(name) or "" for delta in deltas) for name in ("content", "reasoning_content"))
    content, reasoning = joined
    return content, reasoning


@pytest.mark.spec("STA-013", "STA-014", "STA-015", "STA-016", "STA-017", "STA-055", "API-149", "API-257")
@pytest.mark.parametrize(
    ("channel", "format", "content", "reasoning"),
    [
        ("reasoning", "reasoning_content", f"Because.{M}", f"{A}why not{B}{C}?\n{D}"),
        ("reasoning", "tags", f"<think>{A}why not{B}{C}?\n</think>\n\nBecause.{M}", ""),
        ("reasoning", "both", f"<think>{A}why not{B}{C}?\n</think>\n\nBecause.{M}", f"{A}why not{B}{C}?\n{D}"),
        ("content", "reasoning_content", f"{A}{B}{C}Be{D}cause.{M}", "why not?\n"),
        ("content", "tags", f"{A}<think>why not?\n</think>{C}\n\nBe{D}cause.{M}", ""),
        ("content", "both", f"{A}<think>why not?\n</think>{C}\n\nBe{D}cause.{M}", "why not?\n"),
        ("inline", "tags", f"{A}<think>why not?\n</think>{C}\n\nBe{D}cause.{M}", ""),
    ],
)
def test_each_channel_in_each_format(channel: Channel, format: ReasoningFormat, content: str, reasoning: str) -> None:
    chunks = chunks_of(THOUGHT, LineWay(channel, format))
    assert shown(chunks) == (content, reasoning)
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    assert chunks[-1]["usage"] == chunks_of([finish()], None)[-1]["usage"]


@pytest.mark.spec("STA-016", "STA-017", "API-149")
def test_inline_makes_titles_and_never_touches_the_content() -> None:
    chunks = chunks_of(THOUGHT, LineWay("inline", "reasoning_content"))
    titles = [framed(line.text, title=True) for line in (ROUTE, LATE, LATER, LOOP, KEPT)]
    content, reasoning = shown(chunks)
    assert content == "Because."
    assert reasoning == f"{titles[0]}why not{titles[1]}{titles[2]}?\n{titles[3]}{titles[4]}"
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert sum(delta == {"tool_calls": []} for delta in deltas) == 5
    parts = opencode_parts(chunks)
    assert [text.split("\n")[1] for kind, text in parts if kind == "reasoning"] == [title.strip() for title in titles]
    for format in ("tags", "both"):
        assert chunks_of(THOUGHT, LineWay("inline", format)) == chunks_of(THOUGHT, LineWay("content", format))


@pytest.mark.spec("STA-018", "API-150")
@pytest.mark.parametrize("channel", CHANNELS)
def test_a_plain_client_gets_them_in_its_reasoning_alone(channel: Channel) -> None:
    def said(format: ReasoningFormat) -> tuple[str, str]:
        return shown(chunks_of(THOUGHT, LineWay(channel, format, is_plain=True)))

    assert said("reasoning_content") == (f"Because.{M}", f"{A}why not{B}{C}?\n{D}")
    assert said("tags") == (f"<think>why not?\n</think>\n\nBecause.{M}", "")
    assert said("both") == (f"<think>why not?\n</think>\n\nBecause.{M}", f"{A}why not{B}{C}?\n{D}")


@pytest.mark.spec("STA-014", "STA-027", "API-144")
def test_a_turn_that_does_not_think() -> None:
    queue = say("queue", n=1, reason="another request is running")
    deltas: list[Delta] = [queue, ROUTE, Content("Yes."), LOOP, finish()]
    assert shown(chunks_of(deltas, LineWay("reasoning", "reasoning_content"))) == ("Yes.", framed(queue.text) + A + D)
    assert shown(chunks_of(deltas, LineWay("reasoning", "tags"))) == ("Yes.", "")
    assert shown(chunks_of(deltas, LineWay("content", "tags")))[0] == f"{framed(queue.text)}{A}Yes.{D}"
    assert not LineWay("reasoning", "tags").shows("queue")
    assert LineWay("reasoning", "tags", status=True).shows("queue")
    in_block = shown(chunks_of([queue, *THOUGHT], LineWay("reasoning", "tags")))
    assert in_block == shown(chunks_of(THOUGHT, LineWay("reasoning", "tags")))


@pytest.mark.spec("STA-015")
def test_lines_pass_the_calls_by() -> None:
    deltas: list[Delta] = [*CALL[:2], LOOP, *CALL[2:], KEPT, finish("tool_calls")]
    chunks = chunks_of(deltas, LineWay("content", "reasoning_content"))
    told = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert [next(iter(delta), None) for delta in told] == [
        "role", "tool_calls", "tool_calls", "content", "tool_calls", "content", None,
    ]  # fmt: skip


@pytest.mark.spec("STA-015")
def test_a_call_is_not_the_end_of_an_answers_text() -> None:
    deltas: list[Delta] = [Content("a"), LOOP, *CALL, LATE, Content("b"), finish("tool_calls")]
    chunks = chunks_of(deltas, LineWay("reasoning", "reasoning_content"))
    told = [next(iter(choice["delta"]), None) for chunk in chunks for choice in chunk["choices"]]
    kinds = [kind for kind in told if kind not in ("role", "tool_calls")]
    assert kinds == ["content", "content", "reasoning_content", "reasoning_content", None]


@pytest.mark.spec("STA-013", "API-151")
@pytest.mark.parametrize(
    ("channel", "format", "content", "reasoning"),
    [
        ("reasoning", "reasoning_content", f"Because.{M}", f"{A}why not?\n{B}{C}{D}"),
        ("reasoning", "tags", f"<think>{A}why not?\n{B}{C}{D}</think>\n\nBecause.{M}", None),
        ("content", "reasoning_content", f"{A}{B}{C}{D}Because.{M}", "why not?\n"),
        ("content", "tags", f"{A}{B}{C}{D}<think>why not?\n</think>\n\nBecause.{M}", None),
        ("inline", "both", f"{A}{B}{C}{D}<think>why not?\n</think>\n\nBecause.{M}", "why not?\n"),
    ],
)
def test_a_body_has_them_at_its_ends(
    channel: Channel, format: ReasoningFormat, content: str, reasoning: str | None
) -> None:
    answer = Answer()
    answer.feed(THOUGHT)
    way = LineWay(channel, format)
    body = json.loads(chat_body(id="c", created=7, model="M", answers=[answer], reasoning_format=format, lines=way))
    message = body["choices"][0]["message"]
    assert message["content"] == content
    assert message.get("reasoning_content") == message.get("reasoning") == reasoning


@pytest.mark.spec("STA-019", "STA-020", "STA-022", "API-152")
def test_status_events_until_the_first_token_and_before_an_error() -> None:
    way = LineWay("content", "reasoning_content", status=True)
    encoder = stream("reasoning_content", way)
    first = encoder.open() + encoder.feed([ROUTE]) + encoder.conclude("read 9 tokens in 1 s")
    assert encoder.conclude("again") == b""
    told = objects(first + encoder.feed([Reasoning("a"), LOOP, Content("b"), finish()]))
    early, late = told[:3], told[3:]
    assert [chunk["event"] for chunk in early[1:]] == [
        {"type": "status", "data": {"description": ROUTE.text, "done": False}},
        {"type": "status", "data": {"description": "read 9 tokens in 1 s", "done": True}},
    ]
    assert all(chunk["choices"] == [] for chunk in early[1:])
    assert shown(late)[0] == f"{D}b"
    refused = stream("tags", LineWay("reasoning", "tags", status=True), include_usage=True)
    raw = refused.open() + refused.feed([ROUTE]) + refused.conclude("waited 9 s") + refused.fail(queue_timeout())
    *_, done, error = objects(raw)
    assert done["event"]["data"] == {"description": "waited 9 s", "done": True}
    assert done["usage"] is None
    assert error["error"]["code"] == "queue_timeout"


@pytest.mark.spec("STA-001")
def test_without_a_way_lines_are_nothing() -> None:
    without = [delta for delta in THOUGHT if not isinstance(delta, Line)]
    for format in FORMATS:
        assert chunks_of(THOUGHT, None, format) == chunks_of(without, None, format)
        one, other = Answer(), Answer()
        one.feed(THOUGHT)
        other.feed(without)
        bodies = [chat_body(id="c", created=7, model="M", answers=[each]) for each in (one, other)]
        assert bodies[0] == bodies[1]


texts = st.sampled_from(["a", "b ", "\n", " c\n\n", "d\n\ne", "\u203a f", "*"])
line_lists = st.lists(st.sampled_from([ROUTE, LATE, LOOP, Line("thinking", "said freely")]), max_size=2)


@st.composite
def answers(draw: st.DrawFn) -> list[Delta]:
    """An answer with lines anywhere."""
    deltas: list[Delta] = []
    if draw(st.booleans()):
        deltas += [ReasoningStart(), *map(Reasoning, draw(st.lists(texts, min_size=1, max_size=4))), ReasoningEnd()]
        deltas += [Blank("\n\n")]
    deltas += map(Content, draw(st.lists(texts, max_size=4)))
    deltas += CALL if draw(st.booleans()) else []
    deltas += map(Content, draw(st.lists(texts, max_size=2)))  # a model may write on behind a call
    deltas += [finish()]
    return [each for delta in deltas for each in (*draw(line_lists), delta)]


@pytest.mark.spec("STA-010", "STA-011")
@settings(max_examples=25, deadline=None)
@given(answers())
def test_what_a_client_sends_back_is_what_it_would_have_without_lines(deltas: list[Delta]) -> None:
    without = [delta for delta in deltas if not isinstance(delta, Line)]
    for format, channel, (client, back) in product(FORMATS, CHANNELS, CLIENTS.items()):
        if format == "both" and client in ("opencode", "open-webui"):
            continue  # every chunk ends a part there: they read no answer of this format whole
        way = LineWay(channel, format, is_plain=client in PLAIN_CLIENTS)
        (message,), _ = clean([back(chunks_of(deltas, way))])
        assert _read(message) == _read(back(chunks_of(without, None, format))), (format, channel, client)


def _read(message: dict[str, Any] | Any) -> tuple[str, str]:
    """As a template reads it: without white space at the ends, those of an open tag's text among them."""
    content = message["content"].strip()
    thought, closer, answer = content.rpartition("</think>")
    if closer:
        content = thought.strip() + closer + answer.strip()
    return content, (message.get("reasoning_content") or "").strip()


def test_an_error_has_no_line_behind_it() -> None:
    encoder = stream("tags", LineWay("content", "tags"))
    told = encoder.open() + encoder.feed([ReasoningStart(), LATE, finish("error")]) + encoder.feed([ROUTE])
    assert "choices" in objects(told)[-1]
    assert objects(told)[-1]["choices"][0]["finish_reason"] == "error"
    assert isinstance(queue_timeout(), ApiError)
