"""Cases A to C: reasoning and answer told apart, the budget of the reasoning, and stop strings beside it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio.testing

from tandem.engine.fake import FakeEngine
from tandem.engine.text.closing import CLOSING_PHRASE
from tests.service.cases.asking import (
    BLOCK,
    BLOCKS,
    CHAT,
    JSON_OBJECT,
    STREAMED,
    TEXT,
    Recording,
    ask,
    ask_all,
    counted,
    refused,
    returned,
    shared,
    take_turn,
    tool,
    written,
)
from tests.service.harness import chat, fake, open_harness
from tests.service.said import said

OFF: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
PHRASE = CLOSING_PHRASE.partition("</think>")[0]
"""What the client reads of a forced closer."""
LS = tool("ls", {"path": "string"})


def closer_tokens() -> int:
    """Tokens of the forced closer through its tag: what the reasoning counts of it."""
    return len(FakeEngine().text.encode_own(PHRASE)) + 1


def words(count: int) -> str:
    """Text of `count` tokens."""
    return " w" * count


# --- A: reasoning split -----------------------------------------------------------------------------------------------


@STREAMED
@BLOCK
@pytest.mark.spec("API-077", "API-087")
async def test_a01_thinking_off_leaves_all_in_the_content(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        for off in (OFF, {"enable_thinking": False}, {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}):
            call = await harness.client.send(CHAT, chat({"say": "Hi there", "block": block}, stream=stream, **off))
            assert call.text == "Hi there"
            assert b"reasoning_content" not in call.body
            assert b'"reasoning":' not in call.body
            assert b"think" not in call.body


@STREAMED
@pytest.mark.spec("API-257", "API-258", "ENG-185", "ENG-184")
async def test_a02_no_tag_text_wherever_the_tags_are_cut(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    """The opening tag is written by the model or, where the script only closes the block, by the prompt."""
    async with open_harness() as harness:
        for text in ("<think>easy</think>\n\n4", "easy</think>\n\n4", " \n<think>easy</think>4"):
            for at in range(1, len(text)):
                call = await harness.client.send(CHAT, chat({"say": [text[:at], text[at:]]}, stream=stream))
                assert (said(call).reasoning, said(call).content) == ("easy", "4"), at
                assert b"think>" not in call.body
            letters = await ask(harness, list(text), stream=stream, block=3)
            assert (letters.reasoning, letters.content) == ("easy", "4")


@STREAMED
@BLOCK
@pytest.mark.spec("API-126", "API-130", "ENG-087")
async def test_a04_json_mode_keeps_the_reasoning_apart(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        say = '<think>a {b}</think>{"k":1}'
        for kind in ("anon", "opencode", "open-webui", "hermes"):
            call = await harness.client.send(
                CHAT,
                chat({"say": say, "block": block}, stream=stream, **JSON_OBJECT),
                headers={"x-tandem-client": kind},
            )
            assert call.text == '{"k":1}', kind
            assert said(call).reasoning == "a {b}"
        answer = await ask(harness, say, stream=stream, block=block, **JSON_OBJECT)
        assert (answer.content, answer.reasoning, answer.finish) == ('{"k":1}', "a {b}", "stop")


@STREAMED
@BLOCK
@pytest.mark.spec("API-114", "API-116")
async def test_a05_tool_choice_none_leaves_a_call_as_written(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        say = written("ls", path="/")
        fields: dict[str, Any]
        for fields in ({"tools": [LS], "tool_choice": "none"}, {}, {"tools": []}):
            answer = await ask(harness, say, stream=stream, block=block, **fields)
            assert (answer.content, answer.calls, answer.finish) == (say, [], "stop")


@STREAMED
@pytest.mark.spec("API-042", "API-257")
async def test_a07_both_names_of_the_reasoning_in_history(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    """And what the first turn wrote is found whole in the prompt of the second."""
    async with open_harness(engine=Recording()) as harness:
        asked = {"role": "user", "content": fake(say="<think>\neasy\n</think>\n\n4")}
        first = await take_turn(harness, [asked], stream=stream)
        assert (first.said.reasoning, first.said.content) == ("\neasy\n", "4")
        more = {"role": "user", "content": "and 3+3?"}
        second = await take_turn(harness, [asked, returned(first.said), more], stream=stream)
        assert shared(first.whole, second.prompt) == len(first.whole)
        message = {"role": "assistant", "content": "4", "reasoning": "easy"}
        other = await take_turn(harness, [asked, message, more], stream=stream)
        both = await take_turn(harness, [asked, {**message, "reasoning_content": "easy"}, more], stream=stream)
        assert second.prompt == other.prompt == both.prompt
        # Without it only what stands before the block is found.
        bare = await take_turn(harness, [asked, {"role": "assistant", "content": "4"}, more], stream=stream)
        assert shared(first.whole, bare.prompt) == len(first.prompt)


@STREAMED
@BLOCK
@pytest.mark.spec("API-258", "ENG-185")
async def test_a08_only_the_first_block_is_split_off(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        answer = await ask(harness, "<think>a</think>x<think>b</think>y", stream=stream, block=block)
        assert (answer.reasoning, answer.content) == ("a", "x<think>b</think>y")
        late = await ask(harness, "x<think>b</think>y", stream=stream, block=block)
        assert (late.reasoning, late.content) == (None, "x<think>b</think>y")
        empty = await ask(harness, "<think></think>y", stream=stream, block=block)
        assert (empty.reasoning, empty.content) == (None, "y")
        nested = await ask(harness, "<think>a<think>b</think>c</think>d", stream=stream, block=block)
        assert (nested.reasoning, nested.content) == ("a<think>b", "c</think>d")


@STREAMED
@BLOCK
@pytest.mark.spec("API-078", "API-044", "API-158")
async def test_a10_the_limit_inside_the_reasoning(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        say = f"<think>{words(50)}</think>x"
        for fields in ({}, {"tools": [LS]}, {"tools": [LS], "tool_choice": "required"}):
            answer = await ask(harness, say, stream=stream, block=block, max_tokens=8, **fields)
            assert (answer.content, answer.finish) == ("", "length")
            assert answer.reasoning == words(7)
            assert counted(answer) == (8, 8)
        opened = await ask(harness, f"{words(50)}</think>x", stream=stream, block=block, max_tokens=8)
        assert (opened.reasoning, opened.content, counted(opened)) == (words(8), "", (8, 8))
        tags = await ask(harness, say, stream=stream, block=block, max_tokens=8, reasoning_format="tags")
        assert (tags.content, tags.reasoning) == ("<think>" + words(7), None)


@STREAMED
@BLOCK
@pytest.mark.spec("API-126", "ENG-087")
async def test_a11_json_with_thinking_off_is_content(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        for off in (OFF, {"reasoning_effort": "off"}, {"reasoning": {"enabled": False}}):
            answer = await ask(harness, '{"k":1}', stream=stream, block=block, **JSON_OBJECT, **off)
            assert (answer.content, answer.reasoning, answer.finish) == ('{"k":1}', None, "stop")


# --- B: thinking budget -----------------------------------------------------------------------------------------------


@STREAMED
@BLOCK
@pytest.mark.spec("API-261", "ENG-186", "API-105")
async def test_b01_the_closer_waits_for_an_open_call(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        call = '<tool_call>{"name":"w","arguments":{"p":"x y z"}}</tool_call>'
        fields: dict[str, Any] = {"tools": [tool("w", {"p": "string"})], "thinking_token_budget": 6, "stream": stream}
        answer = await ask(harness, f"<think>a b c {call}", block=block, **fields)
        assert (answer.reasoning, answer.content) == (f"a b c {call}{PHRASE}", "")
        assert (answer.calls, answer.finish) == ([], "stop")


@pytest.mark.parametrize("form", ["<tool_call>", "<function=w>"])
@BLOCK
@pytest.mark.spec("API-261", "ENG-186")
async def test_b01_at_most_1024_tokens(autojump_clock: trio.testing.MockClock, form: str, block: int) -> None:
    async with open_harness() as harness:
        say = f"<think>a {form}{words(1500)}</think>x"
        answer = await ask(harness, say, stream=False, block=block, max_reasoning_tokens=6, max_tokens=3000)
        assert answer.content == "x"
        assert counted(answer)[1] == 6 + 1024 + closer_tokens()


@STREAMED
@BLOCK
@pytest.mark.spec("API-095", "ENG-097")
async def test_b02_a_natural_close_forces_nothing(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        for written_tokens in (238, 240, 241, 242):  # the tag is the last of them
            say = f"<think>{words(written_tokens - 2)}</think>x"
            answer = await ask(harness, say, stream=stream, block=block, max_reasoning_tokens=242)
            assert (answer.reasoning, answer.content) == (words(written_tokens - 2), "x")
            assert counted(answer) == (written_tokens + 2, written_tokens)
        say = f"<think>{words(241)}</think>x"
        cut = await ask(harness, say, stream=stream, block=block, max_reasoning_tokens=242)
        assert (cut.reasoning, cut.content) == (words(241) + PHRASE, "x")
        assert counted(cut)[1] == 242 + closer_tokens()


@STREAMED
@BLOCK
@pytest.mark.spec("API-258", "API-095", "ENG-097", "ENG-185")
async def test_b04_a_block_the_model_opens_itself_is_capped(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        for fields in (OFF, {}):
            say = f"<think>{words(40)}</think>x"
            answer = await ask(harness, say, stream=stream, block=block, max_reasoning_tokens=10, **fields)
            assert (answer.reasoning, answer.content) == (words(9) + PHRASE, "x")
            assert counted(answer)[1] == 10 + closer_tokens()
        # The tag in pieces counts by its tokens, and blanks before it too.
        say_pieces = ["\n", "<th", "ink>", *[" w"] * 40, "</think>", "x"]
        spelled = await ask(harness, say_pieces, stream=stream, block=block, max_reasoning_tokens=10, **OFF)
        assert (spelled.reasoning, spelled.content) == (words(7) + PHRASE, "x")


@pytest.mark.parametrize(
    ("fields", "cap"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, 1024),
        ({"reasoning_effort": "low"}, 1024),
        ({"reasoning": {"max_tokens": 300}}, 300),
        ({"reasoning": {"effort": "minimal"}}, 1024),
        ({"thinking_budget": 77}, 77),
        ({"chat_template_kwargs": {"thinking_budget": 5}}, 5),
    ],
)
@STREAMED
@pytest.mark.spec("API-088", "API-095", "API-103", "API-099", "OBS-043")
async def test_b05_every_shape_is_a_budget(
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    fields: dict[str, Any],
    cap: int,
    stream: bool,
) -> None:
    with caplog.at_level(logging.INFO):
        async with open_harness() as harness:
            say = f"<think>{words(cap + 50)}</think>x"
            answer = await ask(harness, say, stream=stream, max_tokens=9000, **fields)
            assert (answer.reasoning, answer.content) == (words(cap - 1) + PHRASE, "x")
            assert counted(answer)[1] == cap + closer_tokens()
    [told] = [record.getMessage() for record in caplog.records if record.getMessage().startswith("[think]")]
    assert f"cap={cap}" in told


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning_effort": "lots"}, "reasoning_effort"),
        ({"thinking": {"type": "sometimes"}}, "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1.5}}, "thinking.budget_tokens"),
        ({"thinking": "on"}, "thinking"),
        ({"thinking_budget": "5"}, "thinking_budget"),
        ({"max_reasoning_tokens": True}, "max_reasoning_tokens"),
        ({"reasoning": {"enabled": "yes"}}, "reasoning.enabled"),
        ({"chat_template_kwargs": {"enable_thinking": "false"}}, "chat_template_kwargs.enable_thinking"),
        ({"chat_template_kwargs": {"reasoning_effort": "much"}}, "chat_template_kwargs.reasoning_effort"),
        # Those that lose against another field are looked at too.
        ({"max_reasoning_tokens": 5, "reasoning_effort": "lots"}, "reasoning_effort"),
    ],
)
@pytest.mark.spec("API-091", "EFF-016")
async def test_b05_an_unknown_value_is_a_400(
    autojump_clock: trio.testing.MockClock, fields: dict[str, Any], param: str
) -> None:
    async with open_harness() as harness:
        for stream in (True, False):
            assert (await refused(harness, chat("hi", stream=stream, **fields)))["param"] == param


@STREAMED
@BLOCK
@pytest.mark.spec("API-095", "API-258")
async def test_b07_closers_behind_the_forced_one_stay_content(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    async with open_harness() as harness:
        say = f"<think>{words(30)}</think>{'</think>' * 40}"
        answer = await ask(harness, say, stream=stream, block=block, max_reasoning_tokens=4, max_tokens=40)
        assert answer.reasoning == words(3) + PHRASE
        assert answer.content == "</think>" * (len(answer.content or "") // len("</think>"))
        assert (answer.finish, counted(answer)) == ("length", (40, 4 + closer_tokens()))
        assert len(answer.content or "") // len("</think>") > 20


@STREAMED
@BLOCK
@pytest.mark.spec("API-095", "API-158", "API-044")
async def test_b_every_limit_around_a_forced_closer(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    """The limit may fall before the closer, inside it, on its tag or behind it: always a body that adds up."""
    async with open_harness(answer_reserve=0) as harness:
        say = f"<think>{words(30)}</think>one two"
        whole = f"{words(4)}{PHRASE}"
        tag = 5 + closer_tokens()
        for limit in range(1, tag + 8):
            answer = await ask(harness, say, stream=stream, block=block, max_reasoning_tokens=5, max_tokens=limit)
            completion, reasoning = counted(answer)
            assert completion <= limit
            assert reasoning == min(limit, tag)
            assert whole.startswith(answer.reasoning or "")
            assert "think>" not in (answer.content or "")
            assert answer.content is not None
            assert "one two".startswith(answer.content)
            # Behind the tag come its two line breaks, the answer's two words and its end.
            assert answer.finish == ("stop" if limit >= tag + 5 else "length")


@pytest.mark.spec("API-095", "ENG-083")
async def test_b_each_choice_has_the_budget(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        answers = await ask_all(harness, f"<think>{words(30)}</think>x", n=3, thinking={"budget_tokens": 4})
        assert [(each.reasoning, each.content) for each in answers] == [(words(3) + PHRASE, "x")] * 3


@pytest.mark.spec("API-042", "API-095")
@STREAMED
async def test_b_a_forced_closer_is_found_in_the_next_turn(
    autojump_clock: trio.testing.MockClock, stream: bool
) -> None:
    """What the server wrote in the model's place is in the reasoning that the client sends back."""
    async with open_harness(engine=Recording()) as harness:
        asked = {"role": "user", "content": fake(say=f"<think>\n{words(30)}\n</think>4")}
        first = await take_turn(harness, [asked], stream=stream, max_reasoning_tokens=8)
        again = {"role": "user", "content": "more"}
        second = await take_turn(harness, [asked, returned(first.said), again], stream=stream)
        assert shared(first.whole, second.prompt) == len(first.whole)


