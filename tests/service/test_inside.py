"""The class question asked inside the conversation, by the request's own slot under its own grant (RTR-018 to 023)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tandem.engine.errors import EngineError
from tandem.engine.fake.sequence import FakeSeq
from tests.http.images.pictures import data_url, encoded, image_of
from tests.service.harness import Call, Harness, chat, fake, open_harness
from tests.service.said import said
from tests.service.test_plan import CHAT, SeenFake, decisions, put

WRITING, THREE_D = "B", "I"
"""Letters of two of the shipped classes."""
BEFORE = [{"role": "user", "content": "A page, please."}, {"role": "assistant", "content": "Here it is."}]
LONG = "word " * 2_000


@asynccontextmanager
async def open_inside(
    folder: Path, engine: Any = None, *, stage: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[Harness]:
    """A service whose router asks inside the conversation."""
    async with open_harness(engine=engine or SeenFake(), conductor_config=folder, **more) as harness:
        router = (await harness.client.send("/v1/conductor/router")).json["document"]
        router["classifier"]["context_stage"] = {"mode": "on", **(stage or {})}
        await put(harness, "router", router)
        yield harness


def follow(share: float = 0.9, before: Sequence[Any] = BEFORE, **script: Any) -> dict[str, Any]:
    """A second user message, with what the question about it finds."""
    asked = fake(**{"say": "done", "choose": {THREE_D: share}, **script})
    return {"model": "M", "messages": [*before, {"role": "user", "content": asked}]}


def inside(row: dict[str, Any]) -> dict[str, Any]:
    """The only stage of a row, which was asked inside."""
    (stage,) = row["detail"]["stages"]
    assert stage["stage"] == "engine_context"
    return dict(stage)


@pytest.mark.spec("RTR-018", "RTR-019", "RTR-021", "RTR-022", "RTR-023", "SCH-024", "SCH-025")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_follow_up_is_classed_inside_its_conversation(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    engine = SeenFake()
    caplog.set_level(logging.INFO)
    async with open_inside(tmp_path, engine) as harness:
        call = await harness.client.send(CHAT, {**follow(), "stream": stream})
        (row,) = await decisions(harness)
        sight = await harness.look()
    assert said(call).content == "done"
    asking, turn = engine.prompts
    assert asking.asks
    note = next(span.start for span in turn.spans if span.kind == "note")
    assert asking.ids[:note] == turn.ids[:note]
    assert asking.asked_at - note == 2, "the turn's end and the line behind it"
    assert turn.client_tokens == said(call).usage["prompt_tokens"], "the usage counts the turn alone"
    assert [verb.verb for verb in engine.calls].count("ask") == 1
    assert not [each for each in engine.calls if each.verb == "accept" and each.args["seq"] == 0], "nothing is decoded"
    assert (row["class"], row["reason"]) == ("three_d", "engine_context")
    assert row["extra"]["context_stage"] == {"reason": "followup"}
    stage = inside(row)
    assert (stage["label"], stage["confidence"]) == ("three_d", pytest.approx(0.9))
    assert len(stage["probabilities"]) == 9
    assert (stage["prompt_tokens"], stage["prefilled"] + stage["reused"]) == (len(asking.ids), len(asking.ids))
    assert stage["ms"] >= 0
    assert row["detail"]["notes"][0]["kind"] == "new"
    assert turn.hidden_tokens > 0
    assert row["outcome"] == "stop, 2 tokens"
    assert (sight.running, sight.slots[0]) == (0, "idle")
    assert not [line for line in caplog.messages if "A page, please" in line or "Pause before" in line]


@pytest.mark.spec("RTR-018")
async def test_a_long_first_message_is_asked_inside_and_a_short_one_is_not(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_inside(tmp_path, stage={"min_tokens": 1_000}) as harness:
        script = {"say": "done", "choose": {THREE_D: 0.9}}
        await harness.client.send(CHAT, chat(f"{LONG} {fake(**script)}"))
        await harness.client.send(CHAT, chat({"say": "hi", "choose": {"chat": 0.9}}))
        long, short = await decisions(harness)
    assert long["extra"]["context_stage"] == {"reason": "long"}
    assert (long["class"], inside(long)["stage"]) == ("three_d", "engine_context")
    assert short["detail"]["stages"][0]["stage"] == "engine"
    assert "context_stage" not in short["extra"]


@pytest.mark.spec("RTR-022", "RTR-018")
async def test_a_weak_answer_and_a_failed_one_keep_the_class(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    class Failing(SeenFake):
        fails = False

        def ask(self, seq: FakeSeq, ids: Sequence[int], options: Sequence[int]) -> tuple[float, ...]:
            if self.fails:
                raise EngineError("it cannot")
            return super().ask(seq, ids, options)

    engine = Failing()
    async with open_inside(tmp_path, engine) as harness:
        weak = await harness.client.send(CHAT, follow(choose={WRITING: 0.3}))
        engine.fails = True
        failed = await harness.client.send(CHAT, {**follow(), "stream": True})
        engine.fails = False
        after = await harness.client.send(CHAT, follow())
        rows = await decisions(harness)
    assert [said(call).content for call in (weak, failed, after)] == ["done"] * 3
    assert [row["class"] for row in rows] == ["chat", "chat", "three_d"]
    assert inside(rows[0])["label"] == "writing"
    assert inside(rows[1])["error"] == "engine_failed"


@pytest.mark.spec("RTR-018")
async def test_a_tool_turn_a_compaction_and_the_test_box_are_never_asked_inside(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    engine = SeenFake()
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    async with open_inside(tmp_path, engine, stage={"min_tokens": 1}) as harness:
        tool = [
            {"role": "user", "content": fake(say="done")},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        ]
        summary = "You are a context summarization agent. You are given a conversation between a user and an agent."
        compaction = [{"role": "system", "content": summary}, {"role": "user", "content": fake(say="A summary.")}]
        for messages in (tool, compaction):
            assert (await harness.client.send(CHAT, {"model": "M", "messages": messages})).status == 200
        box = await harness.client.send("/v1/conductor/test", {"text": LONG})
        rows = await decisions(harness)
    assert box.status == 200
    assert "engine_context" not in box.body.decode()
    assert not any("context_stage" in row["extra"] for row in rows)
    assert not any(prompt.asks and prompt.asked_at for prompt in engine.prompts)


@pytest.mark.spec("PRF-010", "RTR-019")
async def test_in_shadow_the_question_is_asked_and_the_turn_stays_as_it_is(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    engine = SeenFake()
    async with open_inside(tmp_path, engine) as harness:
        raw = await harness.client.send(CHAT, follow(), headers={"x-tandem": "raw"})
        shadow = await harness.client.send(CHAT, follow(), headers={"x-tandem": "shadow"})
        (row,) = await decisions(harness)
    plain, asking, turn = engine.prompts
    assert asking.asks
    assert turn == plain
    assert said(shadow) == said(raw)
    assert inside(row)["label"] == "three_d"


@pytest.mark.spec("RTR-018", "SCH-025")
async def test_off_not_one_verb_differs(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """Off is the seed: what a router without the key does, one that says off does too."""
    verbs = []
    for number, mode in enumerate(("seed", "off")):
        engine = SeenFake()
        async with open_harness(engine=engine, conductor_config=tmp_path / str(number)) as harness:
            router = (await harness.client.send("/v1/conductor/router")).json["document"]
            router["classifier"]["context_stage"] = {"mode": "off"}
            if mode == "off":
                await put(harness, "router", router)
            await harness.client.send(CHAT, follow())
            (row,) = await decisions(harness)
        assert row["detail"]["stages"][0]["stage"] == "engine"
        verbs.append([(call.verb, call.args) for call in engine.calls])
    assert verbs[0] == verbs[1]


@pytest.mark.spec("RTR-019", "SCH-049")
async def test_choices_and_a_side_slot(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """Another conversation's turn is in slot 0; two choices of one document each follow the question."""
    engine = SeenFake(slots=2)
    async with open_inside(tmp_path, engine) as harness:
        long = harness.client.start(CHAT, chat({"say": "word " * 200, "token_ms": 100}), headers={"x-tandem": "raw"})
        await began(engine, 1)
        body = follow(say="{}") | {"n": 2, "response_format": {"type": "json_object"}}
        call = await harness.client.send(CHAT, body)
        assert not long.finished.is_set()
        again = await harness.client.send(CHAT, body)
        await long.finished.wait()
        rows = await decisions(harness)
        sight = await harness.look()
    assert [choice["message"]["content"] for choice in call.json["choices"]] == ["{}", "{}"]
    assert again.status == 200
    assert [row["class"] for row in rows] == ["three_d", "three_d"]
    assert {outcome.slot for outcome in harness.outcomes[:2]} == {1}
    assert (sight.running, sight.waiting) == (0, 0)


