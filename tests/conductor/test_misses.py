"""Why a follow-up did not resume behind its session's last prompt, on the fake's template (ENG-177)."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.conductor.misses import Miss, Misses, Turn, find_miss
from tandem.engine.caches.misses import client_keys, parting
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.fake.text import FakeText
from tandem.engine.shared import shared_length
from tandem.engine.text.differing import Difference
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt, Span
from tandem.engine.tiny.qwen3_5 import build_qwen3_5

Message = dict[str, Any]
REMINDER = "\n<system-reminder>\nthe file a.py was changed by the user\n</system-reminder>"
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"does {name}", "parameters": {"type": "object"}}}
    for name in ("read_file", "write_file", "run")
]
CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "run", "arguments": '{"command": "make test"}'},
}


def history() -> list[Message]:
    return [
        {"role": "system", "content": "Be short. Current time is 15:09:20 on 2026-11-30, in Graz."},
        {"role": "user", "content": "Run the tests, please."},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "They want a run of the tests.",
            "tool_calls": [CALL],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "2 failed, 98 passed"},
        {"role": "assistant", "content": "Two of them fail.", "reasoning_content": "Say it shortly."},
        {"role": "user", "content": "Which ones, and why?" + REMINDER},
    ]


def turn(messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = TOOLS, **more: Any) -> Turn:
    conversation = Conversation(messages=messages, tools=tools)
    prompt = FakeText().render(conversation)
    given: dict[str, Any] = {"client": "anon", "session": "c:1", "resumed": 0, "prefill_s": 2.0, "reasoned": False}
    return Turn(conversation=conversation, prompt=prompt, **(given | more))


def explain(before: Turn, after: Turn) -> Miss | None:
    misses = Misses()
    assert misses.swap(before) is None
    last = misses.swap(after)
    return None if last is None else find_miss(last, after, FakeText())


def follow(messages: list[Message]) -> list[Message]:
    """The next turn of the conversation, the client having sent everything back."""
    return [*messages, {"role": "assistant", "content": "The first."}, {"role": "user", "content": "Mend it."}]


def told(change: Callable[[list[Message]], object]) -> Difference:
    """The explanation where the client has changed its history by `change`."""
    after = copy.deepcopy(history())
    change(after)
    miss = explain(turn(history()), turn(follow(after)))
    assert miss is not None
    position, again = (
        first_token(history(), follow(after)),
        min(len(turn(each).prompt.ids) for each in (history(), follow(after))),
    )
    assert (miss.parting.position, miss.parting.read_again) == (position, again)
    return miss.where


def first_token(before: Sequence[Message], after: Sequence[Message]) -> int:
    """The slow way to see where two prompts part."""
    both = zip(turn(before).prompt.ids, turn(after).prompt.ids, strict=False)
    return next(at for at, (one, other) in enumerate(both) if one != other)


def put(at: int, field: str, value: Any) -> Callable[[list[Message]], object]:
    return lambda messages: messages[at].update({field: value})


def swap(at: int, field: str, old: str, new: str) -> Callable[[list[Message]], object]:
    return lambda messages: messages[at].update({field: messages[at][field].replace(old, new)})


@pytest.mark.spec("ENG-177")
def test_a_clock_in_the_system_message() -> None:
    """K-02: the byte is where the clock begins, not the second that differs."""
    found = told(swap(0, "content", "15:09:20", "15:09:34"))
    assert found == Difference(0, "content", len("Be short. Current time is "), "clock")


@pytest.mark.spec("ENG-177")
def test_a_reminder_block_that_is_gone() -> None:
    """K-01."""
    found = told(swap(5, "content", REMINDER, ""))
    assert found == Difference(5, "content", len("Which ones, and why?"), "reminder")


@pytest.mark.spec("ENG-177")
def test_a_reminder_block_that_says_something_else() -> None:
    found = told(swap(5, "content", "a.py", "b.py"))
    assert found == Difference(5, "content", len("Which ones, and why?\n"), "reminder")


@pytest.mark.spec("ENG-177")
def test_tools_in_another_order() -> None:
    """K-08."""
    miss = explain(turn(history()), turn(follow(history()), tools=[TOOLS[0], TOOLS[2], TOOLS[1]]))
    assert miss is not None
    assert (miss.where.message, miss.where.field, miss.where.text) == (None, "tools", "tools_reordered")


@pytest.mark.spec("ENG-177")
def test_keys_of_a_tool_in_another_order() -> None:
    turned = [dict(reversed(tool.items())) for tool in TOOLS]
    miss = explain(turn(history()), turn(follow(history()), tools=turned))
    assert miss is not None
    assert (miss.where.field, miss.where.byte, miss.where.text) == ("tools", len('[{"'), "tools_reordered")


@pytest.mark.spec("ENG-177")
def test_tools_that_have_changed() -> None:
    miss = explain(turn(history()), turn(follow(history()), tools=TOOLS[:2]))
    assert miss is not None
    assert (miss.where.field, miss.where.text) == ("tools", "tools_changed")


@pytest.mark.spec("ENG-177")
def test_reasoning_that_the_client_dropped() -> None:
    """K-04, of an answer that had come back once."""
    found = told(lambda messages: messages[4].pop("reasoning_content"))
    assert found == Difference(4, "reasoning_content", 0, "reasoning_dropped")


@pytest.mark.spec("ENG-177")
def test_reasoning_that_never_came_back() -> None:
    """K-04, of the last answer: the prompt had opened its thinking block already."""
    asked = [{"role": "user", "content": "Is it so?"}]
    before = turn(asked, tools=(), reasoned=True)
    opened = replace(before, prompt=Prompt.of_client([*before.prompt.ids, 1]))
    after = turn([*asked, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "so?"}], tools=())
    miss = explain(opened, after)
    assert miss is not None
    assert miss.where == Difference(1, "reasoning_content", 0, "reasoning_dropped")
    assert miss.parting.position == len(before.prompt.ids)


@pytest.mark.spec("ENG-177")
def test_history_that_says_something_else() -> None:
    """K-05."""
    assert told(swap(1, "content", "tests", "linter")) == Difference(1, "content", len("Run the "), "edited")
    assert told(put(3, "content", "ü" + "2 failed")) == Difference(3, "content", 0, "edited")
    called = copy.deepcopy(CALL)
    called["function"]["arguments"] = '{"command": "make lint"}'
    assert told(put(2, "tool_calls", [called])).field == "tool_calls"
    assert told(lambda messages: messages.pop(2)) == Difference(2, "role", 0, "edited")


@pytest.mark.spec("ENG-177")
def test_what_does_not_reach_the_prompt_is_not_blamed() -> None:
    """Call ids are made anew by some clients, and the template shows none."""
    renamed = {**CALL, "id": "call_2"}

    def change(messages: list[Message]) -> None:
        messages[2]["tool_calls"] = [renamed]
        messages[3]["content"] += "!"

    assert told(change) == Difference(3, "content", len("2 failed, 98 passed"), "edited")
    calls = [{**CALL, "id": f"call_{at}"} for at in range(40)]
    asked = [{"role": "assistant", "content": "", "tool_calls": [call]} for call in calls]
    before = [*history(), *asked, {"role": "user", "content": "Go on."}]
    after = copy.deepcopy(before)
    for message in after[6:-1]:
        message["tool_calls"][0]["id"] += "0"
    after[40]["tool_calls"][0]["function"] = {**CALL["function"], "name": "ran"}
    miss = explain(turn(before), turn(follow(after)))
    assert miss is not None
    assert (miss.where.message, miss.where.field) == (40, "tool_calls")


@pytest.mark.spec("ENG-177")
def test_the_template_alone_is_other() -> None:
    """The same conversation, the last prompt having been another: nothing of the client's differs."""
    before = turn(history())
    ids = list(before.prompt.ids)
    at = first_token(history()[:1], history()) + 2
    ids[at] += 1
    miss = explain(replace(before, prompt=Prompt.of_client(ids)), turn(follow(history())))
    assert miss is not None
    assert (miss.where.message, miss.where.field, miss.where.text) == (1, None, "other")


