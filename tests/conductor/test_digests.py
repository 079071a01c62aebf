"""Digests: the same history by any client's way of sending it, another for any change that a prompt shows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.conductor.sessions import DigestCache
from tests.conductor.router.driving import assistant, system, tool, user

TEXT = st.text(max_size=6)
MESSAGES = st.lists(
    st.one_of(
        st.builds(user, TEXT),
        st.builds(assistant, TEXT),
        st.builds(assistant, TEXT, st.just('{"a": 1}')),
        st.builds(tool, TEXT),
        st.builds(system, TEXT),
    ),
    min_size=1,
    max_size=6,
)


def newest(messages: list[dict[str, Any]], **given: Any) -> str | None:
    return DigestCache().digests(messages, has_tools=False, **given).newest


@pytest.mark.spec("SES-004", "SMP-001")
@pytest.mark.parametrize(
    "returned",
    [
        assistant("  Hello.\n"),
        assistant("Hello.", reasoning_content="Hm."),
        assistant("<think>\nHm.\n</think>\n\nHello."),
        {"role": "assistant", "content": "Hello.", "tool_calls": []},
    ],
)
def test_an_answer_that_went_through_a_client_is_the_same(returned: dict[str, Any]) -> None:
    assert newest([user("a"), returned]) == newest([user("a"), assistant("Hello.")])


@pytest.mark.spec("SES-004")
def test_calls_count_by_what_they_say() -> None:
    first = newest([user("a"), assistant("", '{"a": 1, "b": [2]}')])
    assert newest([user("a"), assistant("", '{"b":[2],"a":1}')]) == first
    assert newest([user("a"), {**assistant("", '{"b":[2],"a":1}'), "content": None}]) == first
    assert newest([user("a"), assistant("", '{"a": 1, "b": [3]}')]) != first
    assert newest([user("a"), assistant("", "no json")]) != newest([user("a"), assistant("", "other")])
    assert newest([user("a"), tool("x", "call0")]) == newest([user("a"), tool("x", "other")])


@given(MESSAGES)
def test_a_longer_history_begins_with_the_digests_of_a_shorter(messages: list[dict[str, Any]]) -> None:
    cache = DigestCache(kept=3)
    whole = cache.digests(messages, has_tools=True)
    for count in range(len(messages) + 1):
        part = cache.digests(messages[:count], has_tools=True)
        assert whole.chain[:count] == part.chain
        assert whole.places[: len(part.places)] == part.places
    if whole.newest is not None:
        follow = cache.digests([*messages, assistant("x")], has_tools=True)
        assert cache.after(whole.newest, assistant("x")) == follow.newest


@given(MESSAGES)
def test_system_text_counts_nowhere_and_its_turns_in_places(messages: list[dict[str, Any]]) -> None:
    other = [system("another") if message["role"] == "system" else message for message in messages]
    one, two = (DigestCache().digests(each, has_tools=False) for each in (messages, other))
    assert one == two
    bare = [message for message in messages if message["role"] != "system"]
    without = DigestCache().digests(bare, has_tools=False)
    assert without.newest == one.newest
    if len(bare) != len(messages) and bare:
        assert without.place != one.place


@given(MESSAGES, st.data())
def test_any_other_text_is_another_history(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(messages) - 1))
    if messages[at]["role"] == "system":
        return
    changed = [*messages]
    changed[at] = {**messages[at], "content": messages[at]["content"] + "!"}
    assert newest(changed) != newest(messages)


def test_images_count_as_their_url() -> None:
    shown = {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "index": 0}]}
    assert newest([shown], images=["a"]) == newest([shown], images=["a", "b"])
    assert newest([shown], images=["a"]) != newest([shown], images=["b"])
    assert newest([shown]) != newest([shown], images=["b"])
    assert newest([{**shown, "content": "\ud83d"}]) is not None


@pytest.mark.parametrize("text", ["<think>" * 100_000, " " * 300_000 + "x", "<think>" + "</think" * 100_000])
def test_a_long_answer_costs_no_more_than_its_length(text: str) -> None:
    assert newest([user("a"), assistant(text)]) != newest([user("a"), assistant("y")])


@pytest.mark.spec("NOTE-002")
def test_each_system_message_at_the_head_moves_the_place() -> None:
    places = {
        (heads, has_tools): DigestCache().digests([system("a")] * heads + [user("b")], has_tools=has_tools).place
        for heads in (0, 1, 2)
        for has_tools in (False, True)
    }
    assert places[1, True] == places[1, False] == places[0, True], "all of these have one turn ahead of it"
    assert places[2, True] == places[2, False]
    assert len(set(places.values())) == 3
