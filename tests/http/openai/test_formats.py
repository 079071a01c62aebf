"""Where the reasoning goes: the choice of a format, and what each makes of the same deltas, streamed or not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tandem.conductor.router.client_kind import ClientKind
from tandem.engine.text.reading.deltas import (
    Blank,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Delta,
    FinishReason,
    Reasoning,
    ReasoningEnd,
    ReasoningStart,
)
from tandem.engine.verbs import TokenLogprob
from tandem.http.openai import errors
from tandem.http.openai.answers import Answer, chat_body
from tandem.http.openai.chunks import ChatStream
from tandem.http.openai.formats import (
    PLAN_FORMATS,
    ReasoningFormat,
    choose_format,
    stop_scope,
    wants_blank_lines,
)
from tests.http.openai.samples import CALL, Names, finish
from tests.http.openai.sse import content_of, objects

FORMATS: tuple[ReasoningFormat, ...] = get_args(ReasoningFormat)
KINDS: tuple[str, ...] = get_args(ClientKind)
PLAIN = ("curl", "openai-sdk", "anon")
NAMES = Names(b"a", b"b", b"</think>", b"\n\n", b"c", b"d")


def logprob(token: int) -> tuple[TokenLogprob, ...]:
    return (TokenLogprob(token, -0.5),)


THOUGHT: list[Delta] = [
    ReasoningStart(),
    Reasoning("a", logprob(0)),
    Reasoning("b", logprob(1)),
    ReasoningEnd(logprob(2)),
    Blank("\n\n", logprob(3)),
]
ANSWER: list[Delta] = [Content("c", logprob(4)), Content("d", logprob(5))]


def streamed(deltas: Sequence[Delta], reason: FinishReason = "stop", **options: Any) -> list[dict[str, Any]]:
    stream = ChatStream(id="chatcmpl-1", created=7, model="M", **options)
    chunks = objects(stream.open() + b"".join(stream.feed([delta]) for delta in [*deltas, finish(reason)]))
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    return chunks


def whole(deltas: Sequence[Delta], reason: FinishReason = "stop", **options: Any) -> dict[str, Any]:
    answer = Answer()
    answer.feed([*deltas, finish(reason)])
    body = json.loads(chat_body(id="chatcmpl-1", created=7, model="M", answers=[answer], **options))
    ChatCompletion.model_validate(body)
    [choice] = body["choices"]
    assert isinstance(choice, dict)
    return choice


def texts_of(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The deltas that hold text, after the role's."""
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[1:-1]]
    return [delta for delta in deltas if "tool_calls" not in delta]


def tokens_of(entries: Sequence[dict[str, Any]]) -> str:
    return "".join(entry["token"] for entry in entries)


# --- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("API-072")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("server", FORMATS)
@pytest.mark.parametrize("wants_json", [True, False])
def test_what_the_request_names_always_wins(server: ReasoningFormat, kind: str, wants_json: bool) -> None:
    for asked in FORMATS:
        assert choose_format(asked, server, kind, wants_json=wants_json) == asked
        assert choose_format(asked, server, kind, wants_json=wants_json, plan_formats=PLAN_FORMATS) == asked


@pytest.mark.spec("API-072")
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_says_so_decides_for_every_client(kind: str) -> None:
    for server in FORMATS[1:]:
        assert choose_format(None, server, kind, wants_json=False) == server
        assert choose_format(None, server, kind, wants_json=False, plan_formats=PLAN_FORMATS) == server


@pytest.mark.spec("API-074")
@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_decides_on_the_raw_path(kind: str) -> None:
    expected = "reasoning_content" if kind in PLAIN else "tags"
    assert choose_format(None, "tags", kind, wants_json=False) == expected


def test_the_map_decides_under_a_plan() -> None:
    def under(plan_formats: dict[str, ReasoningFormat], kind: str) -> ReasoningFormat:
        return choose_format(None, "tags", kind, wants_json=False, plan_formats=plan_formats)

    assert {kind: under(dict(PLAN_FORMATS), kind) for kind in KINDS} == {
        kind: "tags" if kind == "hermes" else "reasoning_content" for kind in KINDS
    }
    assert {under({}, kind) for kind in KINDS} == {"tags"}
    assert under({"curl": "both"}, "curl") == "both"


@pytest.mark.spec("API-130")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("server", FORMATS)
def test_a_json_answer_is_alone_in_its_content(server: ReasoningFormat, kind: str) -> None:
    assert choose_format(None, server, kind, wants_json=True) == "reasoning_content"
    assert not wants_blank_lines("reasoning_content", kind, wants_json=True)


@pytest.mark.spec("API-086")
@pytest.mark.parametrize("kind", KINDS)
def test_stop_strings_are_matched_in_the_answer_of_a_plain_client(kind: str) -> None:
    scopes = {format: stop_scope(format, kind) for format in FORMATS}
    answer = "answer" if kind in PLAIN else "all"
    assert scopes == {"tags": "all", "reasoning_content": answer, "both": "all"}
    assert {stop_scope(format, kind, under_plan=True) for format in FORMATS} == {"answer"}