# --- C: stop strings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop", "say", "content", "finish"),
    [
        (["Question:"], "<think>The Question: is</think>Blue", "Blue", "stop"),
        (["9.8"], "<think>9.8<9.11</think>9.11 is smaller", "9.11 is smaller", "stop"),
        (["9.8"], "<think>9.8<9.11</think>9.11 < 9.8 holds", "9.11 < ", "stop"),
        (["\n\n"], "<think>a\n\nb</think>\n\none\n\ntwo", "one", "stop"),
        (["think"], "<think>think</think>I think so", "I ", "stop"),
        (["</think>"], "<think>a</think>b", "b", "stop"),
        (["<"], "<think>a<b</think>b<c", "b", "stop"),
    ],
)
@STREAMED
@BLOCK
@pytest.mark.spec("API-086", "API-083", "ENG-093")
async def test_c01_c02_a_stop_string_in_the_reasoning_does_not_fire(
    autojump_clock: trio.testing.MockClock,
    stream: bool,
    block: int,
    stop: list[str],
    say: str,
    content: str,
    finish: str,
) -> None:
    async with open_harness() as harness:
        answer = await ask(harness, say, stream=stream, block=block, stop=stop)
        assert (answer.content, answer.finish) == (content, finish)
        assert answer.reasoning == say.removeprefix("<think>").partition("</think>")[0]