async def began(engine: SeenFake, count: int) -> None:
    while len(engine.prompts) < count:
        await trio.sleep(0.01)


@pytest.mark.spec("SCH-025", "RTR-022", "SCH-063")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_during_the_question_leaves_nothing(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, stream: bool
) -> None:
    engine = SeenFake()
    async with open_inside(tmp_path, engine) as harness:
        body = follow(before=[{"role": "user", "content": LONG}, BEFORE[1]], prefill_ms_per_token=10)
        call = harness.client.start(CHAT, {**body, "stream": stream})
        await began(engine, 1)
        await trio.sleep(2)
        call.leave()
        await call.finished.wait()
        again = await harness.client.send(CHAT, follow())
        left, served = await decisions(harness)
    assert len(engine.prompts) == 3, "of the turn that was left nothing was read"
    assert said(again).content == "done"
    assert inside(left)["error"] == "engine_context_not_run"
    assert (left["class"], left["outcome"]) == ("chat", "abandoned")
    assert served["class"] == "three_d"
    assert harness.outcomes[0].finish_reason == "abandoned"


@pytest.mark.spec("SCH-025")
async def test_who_leaves_before_the_grant_is_recorded_as_not_run(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    engine = SeenFake()
    async with open_inside(tmp_path, engine) as harness:
        long = harness.client.start(CHAT, chat({"say": "word " * 200, "token_ms": 100}), headers={"x-tandem": "raw"})
        await began(engine, 1)
        call: Call = harness.client.start(CHAT, {**follow(), "stream": True})
        await trio.sleep(15)
        assert call.comments, "who waits to be asked is told where it stands"
        call.leave()
        await long.finished.wait()
        (row,) = await decisions(harness)
    assert len(engine.prompts) == 1
    assert inside(row)["error"] == "engine_context_not_run"


@pytest.mark.spec("RTR-022")
async def test_question_and_turn_share_the_requests_time(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """The question reads a conversation for longer than the request may run; then the turn has no time."""
    async with open_inside(tmp_path, request_timeout=5.0) as harness:
        body = follow(before=[{"role": "user", "content": LONG}, BEFORE[1]], prefill_ms_per_token=10)
        call = await harness.client.send(CHAT, body)
        (row,) = await decisions(harness)
        after = await harness.client.send(CHAT, follow())
    assert inside(row)["error"] == "engine_timeout"
    assert harness.outcomes[0].finish_reason == "timeout"
    assert call.status == 200
    assert said(after).content == "done"


@pytest.mark.spec("SCH-029", "RTR-021")
async def test_the_prefill_that_is_told_of_is_the_conversations(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    engine = SeenFake()
    async with open_inside(tmp_path, engine) as harness:
        body = follow(before=[{"role": "user", "content": LONG}, BEFORE[1]], prefill_ms_per_token=10)
        call = await harness.client.send(CHAT, {**body, "stream": True})
    told = [text for _, text in call.comments if text.startswith("prefill")]
    assert told
    assert told[0].endswith(f"/{engine.prompts[0].asked_at}")


@pytest.mark.spec("RTR-019", "RTR-020", "ENG-181")
@pytest.mark.parametrize("newest", [False, True])
async def test_a_conversation_with_images_is_asked_inside(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, newest: bool
) -> None:
    """The question has the turn's own images at the turn's own rows, so what was read for it serves the turn."""
    engine = SeenFake(images=True)
    shown = {"type": "image_url", "image_url": {"url": data_url(encoded(image_of(4, 4)))}}
    body = follow()
    at = 2 if newest else 0
    body["messages"][at] = {
        "role": "user",
        "content": [{"type": "text", "text": body["messages"][at]["content"]}, shown],
    }
    async with open_inside(tmp_path, engine) as harness:
        call = await harness.client.send(CHAT, body)
        (row,) = await decisions(harness)
        raw = await harness.client.send(CHAT, body, headers={"x-tandem": "raw"})
    asking, turn, plain = engine.prompts
    assert (row["class"], row["reason"]) == ("three_d", "engine_context")
    assert len(asking.images) == 1
    assert asking.images == turn.images == plain.images, "they lie before the note"
    note = next(span.start for span in turn.spans if span.kind == "note")
    assert asking.keys[:note] == turn.keys[:note]
    assert turn.images[0].stop <= note
    assert said(call).content == said(raw).content == "done"
    assert call.json["usage"]["prompt_tokens"] == raw.json["usage"]["prompt_tokens"]