@pytest.mark.spec("ENG-177")
def test_a_follow_up_that_keeps_everything_is_no_miss() -> None:
    assert explain(turn(history()), turn(follow(history()))) is None
    assert explain(turn(history()), turn(history())) is None


@pytest.mark.spec("ENG-177")
def test_messages_with_images_are_compared_and_not_rendered() -> None:
    """The pixels are gone by then; the first difference of the text stands for the place."""

    def seen(text: str, *more: Message) -> Turn:
        parts = [{"type": "text", "text": "Look: "}, {"type": "image", "index": 0}, {"type": "text", "text": text}]
        bare = turn([{"role": "user", "content": f"Look: {text}"}, *more], tools=())
        return replace(bare, conversation=Conversation(messages=[{"role": "user", "content": parts}, *more]))

    more = follow([])
    miss = explain(seen("what is it?"), seen("what was it?", *more))
    assert miss is not None
    assert miss.where == Difference(0, "content", len("Look: what "), "edited")
    same = replace(seen("what is it?", *more), prompt=seen("another picture?", *more).prompt)
    miss = explain(seen("what is it?"), same)
    assert miss is not None
    assert miss.where == Difference(None, None, None, "other")
    assert "in the template" in miss.words


@pytest.mark.spec("ENG-177")
def test_hidden_tokens_are_left_out() -> None:
    """A note that the conductor put into one of the two prompts is nobody's change."""
    before, after = turn(history()), turn(follow(history()))
    ids = before.prompt.ids
    noted = Prompt(
        (*ids[:9], 70, 71, *ids[9:]), (Span("client", 0, 9), Span("note", 9, 11), Span("client", 11, len(ids) + 2)), 0
    )
    assert client_keys(noted) == ids
    assert explain(replace(before, prompt=noted), after) is None
    changed = copy.deepcopy(history())
    changed[1]["content"] = "Run nothing."
    miss = explain(replace(before, prompt=noted), turn(follow(changed), resumed=5))
    assert miss is not None
    assert miss.parting.position == first_token(history(), follow(changed))
    assert (miss.parting.last, miss.parting.resumed) == (len(ids), 5)


