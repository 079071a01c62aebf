"""Packages, working directory, identity and model fit, as a request of a whole service meets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tandem.actors.store import Flush
from tests.conductor.packages.tools import BASH, SEARCH, function
from tests.service.harness import Harness, open_harness

LINE = "The current working directory is: "
CODING = {"x-tandem-profile": "coding", "x-session-id": "s1"}
CHAT = {"x-openwebui-chat-id": "s1"}


def terminal(path: str) -> list[Any]:
    return [function("run_command", f"Runs a command.\n\n{LINE}{path}", command="string")]


class Talk:
    """One conversation; each `say` sends all that was said."""

    def __init__(self, harness: Harness, headers: dict[str, str]) -> None:
        self._harness = harness
        self._headers = headers
        self._messages: list[dict[str, Any]] = []

    async def say(self, text: str, tools: list[Any] | None = None, **headers: str) -> dict[str, Any]:
        """The usage of the answer."""
        self._messages.append({"role": "user", "content": text})
        body = {"model": "M", "messages": self._messages, "max_tokens": 16, **({"tools": tools} if tools else {})}
        call = await self._harness.client.send(
            "/v1/chat/completions",
            body,
            headers={**self._headers, **{k.replace("_", "-"): v for k, v in headers.items()}},
        )
        assert call.status == 200, call.body
        self._messages.append(call.json["choices"][0]["message"])
        usage: dict[str, Any] = call.json["usage"]
        return usage


async def rows(harness: Harness) -> list[dict[str, Any]]:
    """The router's rows, oldest first."""
    await harness.service.context.store.ask(Flush)
    found = (await harness.client.send("/v1/conductor/decisions")).json["decisions"]
    return list(reversed(found))


def new_parts(row: dict[str, Any]) -> list[str]:
    notes = (row["detail"] or {}).get("notes", ())
    return [part for note in notes if note["kind"] == "new" for part in note["parts"]]


@pytest.mark.spec("FIT-001", "NOTE-005")
async def test_the_directory_is_told_at_first_at_a_change_and_at_a_change_back(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        talk = Talk(harness, CHAT)
        for path in ("/a", "/a", "/b", "/a"):
            await talk.say("go on", terminal(path))
        assert ["directory" in new_parts(row) for row in await rows(harness)] == [True, False, True, True]


@pytest.mark.spec("FIT-001")
@pytest.mark.parametrize(
    ("settings", "headers"),
    [({"client_cwd": "off"}, {}), ({}, {"x_tandem": "shadow"}), ({}, {"x_tandem": "raw"})],
)
async def test_otherwise_the_tools_render_as_sent(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, settings: dict[str, Any], headers: dict[str, str]
) -> None:
    async with open_harness() as harness:
        plain = await Talk(harness, CHAT).say("hello", terminal("/a"))
    async with open_harness(conductor_config=tmp_path / "c", **settings) as harness:
        usage = await Talk(harness, CHAT).say("hello", terminal("/a"), **headers)
        assert usage["prompt_tokens"] == plain["prompt_tokens"]
        assert not any("directory" in new_parts(row) for row in await rows(harness))


@pytest.mark.spec("FIT-002", "FIT-003")
async def test_who_asks_who_is_answering_gets_the_note_and_nobody_else(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        talk = Talk(harness, CHAT)
        for text in ("hello", "Wer bist du?", "thanks"):
            await talk.say(text)
        assert ["identity" in new_parts(row) for row in await rows(harness)] == [False, True, False]
        raw = await Talk(harness, {"x-tandem": "raw"}).say("Who are you?")
        assert "hidden_tokens" not in raw["prompt_tokens_details"]


@pytest.mark.spec("PKG-002", "PKG-009", "PKG-010", "PKG-011")
async def test_a_code_class_carries_what_its_tools_can_carry_out(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        await Talk(harness, CODING).say("write a program", [BASH])
        await Talk(harness, {**CODING, "x-session-id": "s2"}).say("write a program", [SEARCH])
        shell, search = await rows(harness)
        assert "package:coding" in new_parts(shell)
        assert "tool_fit" not in new_parts(shell)
        assert shell["extra"]["package_general"] == ["coding"]
        assert "package:coding-answer" in new_parts(search)
        assert new_parts(search)[-1] == "tool_fit"
        assert search["extra"]["tools"]["fallback"] == {"coding": "coding-answer"}


@pytest.mark.spec("PKG-002", "NOTE-006")
async def test_a_later_message_does_not_repeat_what_is_live(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        talk = Talk(harness, CODING)
        await talk.say("write a program", [BASH])
        await talk.say("and another one", [BASH])
        first, second = await rows(harness)
        assert "package:coding" in new_parts(first)
        assert "package:coding" not in new_parts(second)
        assert second["extra"]["package_general"] == ["coding"]


@pytest.mark.spec("PKG-010")
async def test_tool_fit_off_keeps_every_package(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "c", tool_fit="off") as harness:
        await Talk(harness, CODING).say("write a program", [SEARCH])
        (row,) = await rows(harness)
        assert "package:coding" in new_parts(row)
        assert "tools" not in row["extra"]


@pytest.mark.spec("FIT-005", "FIT-006", "FIT-007", "FIT-008")
async def test_a_lean_model_carries_no_package_and_is_asked_nothing(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    fit = "questions=off,packages=off,lean=on,effort_note=off"
    async with open_harness(conductor_config=tmp_path / "c", conductor_fit=fit) as harness:
        await Talk(harness, CODING).say("write a program", [BASH])
        (row,) = await rows(harness)
        assert row["class"] == "code_edit"  # the profile's default
        assert new_parts(row) == []
        assert "stages" not in row["detail"]
        assert row["extra"]["model_fit"] == {"effort_note": False, "questions": False, "packages": False, "lean": True}
        assert row["extra"]["package_fit_dropped"][0] == "coding"
        assert row["extra"]["note"]["skipped"] == ["effort_note_skipped:model_fit"]