@STREAMED
@BLOCK
@pytest.mark.spec("API-086", "API-044")
async def test_c01_elsewhere_the_whole_text_is_matched(
    autojump_clock: trio.testing.MockClock, stream: bool, block: int
) -> None:
    """A request that has the reasoning in its content ends inside it, with a content that is never null."""
    async with open_harness() as harness:
        say = "<think>The Question: is</think>Blue"
        fields: dict[str, Any] = {"stream": stream, "block": block, "stop": ["Question:"]}
        for format, content, reasoning in (("tags", "<think>The ", None), ("both", "<think>The ", "The ")):
            answer = await ask(harness, say, reasoning_format=format, **fields)
            assert (answer.content, answer.reasoning, answer.finish) == (content, reasoning, "stop")


@STREAMED
@BLOCK
@pytest.mark.spec("API-084", "API-083", "ENG-093")
async def test_c04_a_stop_string_over_tokens(autojump_clock: trio.testing.MockClock, stream: bool, block: int) -> None:
    async with open_harness() as harness:
        for say, stop, content in (
            (["a E", "N", "D b"], ["END"], "a "),
            (["a E", "N", "X b"], ["END"], "a ENX b"),
            (["a E", "N"], ["END"], "a EN"),
            (["E", "N", "D"], ["END"], ""),
            (["aab", "aab", "aac"], ["aabaac"], "aab"),
            (["one ", {"bytes": "f09f"}, {"bytes": "9880"}, " two"], ["\U0001f600"], "one "),
            (["END", " END"], ["ENDLESS", " E"], "END"),
            (["xE", "ND"], ["ND", "END"], "x"),
        ):
            call = await harness.client.send(CHAT, chat({"say": say, "block": block}, stream=stream, stop=stop))
            assert call.text == content, say
            text = await harness.client.send(
                TEXT, {"prompt": fake(say=say, block=block), "stream": stream, "stop": stop}
            )
            assert text.text == content, say


