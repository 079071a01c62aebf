"""The openai SDK, unchanged, against the embedded model and against the fake engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Literal

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionUserMessageParam
from pydantic import BaseModel, Field

from tests.e2e.conftest import Start
from tests.e2e.process import Server
from tests.e2e.wire import fake as scripted


class City(BaseModel):
    """What a small model can be asked for; no free text that it could go on and on with."""

    continent: Literal["Africa", "Asia", "Europe"]
    is_capital: bool
    rivers: Annotated[list[Literal["Seine", "Thames"]], Field(max_length=2)] | None


COUNT = "Count from one to ten in words."


@pytest.fixture
def sdk(real: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{real.base}/v1", api_key="sk-local", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def fake_sdk(fake: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{fake.base}/v1", api_key="sk-local", max_retries=0, timeout=60) as client:
        yield client


def user(text: str) -> list[ChatCompletionUserMessageParam]:
    return [{"role": "user", "content": text}]


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@pytest.mark.spec("API-043", "API-140", "API-154", "API-170")
def test_plain_and_streamed_are_the_same_answer(sdk: OpenAI) -> None:
    plain = sdk.chat.completions.create(model="any", messages=user(COUNT), max_tokens=9)
    assert plain.object == "chat.completion"
    assert plain.model == "TandemLLM"
    [choice] = plain.choices
    assert choice.message.content
    assert plain.usage is not None
    assert plain.usage.total_tokens == plain.usage.prompt_tokens + plain.usage.completion_tokens
    chunks = list(
        sdk.chat.completions.create(
            model="any", messages=user(COUNT), max_tokens=9, stream=True, stream_options={"include_usage": True}
        )
    )
    assert text_of(chunks) == choice.message.content
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == choice.finish_reason
    assert chunks[-1].choices == []
    assert chunks[-1].usage == plain.usage


@pytest.mark.spec("API-083", "API-084", "API-163")
def test_stop_strings(sdk: OpenAI) -> None:
    whole = sdk.chat.completions.create(model="any", messages=user(COUNT), max_tokens=9).choices[0].message.content
    assert whole is not None
    stop = whole[4:7]
    for stream in (False, True):
        answer = sdk.chat.completions.create(
            model="any", messages=user(COUNT), max_tokens=9, stop=[stop, "never"], stream=stream
        )
        if isinstance(answer, openai.Stream):
            chunks = list(answer)
            text, reason = text_of(chunks), chunks[-1].choices[0].finish_reason
        else:
            text, reason = answer.choices[0].message.content or "", answer.choices[0].finish_reason
        assert text == whole[: whole.index(stop)]
        assert reason == "stop"


@pytest.mark.spec("API-173")
def test_a_seed_repeats_its_text(sdk: OpenAI) -> None:
    def answer(seed: int) -> str | None:
        made = sdk.chat.completions.create(
            model="any", messages=user("Tell a story."), max_tokens=9, seed=seed, temperature=1
        )
        text: str | None = made.choices[0].message.content
        return text

    first, again, other = answer(7), answer(7), answer(8)
    assert first == again
    assert other != first


@pytest.mark.spec("API-035")
def test_log_probabilities(sdk: OpenAI) -> None:
    made = sdk.chat.completions.create(
        model="any", messages=user(COUNT), max_tokens=5, logprobs=True, top_logprobs=3
    ).choices[0]
    assert made.logprobs is not None
    content = made.logprobs.content
    assert content is not None
    assert "".join(each.token for each in content) == made.message.content
    for each in content:
        assert len(each.top_logprobs) == 3
        assert each.logprob == each.top_logprobs[0].logprob <= 0  # greedy
        assert bytes(each.bytes or ()).decode() == each.token


@pytest.mark.spec("API-032", "API-173", "ENG-083")
def test_two_choices(sdk: OpenAI) -> None:
    made = sdk.chat.completions.create(
        model="any", messages=user("Tell a story."), max_tokens=8, n=2, seed=1, temperature=1
    )
    assert [choice.index for choice in made.choices] == [0, 1]
    texts = [choice.message.content for choice in made.choices]
    assert texts[0] != texts[1]
    alone = sdk.chat.completions.create(
        model="any", messages=user("Tell a story."), max_tokens=8, seed=1, temperature=1
    )
    assert alone.choices[0].message.content == texts[0]


@pytest.mark.spec("API-046", "API-047", "API-048")
def test_text_completions(sdk: OpenAI) -> None:
    plain = sdk.completions.create(model="any", prompt="The capital of France is", max_tokens=4)
    assert "Paris" in plain.choices[0].text
    assert plain.object == "text_completion"
    chunks = list(sdk.completions.create(model="any", prompt="The capital of France is", max_tokens=4, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == plain.choices[0].text


@pytest.mark.spec("API-049", "API-050")
def test_models(sdk: OpenAI) -> None:
    [card] = sdk.models.list().data
    assert (card.id, card.owned_by) == ("TandemLLM", "tandem")
    assert sdk.models.retrieve("TandemLLM") == card
    with pytest.raises(openai.NotFoundError) as missing:
        sdk.models.retrieve("gpt-5")
    assert missing.value.code == "model_not_found"


@pytest.mark.spec("API-045", "API-023")
def test_a_prompt_that_does_not_fit_is_a_bad_request(sdk: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="maximum context length is 8192 tokens") as refused:
        sdk.chat.completions.create(model="any", messages=user("word " * 9_000))
    assert refused.value.code == "context_length_exceeded"
    assert refused.value.param == "messages"


@pytest.mark.spec("API-126", "API-127", "API-128")
def test_a_response_format(sdk: OpenAI) -> None:
    """Small models seldom write JSON unasked: what comes is the constraint's doing, and the model's choices in it."""
    for stream in (False, True):
        asked = user("Tell me about Paris.")
        if stream:
            with sdk.chat.completions.stream(
                model="any", messages=asked, response_format=City, max_tokens=60
            ) as events:
                choice = events.get_final_completion().choices[0]
        else:
            made = sdk.chat.completions.parse(model="any", messages=asked, response_format=City, max_tokens=60)
            choice = made.choices[0]
        assert choice.finish_reason == "stop"
        assert choice.message.parsed is not None
        assert City.model_validate_json(choice.message.content or "") == choice.message.parsed


@pytest.mark.spec("API-117", "API-119")
def test_a_forced_call(sdk: OpenAI) -> None:
    tool = openai.pydantic_function_tool(City, name="look_up")
    made = sdk.chat.completions.create(
        model="any",
        messages=user("Look up Paris."),
        tools=[tool],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=90,
    )
    [choice] = made.choices
    [call] = choice.message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "look_up"
    City.model_validate(json.loads(call.function.arguments))
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)


def test_a_fake_script_means_nothing_to_a_model(sdk: OpenAI) -> None:
    said = sdk.chat.completions.create(model="any", messages=user(scripted(say="banana banana")), max_tokens=8)
    assert said.choices[0].message.content != "banana banana"
    broken = sdk.chat.completions.create(model="any", messages=user("@fake {broken"), max_tokens=2)
    assert broken.usage is not None
    assert broken.usage.completion_tokens == 2


def test_the_fake_answers_too(fake_sdk: OpenAI) -> None:
    said = fake_sdk.chat.completions.create(model="any", messages=user(scripted(say="Good day.")))
    assert said.choices[0].message.content == "Good day."
    chunks = list(
        fake_sdk.chat.completions.create(model="any", messages=user(scripted(say="Good day.", block=3)), stream=True)
    )
    assert text_of(chunks) == "Good day."
    with fake_sdk.chat.completions.stream(model="any", messages=user(scripted(say="Good day."))) as stream:
        assert stream.get_final_completion().choices[0].message.content == "Good day."


@pytest.mark.spec("API-145", "API-165", "API-166")
def test_an_error_in_a_stream_is_raised_after_the_text_before_it(fake_sdk: OpenAI) -> None:
    """O-05, O-07: not taken for a success."""
    seen: list[ChatCompletionChunk] = []
    stream = fake_sdk.chat.completions.create(
        model="any", messages=user(scripted(say="one two three", fail_at=2)), stream=True
    )
    with pytest.raises(openai.APIError, match="the server failed") as failed:
        seen.extend(stream)  # keeps what came before the error
    assert text_of(seen) == "one two"
    assert failed.value.type == "server_error"
    with pytest.raises(openai.InternalServerError):
        fake_sdk.chat.completions.create(model="any", messages=user(scripted(say="one two three", fail_at=2)))
    said = fake_sdk.chat.completions.create(model="any", messages=user(scripted(say="fine again")))
    assert said.choices[0].message.content == "fine again"


@pytest.mark.spec("API-141", "API-136")
def test_comments_do_not_disturb_it(start: Start) -> None:
    server = start("--prefill-heartbeat-s", "0.05", "--prefix-chunk", "64")
    script = scripted(say="read", prefill_ms_per_token=2)
    with OpenAI(base_url=f"{server.base}/v1", api_key="k", max_retries=0) as client:
        stream = client.chat.completions.create(model="any", messages=user(script + " word" * 700), stream=True)
        raw = b"".join(stream.response.iter_raw()).decode()
    assert ": prefill " in raw
    assert raw.startswith(": prefill ")
    with OpenAI(base_url=f"{server.base}/v1", api_key="k", max_retries=0) as client:
        stream = client.chat.completions.create(model="any", messages=user(script + " word" * 700), stream=True)
        assert text_of(list(stream)) == "read"
