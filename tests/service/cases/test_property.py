"""What holds for every answer: random scripts out of building blocks, under random fields of a request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.cases.asking import CHAT, JSON_OBJECT, TEXT, schema_format, tool, written
from tests.service.harness import Call, Harness, chat, fake, open_harness
from tests.service.said import Said, all_said

TOOLS = [tool("ls", {"path": "string"}), tool("add", {"a": "integer", "b": "integer"})]
LS = written("ls", path="/tmp")
ADD = written("add", a=1, b=2)
T = {"type": "object", "properties": {"t": {"type": "integer"}}, "required": ["t"], "additionalProperties": False}
FORCED = ("required", {"type": "function", "function": {"name": "add"}})
CHOICES = ["yes", "no"]
DIGITS = r"\d{3}"
ROOM = 150

PIECES = st.sampled_from(
    [
        *("<think>", "</think>", "<think>why so</think>\n\n", "<th", "ink>", "</th"),
        *(LS, ADD, LS[:30], LS[20:], '<tool_call>\n{"name": "ls", "arguments": {"path": "/"}}\n</tool_call>'),
        *("<tool_call>", "</tool_call>", "<function=ls>", "<parameter=path>\n", "</function>", "<"),
        *('{"t": 5}', '{"t"', "```json\n", "yes", "123"),
        *("Hello there", "END", "EN", " ", "\n", "\n\n", "é", "한", "\U0001f600"),
    ]
)
STOPS = (["END"], ["b>"], ["</tool_call>"], ["\n\n"], ["x", "so"], ["</"], ["Hello there", "lo"], ["5"])


@st.composite
def scripts(draw: st.DrawFn) -> str | list[str]:
    """Text as the fake cuts it, or in tokens that are the blocks, or cut anywhere."""
    parts = draw(st.lists(PIECES, min_size=1, max_size=6))
    how = draw(st.sampled_from(["words", "blocks", "anywhere"]))
    if how == "blocks":
        return parts
    text = "".join(parts)
    if how == "words":
        return text
    cuts = sorted(draw(st.sets(st.integers(1, max(len(text) - 1, 1)), max_size=12)))
    return [text[low:high] for low, high in zip([0, *cuts], [*cuts, len(text)], strict=True) if low < high]


@st.composite
def fields(draw: st.DrawFn) -> dict[str, Any]:
    def some(options: Any) -> Any:
        return draw(st.none() | st.sampled_from(options))

    constraints = (
        JSON_OBJECT,
        schema_format(T),
        {"structured_outputs": {"choice": CHOICES}},
        {"structured_outputs": {"regex": DIGITS}},
    )
    chosen: dict[str, Any] = {
        "max_tokens": draw(st.integers(1, 40) | st.just(ROOM)),
        "stop": some(STOPS),
        "max_reasoning_tokens": some((0, 1, 3, 10)),
        "logprobs": some((True,)),
        "reasoning_format": some(("tags", "both", "reasoning_content")),
        "enable_thinking": some((True, False)),
        **(some(constraints) or {}),
    }
    if draw(st.booleans()):
        chosen |= {
            "tools": TOOLS,
            "tool_choice": some(("auto", "none", *FORCED)),
            "parallel_tool_calls": some((True, False)),
        }
    return {name: value for name, value in chosen.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request's fields mean for its answer."""

    fields: dict[str, Any]

    @property
    def offers_tools(self) -> bool:
        return "tools" in self.fields and self.fields.get("tool_choice") != "none"

    @property
    def is_forced(self) -> bool:
        return self.fields.get("tool_choice") in FORCED

    @property
    def shows_tags(self) -> bool:
        return self.fields.get("reasoning_format") in ("tags", "both")

    @property
    def streams_live(self) -> bool:
        return self.offers_tools and "stop" not in self.fields


def valid(call_arguments: str) -> bool:
    try:
        return isinstance(json.loads(call_arguments), dict)
    except ValueError:
        return False


def check(answer: Said, asked: Asked, *, is_stream: bool) -> None:
    """What holds for one answer by itself."""
    assert answer.finish in ("stop", "length", "tool_calls")
    complete = [call for call in answer.calls if valid(call.arguments)]
    assert len(answer.calls) - len(complete) <= (is_stream and asked.streams_live)
    assert complete == answer.calls[: len(complete)]
    assert len({call.id for call in answer.calls}) == len(answer.calls)
    if answer.finish != "length":
        assert (answer.finish == "tool_calls") == bool(complete)
    if not asked.offers_tools:
        assert not answer.calls
    if asked.fields.get("parallel_tool_calls") is False:
        assert len(answer.calls) <= 1
    if not asked.shows_tags:
        check_content(answer, asked, complete)