@pytest.mark.spec("API-076")
def test_blank_lines_are_for_one_client_and_one_format() -> None:
    found = {
        (kind, format) for kind in KINDS for format in FORMATS if wants_blank_lines(format, kind, wants_json=False)
    }
    assert found == {("open-webui", "reasoning_content")}


# --- the same deltas in every format ---------------------------------------------------------------------------------

CASES: dict[str, tuple[list[Delta], dict[ReasoningFormat, tuple[str | None, str | None]]]] = {
    "a thought and an answer": (
        [*THOUGHT, *ANSWER],
        {
            "tags": ("<think>ab</think>\n\ncd", None),
            "reasoning_content": ("cd", "ab"),
            "both": ("<think>ab</think>\n\ncd", "ab"),
        },
    ),
    "cut in its reasoning": (
        THOUGHT[:3],
        {"tags": ("<think>ab", None), "reasoning_content": ("", "ab"), "both": ("<think>ab", "ab")},
    ),
    "an empty block": (
        [ReasoningStart(), ReasoningEnd(), *ANSWER],
        {
            "tags": ("<think></think>cd", None),
            "reasoning_content": ("cd", None),
            "both": ("<think></think>cd", None),
        },
    ),
    "no block": (ANSWER, dict.fromkeys(FORMATS, ("cd", None))),
    "a pair in the answer": (
        [*THOUGHT[:2], ReasoningEnd(), Content("x<think>b</think>y")],
        {
            "tags": ("<think>a</think>x<think>b</think>y", None),
            "reasoning_content": ("x<think>b</think>y", "a"),
            "both": ("<think>a</think>x<think>b</think>y", "a"),
        },
    ),
    "a direct call": (
        [*THOUGHT, *CALL],
        {
            "tags": ("<think>ab</think>\n\n", None),
            "reasoning_content": (None, "ab"),
            "both": ("<think>ab</think>\n\n", "ab"),
        },
    ),
    "a call without a block": (CALL, dict.fromkeys(FORMATS, (None, None))),
    "nothing": ([], dict.fromkeys(FORMATS, ("", None))),
}


@pytest.mark.spec("API-044", "API-075", "API-076", "API-077", "API-078", "API-257")
@pytest.mark.parametrize("alias", [True, False])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_content_and_reasoning(case: str, format: ReasoningFormat, alias: bool) -> None:
    deltas, expected = CASES[case]
    content, reasoning = expected[format]
    options: dict[str, Any] = {"reasoning_format": format, "reasoning_alias": alias}
    message = whole(deltas, **options)["message"]
    assert (message["content"], message.get("reasoning_content")) == (content, reasoning)
    assert message.get("reasoning") == (reasoning if alias else None)
    chunks = streamed(deltas, **options)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert content_of(chunks) == (content or "")
    assert content_of(chunks, "reasoning_content") == (reasoning or "")
    for delta in texts_of(chunks):
        assert delta.get("reasoning") == (delta.get("reasoning_content") if alias else None)


@pytest.mark.spec("API-075", "API-139")
def test_the_chunks_of_a_thought() -> None:
    def chunks(format: ReasoningFormat) -> list[dict[str, Any]]:
        return texts_of(streamed([*THOUGHT, *ANSWER], reasoning_format=format, reasoning_alias=False))

    apart = [{"reasoning_content": "a"}, {"reasoning_content": "b"}]
    assert chunks("reasoning_content") == [*apart, {"content": "c"}, {"content": "d"}]
    tags = [{"content": text} for text in ("<think>", "a", "b", "</think>", "\n\n", "c", "d")]
    assert chunks("tags") == tags
    assert chunks("both") == [tags[0], {**tags[1], **apart[0]}, {**tags[2], **apart[1]}, *tags[3:]]


@pytest.mark.spec("API-035")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_logprobs_are_those_of_the_content(case: str, format: ReasoningFormat) -> None:
    deltas, _ = CASES[case]
    expected = {"a thought and an answer": "ab</think>\n\ncd", "cut in its reasoning": "ab", "an empty block": "cd"}
    expected |= {"no block": "cd", "a pair in the answer": "a", "a direct call": "ab</think>\n\n"}
    tokens = expected.get(case, "")
    if format == "reasoning_content":
        tokens = "cd" if tokens.endswith("cd") else ""
    options: dict[str, Any] = {"reasoning_format": format, "names": NAMES}
    assert tokens_of(whole(deltas, **options)["logprobs"]["content"]) == tokens
    found = [chunk["choices"][0] for chunk in streamed(deltas, **options)]
    assert (
        tokens_of([entry for choice in found if choice["logprobs"] for entry in choice["logprobs"]["content"]])
        == tokens
    )
    for choice in found:
        for entry in (choice["logprobs"] or {"content": []})["content"]:
            assert entry["token"] in choice["delta"]["content"]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
tokens = st.lists(st.integers(0, 5), max_size=2).map(lambda ids: tuple(TokenLogprob(id, -0.5) for id in ids))


