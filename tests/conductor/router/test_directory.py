"""The working directory, moved out of tools' descriptions into the turn."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.conductor.router.directory import move_directory
from tandem.engine.text.model import Conversation
from tests.conductor.packages.tools import function

LINE = "The current working directory is: "


def conversation(*tools: Any) -> Conversation:
    return Conversation(messages=({"role": "user", "content": "hello"},), tools=tools)


@pytest.mark.spec("FIT-001")
def test_the_sentence_leaves_every_tool_that_ends_with_it() -> None:
    sent = conversation(
        function("run", f"Runs a command.\n\n{LINE}/home/user", command="string"),
        function("search", "Searches."),
        function("list", f"Lists files. {LINE}/home/user "),
    )
    moved = move_directory(sent)
    assert moved is not None
    assert moved.directory == "/home/user"
    assert moved.tools == ("run", "list")
    assert [tool["function"]["description"] for tool in moved.conversation.tools] == [
        "Runs a command.",
        "Searches.",
        "Lists files.",
    ]
    part = moved.part
    assert (part.kind, part.text, part.origin) == ("directory", f"{LINE}/home/user", "client")


@pytest.mark.spec("FIT-001")
def test_the_tools_render_the_same_wherever_the_client_is() -> None:
    def tools(path: str) -> Any:
        moved = move_directory(conversation(function("run", f"Runs.\n{LINE}{path}", command="string")))
        assert moved is not None
        return moved.conversation.tools

    assert tools("/a") == tools("/b c/ü")


@pytest.mark.spec("FIT-001")
def test_what_was_sent_stays_as_it_was() -> None:
    sent = conversation(function("run", f"Runs. {LINE}/a"))
    before = repr(sent)
    moved = move_directory(sent)
    assert repr(sent) == before
    assert moved is not None
    assert moved.conversation.messages is sent.messages


@pytest.mark.spec("FIT-001")
@pytest.mark.parametrize(
    "description",
    [
        "Runs a command.",
        f"{LINE}/a\nRuns a command.",  # it does not end with it
        f"Runs. {LINE}",
        f"Runs. {LINE}   \n",
        f"Say:'{LINE}/a",  # quoted
        f"Runs. {LINE}/{'x' * 5000}",
        "",
        None,
        7,
    ],
)
def test_anything_else_renders_as_sent(description: Any) -> None:
    tool = {"type": "function", "function": {"name": "run", "description": description}}
    assert move_directory(conversation(tool)) is None


@pytest.mark.spec("FIT-001")
def test_tools_that_differ_are_left_alone() -> None:
    assert move_directory(conversation(function("a", f"A. {LINE}/a"), function("b", f"B. {LINE}/b"))) is None


def test_a_description_of_nothing_else_is_empty_then() -> None:
    moved = move_directory(conversation(function("a", f"{LINE}/a")))
    assert moved is not None
    assert moved.conversation.tools[0]["function"]["description"] == ""


def test_hostile_tools_are_no_tools() -> None:
    assert move_directory(conversation({}, {"function": None}, {"function": {"description": ["x"]}})) is None
    assert move_directory(conversation()) is None