def check_content(answer: Said, asked: Asked, complete: list[Any]) -> None:
    """What holds for a content that is the answer alone."""
    content = answer.content or ""
    assert not any(stop in content for stop in asked.fields.get("stop", ()))
    if asked.is_forced:
        for call in complete:
            [offered] = [each["function"] for each in TOOLS if each["function"]["name"] == call.name]
            jsonschema.validate(call.values, offered["parameters"])
    if "stop" in asked.fields or answer.finish == "length":
        return
    if asked.is_forced:
        assert complete
        assert not content
    elif not complete:
        check_document(content, asked.fields)
    elif "response_format" in asked.fields or "structured_outputs" in asked.fields:
        assert not content  # never a mixture


def check_document(content: str, fields: dict[str, Any]) -> None:
    if "response_format" in fields:
        document = json.loads(content)
        assert isinstance(document, dict)
        if fields["response_format"]["type"] == "json_schema":
            jsonschema.validate(document, T)
    elif "choice" in fields.get("structured_outputs", ()):
        assert content in CHOICES
    elif "regex" in fields.get("structured_outputs", ()):
        assert re.fullmatch(DIGITS, content)


def check_usage(call: Call, answers: list[Said], asked: Asked) -> None:
    usage = answers[0].usage
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert 0 <= usage["completion_tokens_details"]["reasoning_tokens"] <= usage["completion_tokens"]
    assert 1 <= usage["completion_tokens"] <= len(answers) * asked.fields["max_tokens"]
    if len(answers) == 1 and answers[0].finish == "length":
        assert usage["completion_tokens"] == asked.fields["max_tokens"]


def shown(answer: Said) -> tuple[Any, ...]:
    """What two answers have in common that say the same; ids are made anew."""
    calls = [(call.name, call.arguments) for call in answer.calls]
    return (answer.content or "", answer.reasoning, calls, answer.finish)


def check_same(body: Said, stream: Said, asked: Asked) -> None:
    """A stream gathers to the body, but for a block that is open at the end: live it is a call that never closes, or
    nothing yet, and in the body text (API-121, API-122)."""
    opened = [call for call in stream.calls if not valid(call.arguments)]
    calls = [(call.name, call.arguments) for call in stream.calls[: len(stream.calls) - len(opened)]]
    content = stream.content or ""
    rest = (body.content or "").removeprefix(content).lstrip()
    assert (body.content or "").startswith(content)
    assert not rest or (asked.streams_live and rest.startswith(("<tool_call>", "<function=")))
    assert bool(rest) or not opened
    assert shown(body)[1:] == (stream.reasoning, calls, stream.finish)


def ways(say: Any, wanted: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The name of a way to ask, its block size and its fields."""
    yield "body", 1, wanted
    yield "stream", 1, {**wanted, "stream": True}
    yield "body of blocks", 3, wanted
    yield "stream of blocks", 32, {**wanted, "stream": True}
    yield "choices", 1, {**wanted, "n": 2}


async def check_every_way(harness: Harness, say: Any, wanted: dict[str, Any]) -> None:
    asked = Asked(wanted)
    answers: dict[str, list[Said]] = {}
    for way, block, body in ways(say, wanted):
        call = await harness.client.send(CHAT, chat({"say": say, "block": block}, **body))
        assert call.status == 200, call.body
        answers[way] = all_said(call)
        check_usage(call, answers[way], asked)
        for answer in answers[way]:
            check(answer, asked, is_stream="stream" in body)
    [whole] = answers["body"]
    [stream] = answers["stream"]
    check_same(whole, stream, asked)
    for way, same in (("body of blocks", whole), ("choices", whole), ("stream of blocks", stream)):
        assert all(shown(answer) == shown(same) for answer in answers[way]), way
    for way, same in (("stream", whole), ("body of blocks", whole), ("stream of blocks", whole)):
        counts = ("completion_tokens", "completion_tokens_details")
        assert [answers[way][0].usage[count] for count in counts] == [same.usage[count] for count in counts]


async def check_text_completion(harness: Harness, say: Any, wanted: dict[str, Any]) -> None:
    names = ("max_tokens", "stop", "structured_outputs")
    texts = []
    for stream in (True, False):
        body = {"prompt": fake(say=say), "stream": stream, **{name: wanted[name] for name in names if name in wanted}}
        call = await harness.client.send(TEXT, body)
        assert call.status == 200, call.body
        texts.append(call.text)
    assert texts[0] == texts[1]


@settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(scripts(), fields())
def test_what_holds_for_every_answer(say: str | list[str], wanted: dict[str, Any]) -> None:
    async def run() -> None:
        async with open_harness() as harness:
            await check_every_way(harness, say, wanted)
            await check_text_completion(harness, say, wanted)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
