"""What planning shows of itself, and what it takes that is odd: the test box, the export, tight windows, huge texts."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import trio.testing

import tandem
from tandem.draining import drain
from tests.service.harness import Call, chat, fake, open_harness
from tests.service.test_plan import CHAT, CODE, TALK, SeenFake, decisions, put

CONTRACT = Path(tandem.__file__).parent / "contract" / "conductor-v1"


@pytest.mark.spec("PRF-019")
async def test_the_test_box(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = SeenFake()
    schema = json.loads((CONTRACT / "test.schema.json").read_text("utf-8"))
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        text = 'Write a parser. @fake {"choose": {"code_edit": 0.9}}'
        call = await harness.client.send("/v1/conductor/test", {"text": text, "profile": "coding"})
        assert call.status == 200, call.body
        jsonschema.Draft202012Validator(schema).validate(call.json)
        assert (call.json["class"], call.json["source"], call.json["profile"]) == ("code_edit", "engine", "coding")
        assert call.json["note_tokens"] > 0
        assert [stage["stage"] for stage in call.json["stages"]] == [
            "engine",
            *["engine"] * (len(call.json["stages"]) - 1),
        ]
        raw = await harness.client.send("/v1/conductor/test", {"text": text, "profile": "raw"})
        jsonschema.Draft202012Validator(schema).validate(raw.json)
        assert (raw.json["mode"], raw.json["class"]) == ("raw", None)
        assert not list(harness.service.context.sessions.states())
        assert await decisions(harness) == []
        for body, param in (
            ({}, "text"),
            ({"text": ""}, "text"),
            ({"text": 1}, "text"),
            ({"text": "a", "profile": "nobody"}, "profile"),
            ({"text": "a", "prompt": "b"}, "prompt"),
        ):
            refused = await harness.client.send("/v1/conductor/test", body)
            assert (refused.status, refused.json["error"]["param"]) == (400, param)
    async with open_harness() as harness:
        assert (await harness.client.send("/v1/conductor/test", {"text": "a"})).status == 404


@pytest.mark.spec("PRF-019", "ADR-002")
async def test_the_test_box_shows_the_address_that_a_note_would_have(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    asked = {"text": f"Write a parser. {fake(choose={'code_edit': 0.9})}", "profile": "coding"}
    async with open_harness(conductor_config=tmp_path) as harness:
        document = (await harness.client.send("/v1/conductor/packages")).json["document"]
        answer = next(each for each in document["packages"] if each["name"] == "coding-answer")
        answer |= {"text": "Ask {tandem_url}/here."}
        await put(harness, "packages", document)
        call = await harness.client.send("/v1/conductor/test", asked, headers={"host": "localhost:8080"})
        assert "Ask http://localhost:8080/here." in said(call)
    async with open_harness(conductor_config=tmp_path, url="https://box.example") as harness:
        assert "Ask https://box.example/here." in said(await harness.client.send("/v1/conductor/test", asked))


def said(call: Call) -> str:
    return "\n".join(part["text"] for part in call.json["note"])


@pytest.mark.spec("NOTE-011", "API-236", "SES-008")
async def test_what_only_the_model_read_can_be_exported(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = SeenFake()
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        body = chat(CODE, conversation_id="a/b c")
        first = await harness.client.send(CHAT, body)
        body["messages"] += [{"role": "assistant", "content": first.text}, *chat(CODE)["messages"]]
        await harness.client.send(CHAT, body)
        rows = await decisions(harness)
        exported = await harness.client.send("/v1/conductor/sessions/c:a/b c/export?format=md")
        assert exported.status == 200, exported.body
        assert exported.headers["content-type"].startswith("text/markdown")
        text = exported.body.decode()
        note = next(
            b"".join(map(engine.text.piece, prompt.ids[span.start : span.end])).decode()
            for prompt in engine.prompts
            for span in prompt.spans
            if span.kind == "note"
        )
        assert note.strip() in text
        assert "The same text as before" in text
        assert "@fake" not in text
        as_json = await harness.client.send("/v1/conductor/sessions/c:a/b c/export?format=json")
        assert [event["id"] for event in as_json.json["events"] if event["kind"] == "route"] == [
            row["id"] for row in rows
        ]
        assert (await harness.client.send("/v1/conductor/sessions/nobody/export")).status == 404
        assert (await harness.client.send("/v1/conductor/sessions/c:a/export?format=pdf")).status == 400
        listed = await harness.client.send("/v1/conductor/sessions")
        live = listed.json["sessions"][0]["live"]
        assert (live["client_kind"], live["class"], live["turns"], live["notes"]) == ("anon", "code_edit", 2, 1)
        timeline = await harness.client.send("/v1/conductor/sessions/c:a/b c")
        assert len([event for event in timeline.json["events"] if event["kind"] == "route"]) == 2


@pytest.mark.spec("NOTE-012")
async def test_what_does_not_fit_is_left_out_and_nothing_refused(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    engine = SeenFake(max_len=600)
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        for words in range(300, 600, 12):
            body = chat("word " * words + fake(**CODE), max_tokens=4)
            raw = await harness.client.send(CHAT, body, headers={"x-tandem": "raw"})
            on = await harness.client.send(CHAT, body)
            assert on.status == raw.status, (words, on.body)
        marks = [row["detail"].get("marks") for row in await decisions(harness)]
    assert ["note.window"] in marks


async def test_a_huge_system_prompt_is_served(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = SeenFake(max_len=8_000_000)
    body = chat(TALK)
    body["messages"].insert(0, {"role": "system", "content": "Do as you are told. " * 250_000})
    async with open_harness(engine=engine, conductor_config=tmp_path) as harness:
        call = await harness.client.send(CHAT, body)
        assert call.status == 200, call.body[:300]


@pytest.mark.parametrize("where", ["conversation_id", "content", "tool", "header"])
async def test_a_lone_surrogate_breaks_nothing(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, where: str
) -> None:
    body = chat(CODE)
    headers = {}
    match where:
        case "conversation_id":
            body["conversation_id"] = "\ud800"
        case "content":
            body["messages"][0]["content"] += " \ud800"
        case "tool":
            about = "Runs. The current working directory is: /\ud800"
            body["tools"] = [{"type": "function", "function": {"name": "run", "description": about}}]
            headers["x-tandem-profile"] = "chat"
        case _:
            headers = {"x-session-id": "ÿ" * 4000}
    async with open_harness(conductor_config=tmp_path) as harness:
        call = await harness.client.send(CHAT, body, headers=headers)
        assert call.status in (200, 400), call.body
        after = await harness.client.send(CHAT, chat(CODE))
        assert after.status == 200
        assert await decisions(harness)
        await drain(harness.service.context)
        assert not harness.service.context.broken
        assert not harness.service.context.switched_off
