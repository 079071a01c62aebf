"""The openai SDK's helpers, which send and check more than `create` does; tests/e2e/test_sdk.py has the plain calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Literal, Optional

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionToolUnionParam, ChatCompletionUserMessageParam
from pydantic import BaseModel, Field

from tests.clients.driving import Log, written
from tests.e2e.conftest import Start
from tests.e2e.process import Server
from tests.e2e.wire import fake as scripted


class Colour(StrEnum):
    RED = "red"
    SEA_GREEN = "sea green"


class Point(BaseModel):
    x: int
    y: float = Field(description="Upwards.", ge=-10, le=10)


class Drawing(BaseModel):
    """What models in the wild are made of: nesting, recursion, enums, literals, unions with null, lists."""

    title: str
    colour: Colour
    note: Optional[str]  # noqa: UP045  (users write it so)
    points: list[Point] = Field(min_length=1, max_length=3)
    kinds: list[Literal["line", "area"]]
    inner: Drawing | None
    is_done: bool


class SaveFile(BaseModel):
    """Write a text to a file."""

    path: str
    text: str
    mode: Literal["new", "append"] = Field(description="What happens to a file that is there.")
    tries: int | None


DRAWING = Drawing(
    title="Küste",
    colour=Colour.SEA_GREEN,
    note=None,
    points=[Point(x=1, y=-2.5), Point(x=0, y=0)],
    kinds=["line", "area"],
    inner=Drawing(
        title="", colour=Colour.RED, note="x", points=[Point(x=-7, y=1)], kinds=[], inner=None, is_done=False
    ),
    is_done=True,
)
SAVE = SaveFile(path="/tmp/a.txt", text='1 "one"\n2 <two>\n', mode="append", tries=None)
SAVE_CALL = written("SaveFile", **SAVE.model_dump())
LIST_TOOL: ChatCompletionToolUnionParam = {
    "type": "function",
    "function": {
        "name": "ls",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}},
    },
}
CALLS = f"{written('ls', path='/tmp', depth=2)}\n{written('ls', path='/')}"


@pytest.fixture
def sdk(fake: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{fake.base}/v1", api_key="sk-local", max_retries=0, timeout=60) as client:
        yield client


def says(text: str, **more: Any) -> list[ChatCompletionUserMessageParam]:
    return [{"role": "user", "content": scripted(say=text, **more)}]


class TestParse:
    @pytest.mark.spec("API-125", "API-126", "API-128", "API-130")
    def test_a_model_comes_back_as_it_was_written(self, sdk: OpenAI) -> None:
        say = f"<think>A drawing, {{so}}.</think>\n\n{DRAWING.model_dump_json()}"
        made = sdk.chat.completions.parse(model="any", messages=says(say), response_format=Drawing)
        [choice] = made.choices
        assert choice.message.parsed == DRAWING
        assert choice.finish_reason == "stop"
        assert choice.message.model_extra is not None
        assert choice.message.model_extra["reasoning_content"] == "A drawing, {so}."

    @pytest.mark.spec("API-126")
    def test_a_model_that_would_write_prose_writes_the_object(self, sdk: OpenAI) -> None:
        made = sdk.chat.completions.parse(model="any", messages=says("Sure! Here you go:"), response_format=Point)
        assert isinstance(made.choices[0].message.parsed, Point)

    @pytest.mark.spec("API-126")
    def test_a_cut_document_is_told_as_cut(self, sdk: OpenAI) -> None:
        with pytest.raises(openai.LengthFinishReasonError):
            sdk.chat.completions.parse(
                model="any", messages=says(DRAWING.model_dump_json()), response_format=Drawing, max_tokens=5
            )

    @pytest.mark.spec("API-104", "API-105", "API-109")
    def test_a_tool_comes_back_as_its_model(self, sdk: OpenAI) -> None:
        made = sdk.chat.completions.parse(
            model="any", messages=says(SAVE_CALL), tools=[openai.pydantic_function_tool(SaveFile)]
        )
        [choice] = made.choices
        [call] = choice.message.tool_calls or []
        assert call.function.parsed_arguments == SAVE
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)

    @pytest.mark.spec("API-117")
    def test_a_forced_tool_too(self, sdk: OpenAI) -> None:
        made = sdk.chat.completions.parse(
            model="any",
            messages=says(f"<think>I would rather talk.</think>\n\n{SAVE_CALL}"),
            tools=[openai.pydantic_function_tool(SaveFile)],
            tool_choice={"type": "function", "function": {"name": "SaveFile"}},
        )
        [call] = made.choices[0].message.tool_calls or []
        assert call.function.parsed_arguments == SAVE


class TestStream:
    @pytest.mark.spec("API-126", "API-130", "API-138")
    def test_a_model_grows_and_is_whole_at_the_end(self, sdk: OpenAI) -> None:
        messages = says(f"<think>So.</think>\n\n{DRAWING.model_dump_json()}")
        with sdk.chat.completions.stream(model="any", messages=messages, response_format=Drawing) as stream:
            events = list(stream)
            [choice] = stream.get_final_completion().choices
        assert choice.message.parsed == DRAWING
        grown = [event.parsed for event in events if event.type == "content.delta"]
        assert {"title": "Küste"}.items() <= dict(grown[-1] or {}).items()
        assert len(grown) > 10
        [done] = [event for event in events if event.type == "content.done"]
        assert done.parsed == DRAWING

    @pytest.mark.spec("API-105", "API-110", "API-111")
    @pytest.mark.parametrize("block", [1, 32])
    def test_calls_are_put_together(self, sdk: OpenAI, block: int) -> None:
        messages = says(f"<think>Two calls.</think>\n\nI look.\n{CALLS}", block=block)
        with sdk.chat.completions.stream(model="any", messages=messages, tools=[LIST_TOOL]) as stream:
            events = list(stream)
            [choice] = stream.get_final_completion().choices
        done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
        calls = choice.message.tool_calls or []
        assert [json.loads(call.function.arguments) for call in calls] == [{"path": "/tmp", "depth": 2}, {"path": "/"}]
        assert [event.arguments for event in done] == [call.function.arguments for call in calls]
        assert len({call.id for call in calls}) == 2
        assert (choice.message.content, choice.finish_reason) == ("I look.", "tool_calls")

    @pytest.mark.spec("API-109", "API-110")
    def test_a_strict_tool_is_parsed(self, sdk: OpenAI) -> None:
        tools = [openai.pydantic_function_tool(SaveFile)]
        with sdk.chat.completions.stream(model="any", messages=says(SAVE_CALL), tools=tools) as stream:
            pieces = [event for event in stream if event.type == "tool_calls.function.arguments.delta"]
            [call] = stream.get_final_completion().choices[0].message.tool_calls or []
        assert call.function.parsed_arguments == SAVE
        assert "".join(piece.arguments_delta for piece in pieces) == call.function.arguments
        assert len(pieces) > 4

    @pytest.mark.spec("API-074", "API-138", "API-257")
    def test_reasoning_is_in_deltas_of_its_own_and_before_the_answer(self, sdk: OpenAI) -> None:
        messages = says("<think>First this. Then that.</think>\n\nFour.")
        chunks = list(
            sdk.chat.completions.create(
                model="any", messages=messages, stream=True, stream_options={"include_usage": True}
            )
        )
        deltas = [(chunk.choices[0].delta.model_extra or {}, chunk.choices[0].delta) for chunk in chunks[:-1]]
        reasoning = [extra.get("reasoning_content") for extra, _ in deltas]
        assert "".join(piece or "" for piece in reasoning) == "First this. Then that."
        assert [extra.get("reasoning") for extra, _ in deltas] == reasoning
        content = [delta.content or "" for _, delta in deltas]
        assert "".join(content) == "Four."
        last = max(at for at, piece in enumerate(reasoning) if piece)
        assert not any(content[: last + 1])
        usage = chunks[-1].usage
        assert usage is not None
        assert usage.completion_tokens_details is not None
        assert 0 < (usage.completion_tokens_details.reasoning_tokens or 0) < usage.completion_tokens


class TestTwoSteps:
    @pytest.mark.spec("API-042", "API-105")
    def test_a_result_goes_back_and_the_answer_comes(self, sdk: OpenAI) -> None:
        messages: list[Any] = list(says(SAVE_CALL, turns=[{"say": "Saved."}]))
        tools = [openai.pydantic_function_tool(SaveFile)]
        first = sdk.chat.completions.create(model="any", messages=messages, tools=tools).choices[0].message
        [call] = first.tool_calls or []
        messages += [first.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "24 bytes"}]
        second = sdk.chat.completions.create(model="any", messages=messages, tools=tools)
        assert second.choices[0].message.content == "Saved."


class TestErrors:
    @pytest.mark.spec("API-045", "API-023")
    def test_a_prompt_that_does_not_fit(self, start: Start) -> None:
        server = start("--max-len", "512")
        log = Log(server)
        with OpenAI(base_url=f"{server.base}/v1", api_key="k") as client:
            for stream in (False, True):
                with pytest.raises(openai.BadRequestError) as refused:
                    client.chat.completions.create(model="any", messages=says("x " * 900), stream=stream)
                assert refused.value.code == "context_length_exceeded"
                assert (refused.value.param, refused.value.type) == ("messages", "invalid_request_error")
        assert [line["status"] for line in log.lines(2)] == ["400", "400"]  # not tried again

    @pytest.mark.spec("API-128", "API-025")
    def test_a_schema_that_is_none(self, sdk: OpenAI) -> None:
        with pytest.raises(openai.BadRequestError, match="no type of JSON") as refused:
            sdk.chat.completions.create(
                model="any",
                messages=says("x"),
                response_format={"type": "json_schema", "json_schema": {"name": "t", "schema": {"type": "colour"}}},
            )
        assert (refused.value.param or "").startswith("response_format")

    @pytest.mark.spec("API-145", "API-165")
    @pytest.mark.parametrize("say", ["<think>one two three four</think>x", CALLS, DRAWING.model_dump_json()])
    def test_an_error_chunk_is_raised_wherever_it_comes(self, sdk: OpenAI, say: str) -> None:
        with (
            pytest.raises(openai.APIError, match="the server failed") as failed,
            sdk.chat.completions.stream(model="any", messages=says(say, fail_at=5), tools=[LIST_TOOL]) as stream,
        ):
            stream.until_done()
        assert failed.value.type == "server_error"


class TestCompletions:
    @pytest.mark.spec("API-047", "API-048")
    def test_text_goes_in_and_comes_out_as_it_is(self, sdk: OpenAI) -> None:
        prompt = scripted(say="<think>raw</think> text")
        whole = sdk.completions.create(model="any", prompt=prompt, logprobs=2)
        [choice] = whole.choices
        assert choice.text == "<think>raw</think> text"
        assert choice.logprobs is not None
        assert "".join(choice.logprobs.tokens or []) == choice.text
        chunks = list(sdk.completions.create(model="any", prompt=prompt, stream=True))
        assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == choice.text

    @pytest.mark.spec("API-145")
    def test_an_error_chunk_is_raised(self, sdk: OpenAI) -> None:
        stream = sdk.completions.create(model="any", prompt=scripted(say="a b c", fail_at=1), stream=True)
        with pytest.raises(openai.APIError, match="the server failed"):
            list(stream)


class TestAsync:
    @pytest.mark.spec("API-069", "API-074", "API-105")
    def test_eight_at_once(self, fake: Server) -> None:
        """All of one user agent `AsyncOpenAI/…`; the one slot serves them in turn."""
        log = Log(fake)

        async def ask(client: AsyncOpenAI, at: int) -> str:
            messages = says(f"<think>{at}</think>{written('ls', path=f'/{at}')}")
            async with client.chat.completions.stream(model="any", messages=messages, tools=[LIST_TOOL]) as stream:
                [call] = (await stream.get_final_completion()).choices[0].message.tool_calls or []
            return str(json.loads(call.function.arguments)["path"])

        async def ask_all() -> list[str]:
            async with AsyncOpenAI(base_url=f"{fake.base}/v1", api_key="k", max_retries=0, timeout=60) as client:
                return await asyncio.gather(*(ask(client, at) for at in range(8)))

        assert asyncio.run(ask_all()) == [f"/{at}" for at in range(8)]
        assert {line["client"] for line in log.lines(8)} == {"openai-sdk"}

    @pytest.mark.spec("API-167")
    def test_leaving_a_stream_frees_the_slot(self, fake: Server) -> None:
        log = Log(fake)

        async def leave() -> None:
            async with AsyncOpenAI(base_url=f"{fake.base}/v1", api_key="k", max_retries=0, timeout=60) as client:
                slow = says("word ", loop=True, token_ms=20)
                stream = await client.chat.completions.create(model="any", messages=slow, stream=True)
                async for chunk in stream:
                    if chunk.choices[0].delta.content:
                        break
                await stream.close()

        asyncio.run(leave())
        [line] = log.lines(1)
        assert (line["client"], line["finish"]) == ("openai-sdk", "abandoned")
