"""The other fields of both routes: what is read, and what is refused by which name."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from tandem.engine.grammar.constraints import (
    Calls,
    CallsOrDocument,
    Choice,
    Constraint,
    JsonObject,
    JsonSchema,
    Regex,
)
from tandem.engine.text.images import LoadedImages
from tandem.engine.verbs import SamplingRules
from tandem.http.openai.errors import ApiError
from tandem.http.openai.images import LEFT_OUT
from tandem.http.openai.requests import Defaults, conversation, parse_chat, resolve_limit, to_rules
from tests.http.openai.samples import ask, complete, is_token, refusal_of, tool

TODAY = datetime.date(2026, 1, 2)


USER = {"role": "user", "content": "hi"}

BAD_CHAT: list[tuple[dict[str, Any], str]] = [
    ({"model": 5}, "model"),
    ({"stream": "yes"}, "stream"),
    ({"stream": 1}, "stream"),
    ({"stream_options": True}, "stream_options"),
    ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": 8.0}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"max_tokens": "8"}, "max_tokens"),
    ({"max_tokens": 0, "max_completion_tokens": 5}, "max_tokens"),
    ({"max_completion_tokens": -1}, "max_completion_tokens"),
    ({"n": 0}, "n"),
    ({"n": 17}, "n"),
    ({"n": True}, "n"),
    ({"n": 2, "stream": True}, "n"),
    ({"stop": ""}, "stop"),
    ({"stop": [""]}, "stop"),
    ({"stop": ["a", None]}, "stop"),
    ({"stop": 5}, "stop"),
    ({"stop": {"a": 1}}, "stop"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"temperature": "1"}, "temperature"),
    ({"temperature": float("nan")}, "temperature"),
    ({"temperature": 10**400}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"min_p": -0.1}, "min_p"),
    ({"min_p": 1.1}, "min_p"),
    ({"top_k": -2}, "top_k"),
    ({"top_k": 1.0}, "top_k"),
    ({"presence_penalty": 2.1}, "presence_penalty"),
    ({"frequency_penalty": -2.1}, "frequency_penalty"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"repetition_penalty": 10**400}, "repetition_penalty"),
    ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size"),
    ({"seed": 2**63}, "seed"),
    ({"seed": -(2**63) - 1}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"draft_temperature": 3}, "draft_temperature"),
    ({"logit_bias": [1]}, "logit_bias"),
    ({"logit_bias": {"1000": 1}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"logit_bias": {"01": 1}}, "logit_bias"),
    ({"logit_bias": {"٣": 1}}, "logit_bias"),
    ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
    ({"logit_bias": {"hello": 1}}, "logit_bias"),
    ({"logit_bias": {"5": 101}}, "logit_bias"),
    ({"logit_bias": {"5": None}}, "logit_bias"),
    ({"logprobs": 1}, "logprobs"),
    ({"top_logprobs": 5}, "top_logprobs"),
    ({"top_logprobs": 0, "logprobs": False}, "top_logprobs"),
    ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"modalities": "text"}, "modalities"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
    ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs.tools"),
    ({"chat_template_kwargs": {"add_generation_prompt": False}}, "chat_template_kwargs.add_generation_prompt"),
    ({"reasoning_format": "none"}, "reasoning_format"),
    ({"conversation_id": 5}, "conversation_id"),
    ({"session_id": 5}, "session_id"),
    ({"tools": {}}, "tools"),
    ({"tools": [5]}, "tools[0]"),
    ({"tools": [tool(), {"type": "web_search"}]}, "tools[1]"),
    ({"tools": [{"type": "function"}]}, "tools[0]"),
    ({"tools": [{"type": "function", "function": {"description": "x"}}]}, "tools[0]"),
    ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0]"),
    (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": "{}"}}]},
        "tools[0].function.parameters",
    ),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": "required", "tools": []}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "rm"}}, "tools": [tool()]}, "tool_choice"),
    ({"tool_choice": {"type": "function"}}, "tool_choice"),
    ({"tool_choice": "any"}, "tool_choice"),
    ({"tool_choice": 5}, "tool_choice"),
    ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ({"response_format": "json"}, "response_format"),
    ({"response_format": {}}, "response_format.type"),
    ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format.json_schema.schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": []}}}, "response_format.json_schema.schema"),
    ({"structured_outputs": []}, "structured_outputs"),
    ({"structured_outputs": {}}, "structured_outputs"),
    ({"structured_outputs": {"regex": "a", "json": {}}}, "structured_outputs"),
    ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex"),
    ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
    ({"structured_outputs": {"choice": ["a", 5]}}, "structured_outputs.choice"),
    ({"structured_outputs": {"json": "{}"}}, "structured_outputs.json"),
    ({"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}}, "structured_outputs"),
]


@pytest.mark.spec("API-028", "API-031", "API-032", "API-033", "API-035", "API-036", "API-083", "API-171")
@pytest.mark.parametrize(("fields", "param"), BAD_CHAT)
def test_malformed_chat_fields_are_named(fields: dict[str, Any], param: str) -> None:
    assert refusal_of(fields).param == param


BAD_COMPLETION: list[tuple[dict[str, Any], str]] = [
    ({"prompt": None}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [[]]}, "prompt"),
    ({"prompt": 5}, "prompt"),
    ({"prompt": {"a": 1}}, "prompt"),
    ({"prompt": ["a", "b"]}, "prompt"),
    ({"prompt": [[1], [2]]}, "prompt"),
    ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": [1, 1000]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [True]}, "prompt"),
    ({"prompt": [1.0]}, "prompt"),
    ({"prompt": [[[1]]]}, "prompt"),
    ({"logprobs": True}, "logprobs"),
    ({"logprobs": 6}, "logprobs"),
    ({"best_of": 2}, "best_of"),
    ({"best_of": 2, "n": 3}, "best_of"),
    ({"best_of": 0}, "best_of"),
    ({"n": 2, "stream": True}, "n"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"structured_outputs": {"choice": ["a", None]}}, "structured_outputs.choice"),
    ({"temperature": 3}, "temperature"),
]


@pytest.mark.spec("API-032", "API-035", "API-046")
@pytest.mark.parametrize(("fields", "param"), BAD_COMPLETION)
def test_malformed_completion_fields_are_named(fields: dict[str, Any], param: str) -> None:
    assert refusal_of(fields, "completion").param == param


@pytest.mark.spec("API-046")
@pytest.mark.parametrize(
    ("sent", "prompt"), [("a", "a"), (["a"], "a"), ([1, 2], (1, 2)), ([[1, 2]], (1, 2)), ([999], (999,))]
)
def test_shapes_of_a_prompt(sent: Any, prompt: Any) -> None:
    assert complete(prompt=sent).prompt == prompt


@pytest.mark.spec("API-027")
def test_messages_quote_nothing_of_a_prompt() -> None:
    secret = "s3cret"
    for fields in ({"prompt": [secret, 5]}, {"prompt": [5, secret]}, {"stop": [secret, ""]}):
        assert secret not in refusal_of(fields, "completion").message
    for messages in ([{"role": secret}], [{"role": "user", "content": [{"type": secret}]}], [secret]):
        assert secret not in refusal_of({"messages": messages}).message


@pytest.mark.spec("API-170")
def test_without_fields_a_request_is_greedy() -> None:
    assert to_rules(ask()) == to_rules(complete()) == SamplingRules()


@pytest.mark.spec("API-171")
def test_ends_of_the_ranges() -> None:
    low = ask(
        temperature=0,
        top_p=1e-9,
        min_p=0,
        top_k=-1,
        presence_penalty=-2,
        frequency_penalty=-2.0,
        repetition_penalty=1e-300,
        no_repeat_ngram_size=0,
        seed=-(2**63),
        logit_bias={"0": -100},
    ).rules
    assert (low.top_k, low.top_p, low.seed, low.logit_bias) == (0, 1e-9, -(2**63), {0: -100.0})
    assert low.repetition_penalty > 0
    high = ask(
        temperature=2,
        top_p=1,
        min_p=1,
        top_k=10**30,
        presence_penalty=2,
        frequency_penalty=2,
        repetition_penalty=1e300,
        no_repeat_ngram_size=4,
        seed=2**63 - 1,
        logit_bias={"999": 100.0},
    ).rules
    assert (high.temperature, high.no_repeat_ngram, high.seed) == (2.0, 4, 2**63 - 1)
    assert high.top_k < 2**31
    assert high.repetition_penalty < 3e38


def test_each_choice_has_its_own_index_in_the_rules() -> None:
    request = ask(n=3, seed=7)
    assert request.n == 3
    assert [to_rules(request, i).choice for i in range(3)] == [0, 1, 2]
    assert to_rules(request, 0) == request.rules


@pytest.mark.spec("API-032")
def test_best_of_one_or_n() -> None:
    assert complete(n=3, best_of=1).n == complete(n=3, best_of=3).n == 3


@pytest.mark.spec("API-033")
def test_the_newer_limit_wins() -> None:
    assert ask().limit is None
    assert ask(max_tokens=5).limit == 5
    assert ask(max_tokens=5, max_completion_tokens=9).limit == 9
    assert complete(max_tokens=5, max_completion_tokens=9).limit == 5
    assert ask(max_tokens=10**30).limit == 2**31 - 1


@pytest.mark.spec("API-033")
@pytest.mark.parametrize(
    ("asked", "prompt", "limit"),
    [(None, 10, 40), (5, 10, 5), (1000, 10, 90), (None, 70, 30), (None, 99, 1), (7, 99, 1), (7, 0, 7)],
)
def test_a_limit_is_lowered_to_what_fits(asked: int | None, prompt: int, limit: int) -> None:
    assert resolve_limit(asked, 40, prompt, 100) == limit


@pytest.mark.spec("API-045")
@pytest.mark.parametrize("prompt", [100, 101])
def test_a_prompt_that_leaves_no_room_is_refused(prompt: int) -> None:
    with pytest.raises(ApiError) as refusal:
        resolve_limit(1, 40, prompt, 100, "prompt")
    assert refusal.value.code == "context_length_exceeded"
    assert refusal.value.param == "prompt"
    assert refusal.value.extra == {"n_prompt_tokens": prompt, "n_ctx": 100}


@pytest.mark.spec("API-034")
def test_model_is_any_string() -> None:
    assert ask(model="gpt-4o").model == "gpt-4o"
    assert ask().model is None


@pytest.mark.spec("API-083")
@pytest.mark.parametrize(
    ("sent", "stops"),
    [("a", ("a",)), ([], ()), (None, ()), (["a"] * 16, ("a",) * 16), (["\n\n", "9.8"], ("\n\n", "9.8"))],
)
def test_stop_strings(sent: Any, stops: tuple[str, ...]) -> None:
    assert ask(stop=sent).stops == complete(stop=sent).stops == stops


@pytest.mark.spec("API-035")
def test_logprobs() -> None:
    assert ask(logprobs=False).rules.logprobs is None
    assert ask(logprobs=True).rules.logprobs == ask(logprobs=True, top_logprobs=0).rules.logprobs == 0
    assert ask(logprobs=True, top_logprobs=20).rules.logprobs == 20
    assert [complete(logprobs=n).rules.logprobs for n in (None, 0, 5)] == [None, 0, 5]


@pytest.mark.spec("API-037")
def test_stream_options() -> None:
    assert ask(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": 1}).include_usage is True
    assert ask(stream=True, stream_options={"include_usage": False}).include_usage is False
    for options in (None, {}, {"include_usage": None}):
        assert ask(stream=True, stream_options=options) == ask(stream=True)
    for stream in (False, None):
        assert ask(stream=stream, stream_options={"include_usage": True}) == ask()


@pytest.mark.spec("API-037")
def test_the_temperature_of_drafts_is_none_of_the_answers() -> None:
    for value in (0, 0.5, 2):
        assert ask(draft_temperature=value).rules == ask().rules
        assert ask(draft_temperature=value, temperature=0.7, seed=1).rules == ask(temperature=0.7, seed=1).rules
        assert complete(draft_temperature=value).rules == complete().rules
        assert ask(draft_temperature=value).rules.draft_temperature == value
    assert ask().rules.draft_temperature is None


@pytest.mark.spec("API-031")
def test_text_alone_is_a_modality() -> None:
    assert ask(modalities=["text"]) == ask()


def test_text_is_no_constraint() -> None:
    assert ask(response_format={"type": "text"}) == ask()


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
AS_SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
DOCUMENT = JsonSchema(SCHEMA, "response_format.json_schema.schema")
TOOLS = [tool("ls"), tool("rm")]
RM = {"type": "function", "function": {"name": "rm"}}


@pytest.mark.spec("API-117", "API-119", "API-125", "API-132", "API-135")
@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"response_format": {"type": "json_object"}}, JsonObject()),
        (AS_SCHEMA, DOCUMENT),
        ({"structured_outputs": {"json": SCHEMA}}, JsonSchema(SCHEMA, "structured_outputs.json")),
        ({"structured_outputs": {"regex": "a+"}}, Regex("a+", "structured_outputs.regex")),
        ({"structured_outputs": {"choice": ["a", "b"]}}, Choice(("a", "b"), "structured_outputs.choice")),
        ({"tools": TOOLS}, None),
        ({"tools": TOOLS, "tool_choice": "none"}, None),
        ({"tools": TOOLS, "tool_choice": "required"}, Calls(tuple(TOOLS), None, 16)),
        ({"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}, Calls(tuple(TOOLS), None, 1)),
        ({"tools": TOOLS, "tool_choice": RM}, Calls(tuple(TOOLS), ("rm",), 1)),
        ({"tools": TOOLS, "tool_choice": RM, "parallel_tool_calls": True}, Calls(tuple(TOOLS), ("rm",), 16)),
        ({"tools": TOOLS, **AS_SCHEMA}, CallsOrDocument(Calls(tuple(TOOLS), None, 16), DOCUMENT)),
        ({"tools": TOOLS, "tool_choice": "none", **AS_SCHEMA}, DOCUMENT),
        ({"tools": [], **AS_SCHEMA}, DOCUMENT),
        ({"tools": TOOLS, "tool_choice": "required", **AS_SCHEMA}, Calls(tuple(TOOLS), None, 16)),
    ],
)
def test_the_language_of_the_answer(fields: dict[str, Any], constraint: Constraint | None) -> None:
    assert ask(**fields).constraint == constraint


@pytest.mark.spec("API-135")
@pytest.mark.parametrize(
    ("fields", "param"),
    [({**AS_SCHEMA, "tools": TOOLS}, "tools"), ({"tool_choice": RM, "tools": TOOLS}, "tool_choice")],
)
def test_calls_that_are_not_xml_cannot_be_forced(fields: dict[str, Any], param: str) -> None:
    body = {"messages": [USER], **fields}
    pythonic = Defaults(tool_format="pythonic")
    with pytest.raises(ApiError) as refusal:
        parse_chat(body, lambda token: True, pythonic)
    assert refusal.value.param == param
    assert parse_chat({**body, "tool_choice": "none"}, lambda token: True, pythonic).single_call is False


@pytest.mark.spec("API-119")
def test_when_a_generation_ends_at_its_first_call() -> None:
    assert not ask(tools=TOOLS).single_call
    assert not ask(tools=TOOLS, parallel_tool_calls=True).single_call
    assert ask(tools=TOOLS, parallel_tool_calls=False).single_call
    assert ask(tools=TOOLS, tool_choice=RM).single_call
    assert not ask(tools=TOOLS, tool_choice=RM, parallel_tool_calls=True).single_call


@pytest.mark.spec("API-116")
def test_tool_choice_none_renders_no_tools() -> None:
    tools = [tool("ls"), tool("rm")]
    offered = ask(tools=tools, tool_choice="auto")
    assert offered == ask(tools=tools)
    assert conversation(offered, TODAY).tools == tuple(tools)
    assert conversation(ask(tools=tools, tool_choice="none"), TODAY).tools == ()


@pytest.mark.spec("API-116")
@pytest.mark.parametrize("choice", ["auto", "none", None])
@pytest.mark.parametrize("tools", [[], None])
def test_no_tools_with_any_free_choice(choice: Any, tools: Any) -> None:
    assert conversation(ask(tools=tools, tool_choice=choice), TODAY) == conversation(ask(), TODAY)


@pytest.mark.spec("API-249")
def test_only_the_conversation_loses_a_left_out_image() -> None:
    parts = [{"type": "image_url", "image_url": {"url": f"https://a.example/{n}"}} for n in range(2)]
    request = parse_chat({"messages": [{"role": "user", "content": parts}]}, is_token, Defaults(sight="sees"))
    kept = {"type": "image", "index": 1}
    images = LoadedImages(left_out=1, rows=(5,))
    found = conversation(request, TODAY, images)
    assert found.messages[0]["content"] == [{"type": "text", "text": LEFT_OUT}, kept]
    assert found.images is images
    assert conversation(request, TODAY).messages is request.messages
    assert request.messages[0]["content"] == [{"type": "image", "index": 0}, kept]


def test_the_conversation_of_a_request() -> None:
    found = conversation(ask(chat_template_kwargs={"style": "terse"}), TODAY)
    assert found.messages == (USER,)
    assert found.template_kwargs == {"style": "terse"}
    assert found.today == TODAY
