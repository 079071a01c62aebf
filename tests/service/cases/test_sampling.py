"""Case R: limits, choices, log-probabilities and sampling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import trio.testing

from tests.service.cases.asking import (
    BLOCK,
    BLOCKS,
    CHAT,
    JSON_OBJECT,
    STREAMED,
    TEXT,
    ask,
    ask_all,
    counted,
    refused,
    tool,
    written,
)
from tests.service.harness import Call, chat, fake, open_harness
from tests.service.said import all_said, said
from tests.service.test_resident import open_real
from tests.tiny import build_llama

LS = tool("ls", {"path": "string"})
CALL = written("ls", path="/tmp")


def entries(call: Call) -> list[dict[str, Any]]:
    """The log-probabilities of a chat answer's tokens, of all chunks together."""
    if call.headers["content-type"].startswith("text/event-stream"):
        choices = [choice for chunk in call.chunks for choice in chunk["choices"]]
    else:
        choices = call.json["choices"]
    return [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]]


def legacy(call: Call) -> dict[str, list[Any]]:
    """Those of a text completion."""
    if call.headers["content-type"].startswith("text/event-stream"):
        parts = [choice["logprobs"] for chunk in call.chunks for choice in chunk["choices"] if choice["logprobs"]]
    else:
        parts = [call.json["choices"][0]["logprobs"]]
    keys = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    return {key: [value for part in parts for value in part[key]] for key in keys}


def numbers(shown: list[dict[str, Any]]) -> list[float]:
    return [entry["logprob"] for entry in shown]