@st.composite
def choices(draw: st.DrawFn) -> list[Delta]:
    """Everything a reader may say of one choice but its end."""
    said: list[Delta] = []
    if draw(st.booleans()):
        said = [ReasoningStart(), *draw(st.lists(st.builds(Reasoning, texts, tokens), max_size=4))]
        if draw(st.booleans()):
            return said
        said.append(draw(st.builds(ReasoningEnd, tokens)))
        said += draw(st.lists(st.builds(Blank, st.sampled_from(["\n", "\n\n", " \n"]), tokens), max_size=1))
    said += draw(st.lists(st.builds(Content, texts, tokens), max_size=4))
    if draw(st.booleans()):
        said += [CallStart(0, "c", "f"), *draw(st.lists(st.builds(CallArguments, st.just(0), texts))), CallEnd(0)]
    return said


@given(choices(), st.sampled_from(FORMATS), st.booleans(), st.none() | st.just(NAMES))
def test_a_joined_stream_is_the_body(
    deltas: list[Delta], format: ReasoningFormat, alias: bool, names: Names | None
) -> None:
    options: dict[str, Any] = {"reasoning_format": format, "reasoning_alias": alias, "names": names}
    chunks, choice = streamed(deltas, "length", **options), whole(deltas, "length", **options)
    message = choice["message"]
    assert content_of(chunks) == (message["content"] or "")
    for name in ("reasoning_content", "reasoning"):
        assert content_of(chunks, name) == message.get(name, "")
    found = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    entries = [entry for logprobs in found if logprobs for entry in logprobs["content"]]
    assert entries == (choice["logprobs"] or {"content": []})["content"]
    assert (choice["logprobs"] is None) is (names is None)


# --- the client that times the block ---------------------------------------------------------------------------------


def timed(deltas: Sequence[Delta], **options: Any) -> list[dict[str, Any]]:
    chunks = streamed(deltas, blank_lines=True, reasoning_alias=False, **options)
    return [chunk["choices"][0]["delta"] for chunk in chunks[1:-1]]


@pytest.mark.spec("API-076")
def test_blank_lines_end_the_block() -> None:
    assert timed([*THOUGHT, *ANSWER])[2:] == [{"content": "\n\n"}, {"content": "c"}, {"content": "d"}]
    before_call = timed([*THOUGHT, *CALL])[2:4]
    assert before_call[0] == {"content": "\n\n"}
    assert "tool_calls" in before_call[1]


@pytest.mark.spec("API-076")
def test_a_direct_call_without_blank_lines_ends_the_block_all_the_same() -> None:
    found = timed([*THOUGHT[:4], *CALL])
    assert found[2] == {"content": "\n"}
    assert ["content" in delta for delta in found].count(True) == 1
    empty = timed([ReasoningStart(), ReasoningEnd(), Content(""), *CALL])
    assert empty[0] == {"content": "\n"}


@pytest.mark.parametrize(
    "deltas", [ANSWER, [*THOUGHT[:4], *ANSWER], CALL, [*ANSWER, *CALL], [*THOUGHT[:4], *ANSWER, *CALL], THOUGHT[:4]]
)
def test_no_blank_line_is_made_up_where_none_is_needed(deltas: list[Delta]) -> None:
    for names in (None, NAMES):
        said = "".join(delta.get("content", "") for delta in timed(deltas, names=names))
        assert said == ("cd" if ANSWER[0] in deltas else "")


@pytest.mark.parametrize("format", ["tags", "both"])
def test_blank_lines_are_sent_once_in_the_other_formats(format: ReasoningFormat) -> None:
    for deltas in ([*THOUGHT, *ANSWER], [*THOUGHT[:4], *CALL]):
        chunks = streamed(deltas, reasoning_format=format, reasoning_alias=False)
        assert timed(deltas, reasoning_format=format) == [chunk["choices"][0]["delta"] for chunk in chunks[1:-1]]


def test_the_logprobs_of_blank_lines_go_with_them() -> None:
    chunks = streamed([*THOUGHT, *ANSWER], blank_lines=True, names=NAMES)
    [blank] = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["delta"].get("content") == "\n\n"]
    assert tokens_of(blank["logprobs"]["content"]) == "\n\n"


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("API-078")
@pytest.mark.parametrize("format", FORMATS)
def test_a_response_that_ends_inside_its_reasoning(format: ReasoningFormat) -> None:
    assert whole(THOUGHT[:3], "length", reasoning_format=format)["finish_reason"] == "length"
    assert streamed(THOUGHT[:3], "length", reasoning_format=format)[-1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.spec("API-145")
@pytest.mark.parametrize("format", FORMATS)
def test_a_failure_inside_the_reasoning(format: ReasoningFormat) -> None:
    stream = ChatStream(id="chatcmpl-1", created=7, model="M", reasoning_format=format)
    stream.feed(THOUGHT[:3])
    [last] = objects(stream.fail(errors.memory()))
    assert last["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "error"}]
    assert last["error"]["code"] == "memory"
    assert stream.feed([ReasoningEnd(), *ANSWER]) == b""