@pytest.mark.spec("ENG-177")
def test_seconds_are_the_share_of_what_was_read_again() -> None:
    before, changed = turn(history()), copy.deepcopy(history())
    changed[1]["content"] = "Run nothing."
    miss = explain(before, turn(follow(changed), resumed=10))
    assert miss is not None
    read = len(turn(follow(changed)).prompt.ids) - 10
    assert miss.seconds == pytest.approx(2.0 * (len(before.prompt.ids) - 10) / read)


@pytest.mark.spec("ENG-177")
def test_the_words_and_the_record_hold_no_text() -> None:
    changed = copy.deepcopy(history())
    changed[1]["content"] = "Run the SECRET"
    miss = explain(turn(history()), turn(follow(changed)))
    assert miss is not None
    assert "SECRET" not in repr(miss)
    assert miss.words.startswith(f"parts at token {miss.parting.position}: message 1, content, byte 8, edited; ")


def test_conversations_are_told_apart() -> None:
    """By client, by session, and by the opening without what moves; side requests belong to none."""
    misses, clocked = Misses(), copy.deepcopy(history())
    clocked[0]["content"] = clocked[0]["content"].replace("15:09:20", "15:09:34")
    assert misses.swap(turn(history(), session="h:1")) is None
    assert misses.swap(turn(history(), session="h:1", client="k:2")) is None
    assert misses.swap(turn(follow(history()), session="c:1")) is None
    title = [{"role": "user", "content": "### Task: Generate a concise title"}]
    assert misses.swap(turn(title, tools=(), session="h:1")) is None
    found = misses.swap(turn(follow(clocked), session="h:2"))
    assert found is not None
    assert found.conversation.messages == history()


def test_what_is_kept_is_bounded() -> None:
    misses = Misses(kept=2)
    for session in ("c:1", "c:2", "c:3"):
        misses.swap(turn(history(), session=session))
    assert misses.swap(turn(history(), session="c:1")) is None
    assert misses.swap(turn(history(), session="c:3")) is not None
    small = Misses(kept_bytes=100)
    small.swap(turn(history()))
    assert small.swap(turn(history())) is None


