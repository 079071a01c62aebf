"""JSON bodies of both routes, usage and timings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import Completion
from openai.types.chat import ChatCompletion

from tandem.engine.text.reading.deltas import (
    Content,
    Delta,
    Finish,
    Line,
    Reasoning,
    Timings,
    Usage,
)
from tandem.engine.verbs import TokenLogprob
from tandem.http.openai.answers import Answer, chat_body, completion_body
from tandem.http.openai.counts import timings_json, usage_json
from tandem.http.openai.errors import ApiError
from tests.http.openai.samples import CALL, Names, finish

TIMINGS = """
    cache_n prompt_n prompt_ms prompt_per_token_ms prompt_per_second predicted_n predicted_ms predicted_per_token_ms
    predicted_per_second draft_n draft_n_accepted ttft_ms queue_ms total_ms blocks tokens_per_block reasoning_n
    cache_source
"""


def answer(*deltas: Delta, index: int = 0) -> Answer:
    gathered = Answer(index)
    for delta in deltas:
        gathered.feed([delta])
    return gathered


def body(*answers: Answer, **options: Any) -> dict[str, Any]:
    read = json.loads(chat_body(id="chatcmpl-1", created=7, model="TandemLLM", answers=answers, **options))
    assert isinstance(read, dict)
    return read


def message(*deltas: Delta, **options: Any) -> Any:
    return body(answer(*deltas, finish()), **options)["choices"][0]["message"]


@pytest.mark.spec("API-043")
def test_a_chat_body() -> None:
    read = body(answer(Content("a"), Content("b"), finish()))
    ChatCompletion.model_validate(read)
    assert list(read) == ["id", "object", "created", "model", "choices", "usage", "timings"]
    assert (read["object"], read["model"]) == ("chat.completion", "TandemLLM")
    assert read["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "ab"},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]


@pytest.mark.spec("API-044")
def test_contents_of_a_message() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": '{"a":1}'}}
    assert message() == {"role": "assistant", "content": ""}
    assert message(*CALL) == {"role": "assistant", "content": None, "tool_calls": [call]}
    assert message(Content("x"), *CALL) == {"role": "assistant", "content": "x", "tool_calls": [call]}
    thought = {"role": "assistant", "content": "", "reasoning_content": "hm", "reasoning": "hm"}
    assert message(Reasoning("h"), Reasoning("m"), Line("step", "x")) == thought
    assert "reasoning" not in message(Reasoning("hm"), reasoning_alias=False)


def test_a_message_with_calls_is_the_sdks() -> None:
    ChatCompletion.model_validate(body(answer(Reasoning("r"), *CALL, finish("tool_calls"))))


@pytest.mark.spec("API-032")
def test_choices_are_sorted_and_counted_once() -> None:
    second = finish("length", usage=Usage(prompt=7, completion=9, reasoning=4), timings=Timings(total_ms=90, blocks=3))
    read = body(answer(Content("b"), second, index=1), answer(Content("a"), finish(), index=0))
    ChatCompletion.model_validate(read)
    found = [(choice["index"], choice["message"]["content"], choice["finish_reason"]) for choice in read["choices"]]
    assert found == [(0, "a", "stop"), (1, "b", "length")]
    assert read["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 14,
        "total_tokens": 21,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 6},
    }
    assert (read["timings"]["total_ms"], read["timings"]["blocks"], read["timings"]["predicted_n"]) == (90, 5, 14)


@pytest.mark.spec("API-048")
def test_a_completion_body() -> None:
    names = Names(b"a", b"b")
    gathered = answer(
        Content("a", (TokenLogprob(0, -0.5, ((0, -0.5),)),)), Content("b", (TokenLogprob(1, -0.25),)), finish()
    )
    raw = completion_body(id="cmpl-1", created=7, model="M", answers=[gathered], names=names)
    Completion.model_validate(json.loads(raw))
    [choice] = json.loads(raw)["choices"]
    assert choice == {
        "index": 0,
        "text": "ab",
        "logprobs": {
            "tokens": ["a", "b"],
            "token_logprobs": [-0.5, -0.25],
            "top_logprobs": [{"a": -0.5}, {"b": -0.25}],
            "text_offset": [0, 1],
        },
        "finish_reason": "stop",
    }
    plain = json.loads(completion_body(id="cmpl-1", created=7, model="M", answers=[gathered]))
    assert plain["object"] == "text_completion"
    assert plain["choices"][0]["logprobs"] is None


@pytest.mark.spec("API-035")
def test_chat_logprobs_in_a_body() -> None:
    read = body(answer(Content("a", (TokenLogprob(0, -0.5),)), finish()), names=Names(b"a"))
    ChatCompletion.model_validate(read)
    entry = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    assert read["choices"][0]["logprobs"] == {"content": [entry]}


@pytest.mark.spec("API-165")
def test_a_failed_choice_is_a_500_without_text() -> None:
    with pytest.raises(ApiError) as failure:
        body(answer(Content("partial"), finish()), answer(Content("partial"), finish("error"), index=1))
    assert failure.value.status == 500
    assert b"partial" not in failure.value.body()


def test_an_answer_that_goes_on_has_no_body() -> None:
    with pytest.raises(ValueError, match="not ended"):
        body(answer(Content("a")))


@pytest.mark.spec("API-164")
def test_a_timeout_keeps_the_text_so_far() -> None:
    [choice] = body(answer(Content("so far"), finish("timeout")))["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("so far", "timeout")


@pytest.mark.spec("API-154", "API-156", "API-157")
def test_usage() -> None:
    usage = usage_json(Usage(prompt=10, cached=12, completion=3, reasoning=1, hidden=4))
    assert usage == {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "total_tokens": 13,
        "prompt_tokens_details": {"cached_tokens": 10, "hidden_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    assert "hidden_tokens" not in usage_json(Usage(prompt=10))["prompt_tokens_details"]


@pytest.mark.spec("API-160", "API-161")
def test_timings() -> None:
    usage = Usage(prompt=9, completion=5, reasoning=2, engine_cached=6, engine_prompt=4)
    timings = Timings(10, 20, 40, 75, blocks=2, drafted=6, draft_accepted=3, cache_source="prefix")
    read = timings_json(usage, timings)
    assert list(read) == TIMINGS.split()
    assert (read["cache_n"], read["prompt_n"], read["ttft_ms"], read["total_ms"]) == (6, 4, 30, 75)
    assert (read["prompt_per_token_ms"], read["prompt_per_second"]) == (5, 200)
    assert (read["predicted_per_token_ms"], read["predicted_per_second"]) == (10, 100)
    assert (read["tokens_per_block"], read["draft_n"], read["draft_n_accepted"]) == (2.5, 6, 3)
    assert read["cache_source"] == "prefix"


@pytest.mark.spec("API-160")
@given(
    st.builds(Usage, completion=st.integers(0, 3), engine_prompt=st.integers(0, 3)),
    st.builds(
        Timings,
        *[st.floats(0, allow_infinity=False, allow_nan=False) | st.just(5e-324)] * 4,
        blocks=st.integers(0, 2),
    ),
)
def test_rates_are_always_numbers(usage: Usage, timings: Timings) -> None:
    read = timings_json(usage, timings)
    json.dumps(read, allow_nan=False)
    if usage.completion <= 1:
        assert read["predicted_per_second"] == 0


def test_the_finish_of_an_answer_is_there_for_its_reader() -> None:
    last = Finish("stop", Usage(), Timings())
    assert answer(Content("a")).finish is None
    assert answer(Content("a"), last).finish is last
