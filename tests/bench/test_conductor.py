"""The labelled prompts, how answers to them are counted, and the session replays; on the fake engine's tokens."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest
from click.testing import CliRunner

from bench.conductor import remote
from bench.conductor.asking import InProcess, Server
from bench.conductor.desk import documents_in_use
from bench.conductor.fixtures import Fixture, fixtures, requests
from bench.conductor.labelled import Labelled, labelled_prompts, messages_of, text_of
from bench.conductor.planning import conversation, planning_report
from bench.conductor.replay import MODES, Mode, Turn, agree, efforts, replayed, report
from bench.conductor.sessions_command import command as sessions
from bench.conductor.tally import Judged, judged, reports
from bench.smoke import smoke
from tandem.bench.subject import BenchError
from tandem.conductor.router.modelfit import NO_FIT, ModelFit
from tandem.conductor.router.plan import StageResult
from tandem.engine.fake import FakeEngine, FakeText

DOCUMENTS = documents_in_use()


def test_the_prompts_are_as_the_issue_asks() -> None:
    prompts = labelled_prompts()
    classes = {one.id: one for one in DOCUMENTS.router.classes}
    assert len(prompts) >= 240
    assert len({(prompt.text, prompt.material, prompt.previous) for prompt in prompts}) == len(prompts)
    assert {prompt.label for prompt in prompts} == set(classes)
    assert all(prompt.previous is None or prompt.previous in classes for prompt in prompts)
    assert all(classes[prompt.label].structural == (prompt.kind == "structural") for prompt in prompts)
    languages = Counter(prompt.language for prompt in prompts)
    assert 0.8 < languages["en"] / languages["de"] < 1.25
    per_class = Counter((prompt.label, prompt.language) for prompt in prompts if prompt.kind != "structural")
    assert min(per_class.values()) >= 12


def test_a_prompt_as_it_is_sent() -> None:
    by_kind = {prompt.kind: prompt for prompt in labelled_prompts()}
    long = by_kind["long"]
    assert text_of(long).startswith(long.text) == (long.place == "start")
    first, answer, newest = messages_of(by_kind["followup"])
    assert (first["role"], answer["role"], newest["content"]) == ("user", "assistant", by_kind["followup"].text)
    assert [message["role"] for message in messages_of(by_kind["structural"])] == ["system", "user"]


def test_the_planner_decides_them() -> None:
    """What has a shape of its own is found by it; the fake engine is as sure of one class as of another."""
    engine = FakeEngine()
    judge = InProcess(engine, engine.text, NO_FIT, DOCUMENTS).judge
    found = [judge(prompt) for prompt in labelled_prompts()[::10] + labelled_prompts()[-8:]]
    for one in found:
        if one.prompt.kind == "structural":
            assert (one.class_id, one.stages) == ("summarize", ())
        else:
            assert [stage.stage for stage in one.stages] == ["engine"]
            assert one.class_id == (one.prompt.previous or "chat")
    unasked = InProcess(engine, engine.text, ModelFit(questions=False), DOCUMENTS).judge(labelled_prompts()[0])
    assert (unasked.class_id, unasked.source, unasked.stages) == ("chat", "default", ())


def test_what_is_counted() -> None:
    def one(label: str, said: str, confidence: float, kind: Any = "short") -> Judged:
        prompt = Labelled(label=label, language="en", kind=kind, text="")
        detail = {"prompt_tokens": 100, "prefilled": 60}
        stage = StageResult(stage="engine", label=said, confidence=confidence, ms=5.0, detail=detail)
        return judged(prompt, said, "engine", [stage])

    failed = judged(
        Labelled(label="chat", language="de", kind="short", text=""),
        "chat",
        "default",
        [StageResult(stage="engine", ms=8_000.0, error="engine_timeout")],
    )
    found = [one("chat", "chat", 0.9), one("debug", "chat", 0.5), one("debug", "debug", 0.4), failed]
    stages, thresholds, classes, groups = reports(found, DOCUMENTS.router)
    cells = {row[0]: row[1] for row in stages.rows}
    assert (cells["asked"], cells["no answer"]) == ("4", "1 (25 %)")
    assert (cells["right"], cells["accepted and right"]) == ("2 (67 %)", "1 (33 %)")
    assert (cells["accepted and wrong"], cells["tokens, mean"], cells["of them read"]) == ("1 (33 %)", "100", "60")
    assert ("0.80", "1 (33 %)", "1 (100 %)", "0") in thresholds.rows
    assert ("debug", "2", "1 (50 %)", "1 (50 %)", "chat 1") in classes.rows
    assert ("short, en", "3", "2 (67 %)", "2 (67 %)") in groups.rows


def test_a_server_is_asked_by_its_test_box() -> None:
    sent: list[Any] = []

    def send(*asked: Any) -> dict[str, Any]:
        sent.append(asked)
        return {"class": "debug", "source": "engine", "stages": [STAGE]}

    server = Server("http://here:1/", "key", send)
    found = server.judge(labelled_prompts()[0])
    body = {"text": labelled_prompts()[0].text, "profile": "general"}
    assert sent == [("http://here:1/v1/conductor/test", "key", body)]
    assert found is not None
    assert (found.class_id, found.stages[0].confidence) == ("debug", 0.9)
    assert server.judge(labelled_prompts()[-1]) is None


STAGE = {
    "stage": "engine",
    "label": "debug",
    "confidence": 0.9,
    "probabilities": {},
    "ms": 1,
    "error": None,
    "guard": 0,
}


def test_planning_is_measured() -> None:
    assert len(conversation(200)) == 201
    table = planning_report(FakeText(), count=8, rounds=1)
    assert [row[0] for row in table.rows[:3]] == ["prepare", "plan", "place"]
    assert all(float(cell) > 0 for row in table.rows for cell in row[1:])


@pytest.mark.spec("NOTE-005", "PRF-010")
@pytest.mark.parametrize("name", sorted(fixtures()))
def test_on_shadow_and_raw_agree(name: str) -> None:
    fixture, text = fixtures()[name], FakeText()
    modes: dict[Mode, list[Turn]] = {mode: replayed(fixture, mode, text, None) for mode in MODES}
    assert agree(modes) == []
    on, shadow, raw = (modes[mode] for mode in MODES)
    assert [turn.possible for turn in shadow] == [turn.possible for turn in raw]
    assert all(turn.hidden == 0 and turn.class_id is None for turn in raw)
    assert any(turn.hidden for turn in on)
    assert {turn.class_id for turn in on} > {None} or name in ("plain", "terminal")
    table = report(name, fixture, modes)
    assert len(table.rows) == len(on) + 1
    told = [note for note in table.notes if note == f"turns at each level of effort: {efforts(on)}"]
    assert len(told) == any(turn.effort for turn in on)
    if fixture.moves:
        assert sum(turn.possible or 0 for turn in on) > sum(turn.possible or 0 for turn in raw)


@pytest.mark.spec("EFF-018")
def test_turns_are_counted_by_their_level() -> None:
    """Of a run, and of the suite, which is all its runs."""
    turns = replayed(fixtures()["opencode"], "on", FakeText(), None)
    counts = Counter(turn.effort or "none" for turn in turns)
    assert len(counts) > 1
    assert sum(counts.values()) == len(turns)
    assert set(efforts(turns).split(", ")) == {f"{level} {count}" for level, count in counts.items()}
    assert set(efforts([*turns, *turns]).split(", ")) == {f"{level} {2 * count}" for level, count in counts.items()}


@pytest.mark.spec("PRF-024")
def test_commands_ask_for_the_engines_own_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, str]] = []
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    choice: dict[str, Any] = {"finish_reason": "stop", "message": {"content": "x"}}
    told = {"choices": [choice], "usage": usage}

    def send(_address: str, _key: str | None, _body: Any, headers: dict[str, str]) -> dict[str, Any]:
        sent.append(headers)
        return told

    table = smoke("http://here:1/", None, "raw", send=send)
    assert {headers["X-Tandem"] for headers in sent} == {"raw"}
    assert table.rows[0] == ("chat", "stop", "9", "4", "0", "3", "-")
    assert "profile may have answered" in smoke("http://here:1/", send=send).notes[0]
    assert sent[-1] == {}
    sent.clear()
    monkeypatch.setattr(remote, "post", send)
    called = CliRunner().invoke(sessions, ["--url", "http://here:1", "--x-tandem", "raw", "--session", "plain"])
    assert (called.exit_code, {headers["X-Tandem"] for headers in sent}) == (0, {"raw"}), called.output
    assert CliRunner().invoke(sessions, ["--x-tandem", "raw"]).exit_code == 2
    choice["finish_reason"] = "error"
    with pytest.raises(BenchError, match="it ended with error"):
        smoke("http://here:1", send=send)


def test_what_does_not_agree_is_named() -> None:
    def turn(possible: int, cached: int | None = None, hidden: int = 0) -> Turn:
        return Turn("1 user", 1000, hidden, possible, cached, None, True)

    assert agree({"on": [turn(900)], "shadow": [turn(900)], "raw": [turn(900)]}) == []
    assert agree({"on": [turn(800)], "shadow": [turn(900)], "raw": [turn(900)]}) == ["1 user"]
    assert agree({"on": [turn(900)], "shadow": [turn(900, hidden=3)], "raw": [turn(900)]}) == ["1 user"]
    resumed = {"on": [turn(900, 700)], "shadow": [turn(900, 700)], "raw": [turn(900, 900)]}
    typed: dict[Mode, list[Turn]] = {"on": resumed["on"], "shadow": resumed["shadow"], "raw": resumed["raw"]}
    assert (agree(typed), agree(typed, grid=256)) == (["1 user"], [])


def test_an_engine_reads_them() -> None:
    """On the fake engine, which keeps nothing: a replay with a restart opens it twice."""
    opened: list[FakeEngine] = []

    def engine() -> Any:
        opened.append(FakeEngine())
        return nullcontext(opened[-1])

    fixture = fixtures()["open-webui"]
    turns = replayed(fixture, "on", FakeText(), engine)
    assert [turn.what for turn in turns] == [request.what for request in requests(fixture) if request.messages]
    assert (len(opened), {turn.cached for turn in turns}) == (2, {0})


def test_a_fixture_is_what_its_client_would_send() -> None:
    fixture: Fixture = fixtures()["opencode"]
    sent = [request for request in requests(fixture) if request.messages]
    kinds = [request.step.do for request in sent]
    assert {"user", "tool", "side", "compaction"} <= set(kinds)
    for request in sent:
        if request.step.do == "tool":
            *_, call, result = request.messages
            assert result["tool_call_id"] == call["tool_calls"][0]["id"]