@pytest.mark.spec("API-083")
async def test_c05_lists_of_stop_strings(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for stop in ([], None, ["x"] * 5, [f"stop {at}" for at in range(16)], "x"):
            for stream in (True, False):
                answer = await ask(harness, "one two", stream=stream, stop=stop)
                assert (answer.content, answer.finish) == ("one two", "stop")
        for bad in ("", [""], ["x", ""], ["x"] * 17, [1], {"x": 1}, 5, [None]):
            for path, body in ((CHAT, chat("hi", stop=bad)), (TEXT, {"prompt": "hi", "stop": bad})):
                assert (await refused(harness, body, path))["param"] == "stop"


@STREAMED
@pytest.mark.spec("API-158", "API-083")
async def test_c_the_tokens_of_a_stop_string_count(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    async with open_harness() as harness:
        for block in BLOCKS:
            answer = await ask(harness, ["a", "E", "N", "D", "b", "c"], stream=stream, block=block, stop=["END"])
            assert counted(answer) == (4, 0)


@STREAMED
@pytest.mark.spec("API-083", "API-033")
async def test_c_a_stop_string_and_every_limit(autojump_clock: trio.testing.MockClock, stream: bool) -> None:
    """Cut by the limit, what was held for a stop string is released."""
    async with open_harness() as harness:
        say = ["<think>", "E", "N", "</think>", "a", "E", "N", "D", "b"]
        for limit in range(1, 10):
            answer = await ask(harness, say, stream=stream, stop=["END"], max_tokens=limit)
            content = "".join(say[4:limit]) if limit < 8 else "a"
            assert (answer.content, answer.finish) == (content, "length" if limit < 8 else "stop"), limit
            assert (answer.reasoning or "") == "EN"[: max(limit - 1, 0)]