@STREAMED
@BLOCK
@pytest.mark.spec("API-033", "API-078", "API-158")
async def test_r01_the_newer_limit_wins_and_counts_the_thinking(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        say = "<think> a b c</think> d e f"
        for fields, limit in (
            ({"max_completion_tokens": 3}, 3),
            ({"max_completion_tokens": 6, "max_tokens": 2}, 6),
            ({"max_completion_tokens": 2, "max_tokens": 6}, 2),
            ({"max_completion_tokens": None, "max_tokens": 4}, 4),
        ):
            answer = await ask(harness, say, stream=stream, block=block, **fields)
            assert answer.finish == "length"
            assert counted(answer)[0] == limit
            assert (answer.reasoning or "").count(" ") + (answer.content or "").count(" ") == limit - 1 - (limit > 4)
        for name in ("max_tokens", "max_completion_tokens"):
            for bad in (0, -1, 1.5, "5", True, [5]):
                assert (await refused(harness, chat("x", stream=stream, **{name: bad})))["param"] == name
        whole = await ask(harness, say, stream=stream, max_completion_tokens=10**30)
        assert whole.finish == "stop"


@pytest.mark.spec("API-032", "ENG-083", "API-105")
async def test_r02_choices(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        single = await ask(harness, "one two", stream=False)
        for n in (1, 2, 3, 16):
            call = await harness.client.send(CHAT, chat({"say": "one two", "block": 1}, n=n))
            assert [choice["index"] for choice in call.json["choices"]] == list(range(n))
            assert {choice["finish_reason"] for choice in call.json["choices"]} == {"stop"}
            usage = call.json["usage"]
            assert usage["prompt_tokens"] == single.usage["prompt_tokens"]
            assert usage["completion_tokens"] == n * single.usage["completion_tokens"]
            text = await harness.client.send(TEXT, {"prompt": fake(say="one two"), "n": n, "best_of": n})
            assert [choice["text"] for choice in text.json["choices"]] == ["one two"] * n
        for path, body in ((CHAT, chat("x")), (TEXT, {"prompt": "x"})):
            for bad in (0, 17, -1, 1.5, "2", True):
                assert (await refused(harness, {**body, "n": bad}, path))["param"] == "n"
            assert (await refused(harness, {**body, "n": 2, "stream": True}, path))["param"] == "n"
            assert (await harness.client.send(path, {**body, "n": 1, "stream": True})).status == 200
        assert (await refused(harness, {"prompt": "x", "n": 2, "best_of": 3}, TEXT))["param"] == "best_of"


@pytest.mark.spec("API-032", "API-173", "ENG-083")
async def test_r02_each_choice_draws_and_ends_by_itself(autojump_clock: trio.testing.MockClock) -> None:
    """By seed and index, whatever else is asked; choice 0 is the single answer."""
    async with open_harness() as harness:
        # The end token is drawn now and then, so choices end at different places.
        fields: dict[str, Any] = {"temperature": 2, "seed": 5, "logit_bias": {"151645": 27}, "max_tokens": 8}
        say = list("abcdefgh")
        many = await ask_all(harness, say, n=8, **fields)
        assert len({answer.content for answer in many}) > 1
        assert {answer.finish for answer in many} == {"stop", "length"}
        assert many == await ask_all(harness, say, n=8, **fields)
        few = await ask_all(harness, say, n=3, **fields)
        assert [answer.content for answer in few] == [answer.content for answer in many[:3]]
        single = await ask(harness, say, stream=False, **fields)
        assert (single.content, single.finish) == (many[0].content, many[0].finish)
        calls = all_said(await harness.client.send(CHAT, chat({"say": f"{CALL}\n{CALL}"}, n=4, tools=[LS])))
        assert [len(answer.calls) for answer in calls] == [2] * 4
        assert len({call.id for answer in calls for call in answer.calls}) == 8


@STREAMED
@BLOCK
@pytest.mark.spec("API-035", "ENG-082")
async def test_r04_how_many_are_shown(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    async with open_harness() as harness:
        for fields, count in (({}, 0), ({"top_logprobs": 0}, 0), ({"top_logprobs": 1}, 1), ({"top_logprobs": 20}, 20)):
            call = await harness.client.send(
                CHAT, chat({"say": "a b", "block": block}, stream=stream, logprobs=True, **fields)
            )
            assert [entry["token"] for entry in entries(call)] == ["a", " b"]
            assert [len(entry["top_logprobs"]) for entry in entries(call)] == [count] * 2
            assert all(entry["top_logprobs"][0]["logprob"] == entry["logprob"] for entry in entries(call) if count)
        for bad in (21, -1, 1.5, "3", True):
            error = await refused(harness, chat("x", stream=stream, logprobs=True, top_logprobs=bad))
            assert error["param"] == "top_logprobs"
        for alone in (
            {"top_logprobs": 0},
            {"top_logprobs": 2, "logprobs": False},
            {"top_logprobs": 2, "logprobs": None},
        ):
            assert (await refused(harness, chat("x", stream=stream, **alone)))["param"] == "top_logprobs"
        assert (await refused(harness, chat("x", stream=stream, logprobs=3)))["param"] == "logprobs"
        for count in (0, 1, 5):
            body = {"prompt": fake(say="a b", block=block), "stream": stream, "logprobs": count}
            shown = legacy(await harness.client.send(TEXT, body))
            assert (shown["tokens"], shown["text_offset"]) == (["a", " b"], [0, 1])
            assert all(max(count, 1) <= len(top) for top in shown["top_logprobs"])
        for bad in (6, -1, True, "1"):
            assert (await refused(harness, {"prompt": "x", "stream": stream, "logprobs": bad}, TEXT))[
                "param"
            ] == "logprobs"


@STREAMED
@pytest.mark.spec("ENG-082", "API-035")
async def test_r05_the_same_numbers_whatever_a_round_holds(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    async with open_harness() as harness:
        for say, fields in (
            ("a b c a b c", {}),
            ("<think>a b</think> a b", {}),
            ("a b c", {"presence_penalty": 1, "logit_bias": {"98": 59.5}}),
            ('{"a": 1}', JSON_OBJECT),
            (CALL, {"tools": [LS], "tool_choice": "required"}),
        ):
            shown = []
            for block in BLOCKS:
                body = chat({"say": say, "block": block}, stream=stream, logprobs=True, top_logprobs=2, **fields)
                shown.append(entries(await harness.client.send(CHAT, body)))
            for other in shown[1:]:
                assert [entry["token"] for entry in other] == [entry["token"] for entry in shown[0]]
                assert numbers(other) == pytest.approx(numbers(shown[0]), abs=1e-3)


@STREAMED
@BLOCK
@pytest.mark.spec("API-035", "API-110", "API-112")
async def test_r07_beside_tools_on_a_stream(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    """Those of the content's tokens, in order; nothing of the call, and the call as without them."""
    async with open_harness() as harness:
        for say, content in (
            ("one two", "one two"),
            (CALL, ""),
            (f"<think>why so</think>\n\nI look\n{CALL}", "I look"),
            (f"I look\n{CALL}\nand", "I lookand"),
            ("I look <tool_call> not", "I look"),
            ('{"name": "ls"}', '{"name": "ls"}'),
        ):
            fields: dict[str, Any] = {"stream": stream, "tools": [LS]}
            body = chat({"say": say, "block": block}, logprobs=True, top_logprobs=1, **fields)
            call = await harness.client.send(CHAT, body)
            answer = said(call)
            plain = await ask(harness, say, block=block, **fields)
            assert (answer.content, answer.reasoning, answer.finish) == (plain.content, plain.reasoning, plain.finish)
            assert [each.arguments for each in answer.calls] == [each.arguments for each in plain.calls]
            assert counted(answer) == counted(plain)
            text = "".join(entry["token"] for entry in entries(call))
            assert text.strip() == (answer.content or "").strip()
            assert text.startswith(content) or stream
            for forced in ("required", {"type": "function", "function": {"name": "ls"}}):
                call = await harness.client.send(
                    CHAT, chat({"say": CALL, "block": block}, logprobs=True, tool_choice=forced, **fields)
                )
                assert (said(call).finish, entries(call)) == ("tool_calls", [])


@STREAMED
@BLOCK
@pytest.mark.spec("API-035", "ENG-082", "API-083")
async def test_r07_the_tokens_shown_are_the_content(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    """Their bytes together are the content's, in every reasoning format, with a stop string and characters cut."""
    async with open_harness() as harness:
        for say, fields in (
            ("one two", {}),
            ("<think>why</think>one", {}),
            ("<think>why</think>one", {"reasoning_format": "tags"}),
            ("<think>why</think>one", {"reasoning_format": "both"}),
            (["a", "E", "N", "X"], {"stop": ["END"]}),
            (["a", {"bytes": "f09f"}, {"bytes": "9880"}, "b"], {}),
            ('{"a": [1]}', JSON_OBJECT),
        ):
            body = chat({"say": say, "block": block}, stream=stream, logprobs=True, **fields)
            call = await harness.client.send(CHAT, body)
            data = b"".join(bytes(entry["bytes"]) for entry in entries(call))
            # The opening tag is the server's where it is shown: no token wrote it there.
            assert data.decode() == (said(call).content or "").removeprefix("<think>")


@pytest.mark.spec("API-173", "ENG-067", "ENG-083")
async def test_r08_a_seed_beside_neighbours(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        fields: dict[str, Any] = {"seed": 3, "temperature": 2, "logit_bias": {"97": 58, "98": 58}}
        alone = await ask(harness, list("abcdefgh"), stream=False, **fields)
        others = [harness.client.start(CHAT, chat({"say": "x y z"}, seed=9, temperature=1, n=2)) for _ in range(3)]
        beside = await ask(harness, list("abcdefgh"), stream=True, **fields)
        for other in others:
            await other.finished.wait()
        assert beside.content == alone.content
        for block in BLOCKS:
            assert (await ask(harness, list("abcdefgh"), stream=True, block=block, **fields)).content == alone.content
        for bad in (2**63, -(2**63) - 1, 1.5, "1", True):
            assert (await refused(harness, chat("x", seed=bad)))["param"] == "seed"
        for good in (0, -1, 2**63 - 1, -(2**63), None):
            assert (await harness.client.send(CHAT, chat("x", seed=good))).status == 200


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Path]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield build_llama(tmp_path / "tiny")
    torch.set_num_threads(before)


@pytest.mark.spec("API-173", "ENG-067", "API-157")
async def test_r08_a_seed_on_a_model_cold_and_resumed(checkpoint: Path) -> None:
    """The tiny model repeats a seeded text, with others between and with most of the prompt found in the cache."""
    async with open_real(checkpoint) as (client, _):
        words = "the quick brown fox jumps over the lazy dog and says so to everyone it meets"
        body = {
            "messages": [{"role": "system", "content": words}, {"role": "user", "content": words}],
            "temperature": 1,
            "seed": 11,
            "max_tokens": 12,
        }
        first = (await client.send(CHAT, body)).json
        again = (await client.send(CHAT, body)).json
        await client.send(CHAT, {**body, "seed": 12, "n": 2})
        third = await client.send(CHAT, {**body, "stream": True})
        assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        assert again["choices"] == first["choices"]
        assert third.text == first["choices"][0]["message"]["content"]
        many = (await client.send(CHAT, {**body, "n": 3})).json["choices"]
        assert many[0]["message"] == first["choices"][0]["message"]


@STREAMED
@BLOCK
@pytest.mark.spec("ENG-077", "ENG-078", "API-172", "ENG-070")
async def test_r10_what_penalties_count(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    """Presence and frequency the output alone, repetition the prompt too; the script stands in the prompt."""
    async with open_harness() as harness:
        fields: dict[str, Any] = {"stream": stream, "block": block, "logit_bias": {"66": 58.5}}
        say = ["a"] * 6
        assert (await ask(harness, say, **fields)).content == "aaaaaa"
        # 60 for the script's `a` against 58.5 for `B`, less what each has cost so far.
        assert (await ask(harness, say, presence_penalty=2, **fields)).content == "aBaaaa"
        assert (await ask(harness, say, frequency_penalty=1, **fields)).content == "aaBaBa"
        assert (await ask(harness, say, presence_penalty=-2, **fields)).content == "aaaaaa"
        # The bias comes after the penalties, so `B` keeps it however often it was written.
        repeated = await ask(harness, say, repetition_penalty=1.1, max_tokens=6, **fields)
        assert repeated.content == "BBBBBB"


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("temperature", (-0.1, 2.1, "1", True, [1])),
        ("top_p", (0, 1.1, -1, "x")),
        ("min_p", (-0.1, 1.1)),
        ("top_k", (-2, 1.5, "1")),
        ("presence_penalty", (-2.1, 2.1, "0")),
        ("frequency_penalty", (-2.1, 2.1)),
        ("repetition_penalty", (0, -1, "1")),
        ("no_repeat_ngram_size", (-1, 1.5)),
        (
            "logit_bias",
            ({"151936": 1}, {"-1": 1}, {"x": 1}, {"1": 101}, {"1": None}, {"1": "1"}, [1], {"01": 1}, {"1e3": 1}),
        ),
        ("draft_temperature", (-1, 3)),
    ],
)
@pytest.mark.spec("API-171", "ENG-080", "API-037")
async def test_r10_out_of_range(autojump_clock: trio.testing.MockClock, name: str, bad: tuple[Any, ...]) -> None:
    async with open_harness() as harness:
        for value in bad:
            for path, body in ((CHAT, chat("x")), (TEXT, {"prompt": "x"})):
                assert (await refused(harness, {**body, name: value}, path))["param"] == name, value
        for raw in (b'{"messages":[{"role":"user","content":"x"}],"%b":NaN}', b'{"prompt":"x","%b":1e999}'):
            call = await harness.client.send(CHAT if b"messages" in raw else TEXT, raw % name.encode(), method="POST")
            assert call.status == 400


@STREAMED
@pytest.mark.spec("API-170", "API-171", "API-172")
async def test_r_every_sampling_field_at_its_ends(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    fields: dict[str, Any]
    async with open_harness() as harness:
        for fields in (
            {"temperature": 2, "top_p": 1e-9},
            {"temperature": 0, "top_p": 1, "top_k": -1, "min_p": 0},
            {"temperature": 1, "min_p": 1},
            {"temperature": 1e-9},
            {"temperature": 2, "top_k": 1},
            {"top_k": 10**12, "temperature": 1},
            {"repetition_penalty": 1e300},
            {"repetition_penalty": 1e-300},
            {"no_repeat_ngram_size": 10**9},
            {"no_repeat_ngram_size": 1},
            {"logit_bias": {}},
            {"logit_bias": {"151935": -100}},
        ):
            answer = await ask(harness, "one two", stream=stream, max_tokens=5, **fields)
            assert answer.finish in ("stop", "length")
            assert answer.content is not None