def test_what_is_kept_is_counted_as_what_it_takes() -> None:
    misses, long = Misses(), [{"role": "user", "content": "words " * 2_000}]
    misses.swap(turn(long))
    last = misses.swap(turn(long))
    assert last is not None
    numbers = [key + 1_000 for key in last.keys]  # what a vocabulary of some size has: each an object of its own
    assert last.size >= sys.getsizeof(tuple(numbers)) + sum(map(sys.getsizeof, numbers))


@pytest.mark.spec("ENG-177")
def test_a_template_of_a_checkpoint(tmp_path: Path) -> None:
    """One that opens the thinking block, and has the tools before the system message."""
    text = open_checkpoint(build_qwen3_5(tmp_path / "hybrid")).text

    def found(before: list[Message], after: list[Message], tools: Sequence[Mapping[str, Any]] = TOOLS) -> Miss | None:
        turns = [turn(before, reasoned=True), turn(after, tools=tools)]
        first, second = (replace(each, prompt=text.render(each.conversation)) for each in turns)
        misses = Misses()
        misses.swap(first)
        last = misses.swap(second)
        return None if last is None else find_miss(last, second, text)

    def place(miss: Miss | None) -> tuple[object, ...]:
        assert miss is not None
        return miss.where.message, miss.where.field, miss.where.text

    messages = history()
    assert found(messages[:2], messages[:4]) is None
    bare = [{name: value for name, value in each.items() if name != "reasoning_content"} for each in messages[:4]]
    assert place(found(messages[:2], bare)) == (2, "reasoning_content", "reasoning_dropped")
    thought = follow(messages)
    thought[-2]["reasoning_content"] = "hm"
    assert found(messages, thought) is None
    assert place(found(messages, thought, [*reversed(TOOLS)])) == (None, "tools", "tools_reordered")
    clocked = copy.deepcopy(thought)
    clocked[0]["content"] = clocked[0]["content"].replace("15:09:20", "15:09:34")
    assert place(found(messages, clocked)) == (0, "content", "clock")
    assert place(found(messages, clocked, TOOLS[:2])) == (None, "tools", "tools_changed")


@given(st.lists(st.integers(0, 2), max_size=40), st.lists(st.integers(0, 2), max_size=40), st.integers(0, 30))
def test_shared_length_is_that_of_a_plain_loop(one: list[int], other: list[int], shared: int) -> None:
    one, other = [*[1] * shared, *one], [*[1] * shared, *other]
    slow = 0
    while slow < min(len(one), len(other)) and one[slow] == other[slow]:
        slow += 1
    assert shared_length(tuple(one), tuple(other)) == slow
    found = parting(tuple(one), Prompt.of_client(other), 0)
    assert (found is None) == (slow == min(len(one), len(other)))
    assert found is None or found.position == slow


WORDS = ("the", "tests", "fail", "in", "a", "loop", "and", "nobody", "knows", "why", "übel")


@pytest.mark.spec("ENG-177")
@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_the_place_of_any_edit_is_exact(seed: int) -> None:
    """A random conversation, one character of which is changed: message, field, byte and token are the edit's."""
    chance = random.Random(seed)
    messages: list[Message] = [{"role": "system", "content": _words(chance)}]
    for _ in range(chance.randint(1, 4)):
        messages += [{"role": "user", "content": _words(chance)}, {"role": "assistant", "content": _words(chance)}]
        if chance.random() < 0.5:
            messages[-1]["reasoning_content"] = _words(chance)
    messages.append({"role": "user", "content": _words(chance)})
    changed = copy.deepcopy(messages)
    at = chance.randrange(len(messages))
    field = chance.choice([name for name in ("content", "reasoning_content") if name in messages[at]])
    text = messages[at][field]
    spot = chance.randrange(len(text))
    changed[at][field] = text[:spot] + "#" + text[spot + 1 :]
    miss = explain(turn(messages), turn(follow(changed)))
    assert miss is not None
    assert (miss.where.message, miss.where.field) == (at, field)
    assert miss.where.byte == len(text[:spot].encode())
    assert miss.parting.position == first_token(messages, follow(changed))


def _words(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 12)))
