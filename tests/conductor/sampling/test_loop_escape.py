from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tandem.conductor.documents.profiles import ProfileSampling
from tandem.conductor.monitor.events import Task
from tandem.conductor.monitor.state import CallRecord, MonitorDelta
from tandem.conductor.sampling import Draw, Repeat, SamplingCounts, SamplingKit, repeat_at_end, sampling_kit
from tandem.conductor.sessions import SessionDelta
from tests.conductor.documents.samples import documents
from tests.conductor.router.driving import Desk, Served, user

TOOLS = ({"type": "function", "function": {"name": "read", "parameters": {}}},)
TASK = user("Repair it")
CARD = Draw(1.0, 0.95, 20)


def call(arguments: str, result: str, name: str = "read", id: str = "c") -> list[dict[str, Any]]:
    made = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": id, "content": result},
    ]


SAME = call('{"path": "a.py"}', "no such file")


@pytest.mark.spec("SMP-005", "API-181")
def test_equal_calls_with_equal_results_are_a_repeat() -> None:
    assert repeat_at_end([TASK, *SAME]) is None
    assert repeat_at_end([TASK, *SAME, *SAME]) == Repeat("repeat", "read")
    spaced = call('{"path":   "a.py"}', "no such file")
    assert repeat_at_end([TASK, *SAME, *spaced]) == Repeat("repeat", "read")
    assert repeat_at_end([TASK, *SAME, *SAME], repeats=4) is None
    assert repeat_at_end([TASK, *SAME, *SAME, *SAME], repeats=4) == Repeat("repeat", "read")
    assert repeat_at_end([]) is None


@pytest.mark.spec("SMP-005")
def test_keys_in_another_order_are_equal() -> None:
    one, other = call('{"a": 1, "b": 2}', "x"), call('{"b": 2, "a": 1}', "x")
    assert repeat_at_end([TASK, *one, *other]) == Repeat("repeat", "read")


@pytest.mark.spec("SMP-005", "API-181")
def test_three_similar_calls_with_equal_results_are_a_near_repeat() -> None:
    near = [call(json.dumps({"path": f"/srv/app/module/file_{number}.py"}), "no such file") for number in (1, 2, 3)]
    assert repeat_at_end([TASK, *near[0], *near[1]]) is None
    assert repeat_at_end([TASK, *near[0], *near[1], *near[2]]) == Repeat("near", "read")
    far = call('{"path": "/etc/hosts"}', "no such file")
    assert repeat_at_end([TASK, *far, *near[1], *near[2]]) is None
    other = call(json.dumps({"path": "/srv/app/module/file_1.py"}), "no such file", name="list")
    assert repeat_at_end([TASK, *other, *near[1], *near[2]]) is None


@pytest.mark.spec("SMP-007", "API-181")
@pytest.mark.parametrize(
    "messages",
    [
        [TASK, *SAME, user("again"), *SAME],
        [TASK, *SAME, *SAME, user("and now?")],
        [TASK, *SAME, *call('{"path": "a.py"}', "one line")],
        [TASK, *SAME, *call('{"path": "b/other/place.txt"}', "no such file")],
        [TASK, *SAME, *call('{"x": 1}', "y", name="edit"), *SAME],
        [TASK, *SAME, SAME[0]],
    ],
)
def test_what_breaks_the_streak(messages: Sequence[Any]) -> None:
    assert repeat_at_end(messages) is None


@pytest.mark.spec("SMP-007")
def test_a_wait_breaks_it_too() -> None:
    waits = [*call("{}", "running", "wait", "w1"), *call("{}", "running", "wait", "w2")]
    assert repeat_at_end([TASK, *waits]) == Repeat("repeat", "wait")
    assert repeat_at_end([TASK, *waits], waited={"w1"}) is None
    assert repeat_at_end([TASK, *waits], waited={"w2"}) is None


@pytest.mark.spec("SMP-007", "MON-089", "MON-092", "API-181")
def test_waits_are_known_from_the_session() -> None:
    box = desk(loop_escape="on")
    waits = [*call("{}", "running", "wait", "w1"), *call("{}", "running", "wait", "w2")]
    looped = serve(box, *waits, now=100.0)
    assert looped.plan.effects.sampling.why == "loop_escape"
    record = CallRecord(id="w1", tool="wait", arguments="", near="", result="", issued_at=50.0, returned_at=61.0)
    box.sessions.commit(looped.session, SessionDelta(monitor=MonitorDelta(calls=(record,))))
    assert serve(box, *waits, now=100.0).plan.effects.sampling.why is None
    quick = replace(record, returned_at=59.0)
    box.sessions.commit(looped.session, SessionDelta(monitor=MonitorDelta(calls=(quick,), ended_at=90.0)))
    assert serve(box, *waits, now=99.0).plan.effects.sampling.why == "loop_escape"
    assert serve(box, *waits, now=100.0).plan.effects.sampling.why is None


@pytest.mark.spec("MON-092")
def test_the_note_is_in_the_words_of_the_policy() -> None:
    box = desk(loop_escape="on")
    task = Task(id="C3", rule="same_call", mode="off", params={"escape_texts": "Not {tool} again.", "wait_s": 3.0})
    kit = box.kit.sampling
    box.kit = replace(box.kit, sampling=kit.under([Task(id="C4", rule="malformed_call", mode="act"), task]))
    assert kit.under([]) == kit
    assert box.kit.sampling.wait_s == 3.0
    note = serve(box, *SAME, *SAME).plan.effects.note
    assert note is not None
    assert [part.text for part in note.parts] == ["Not read again."]


def test_results_of_one_answer_go_with_their_calls() -> None:
    two = [call("{}", "x", "a", "1"), call("{}", "y", "b", "2")]
    calls = {"role": "assistant", "content": "", "tool_calls": [each[0]["tool_calls"][0] for each in two]}
    swapped = [calls, two[1][1], two[0][1]]
    assert repeat_at_end([TASK, *swapped, *call("{}", "x", "a"), *call("{}", "x", "a")]) == Repeat("repeat", "a")
    assert repeat_at_end([TASK, *swapped, *call("{}", "y", "b")]) == Repeat("repeat", "b")


def test_arguments_of_any_size_and_kind_are_compared_soon() -> None:
    hostile = [call("ab" * 500_000 + str(number), "x" * 1_000_000) for number in range(3)]
    assert repeat_at_end([TASK, *hostile[0], *hostile[1], *hostile[2]]) == Repeat("near", "read")
    deep = call("[" * 100_000, "x")
    assert repeat_at_end([TASK, *deep, *deep]) == Repeat("repeat", "read")


def desk(**sampling: Any) -> Desk:
    shipped = documents()
    profile = shipped.profile("coding")
    assert profile is not None
    changed = msgspec.structs.replace(profile, sampling=ProfileSampling(**sampling))
    box = Desk(
        documents=replace(shipped, profiles={**shipped.profiles, "coding": changed}),
        headers={"x-session-id": "a", "x-tandem-profile": "coding"},
    )
    box.kit = replace(box.kit, sampling=SamplingKit(card=CARD))
    return box


def serve(box: Desk, *messages: Any, **facts: Any) -> Served:
    return box.serve([TASK, *messages], kind="opencode", tools=TOOLS, **facts)


@pytest.mark.spec("SMP-005", "SMP-006", "SMP-008", "API-180", "API-181")
def test_a_turn_that_ends_in_a_repeat_is_drawn_until_one_does_not() -> None:
    box = desk(loop_escape="on")
    assert serve(box).plan.effects.sampling.why is None
    assert serve(box, *SAME).plan.effects.sampling.why is None
    on = serve(box, *SAME, *SAME, seed=7)
    sampling = on.plan.effects.sampling
    assert (sampling.why, sampling.draw) == ("loop_escape", CARD)
    assert sampling.extra["loop_escape"] == {
        "state": "on",
        "why": "repeat",
        "name": "read",
        "since_turn": 3,
        "turn": 3,
        "sampling": {"temperature": 1.0, "top_p": 0.95, "top_k": 20},
        "seed": 7,
    }
    assert on.plan.effects.note is not None
    assert [part.name for part in on.plan.effects.note.parts] == ["loop_escape"]
    still = serve(box, *SAME, *SAME, *SAME)
    assert still.plan.effects.sampling.extra["loop_escape"]["since_turn"] == 3
    assert still.plan.effects.note is None
    assert on.placed.delta is not None
    assert still.plan.effects.replays == (*on.plan.effects.replays, *on.placed.delta.notes)
    back = serve(box, *SAME, *SAME, *SAME, *call('{"path": "b.py"}', "text"))
    assert back.plan.effects.sampling.why is None
    assert back.plan.row is not None
    assert back.plan.row.extra["loop_escape"] == {"state": "back", "since_turn": 3, "back_at_turn": 5}
    after = serve(box, *SAME, *SAME, *SAME, *call('{"path": "b.py"}', "text"), *call('{"path": "c.py"}', "more"))
    assert after.plan.row is not None
    assert "loop_escape" not in after.plan.row.extra


@pytest.mark.spec("SMP-005", "SMP-007", "API-180", "API-181")
def test_who_is_exempt() -> None:
    looped = (*SAME, *SAME)
    assert serve(desk(loop_escape="off"), *looped).plan.effects.sampling.why is None
    box = desk(loop_escape="on")
    assert box.serve([TASK, *looped], kind="opencode").plan.effects.sampling.why is None
    assert serve(box, *looped, tool_choice="none").plan.effects.sampling.why is None
    assert serve(box, *looped, sampling=frozenset({"temperature"})).plan.effects.sampling.why is None
    raw = serve(box, *looped, headers={"x-tandem": "raw"})
    assert raw.plan.effects.sampling.why is None
    again = serve(box, *looped, headers={**box.headers, "x-tandem-regenerate": "1"})
    assert again.plan.effects.sampling.why == "regenerate"
    shadow = serve(box, *looped, headers={**box.headers, "x-tandem": "shadow"})
    assert shadow.plan.effects.sampling.why is None
    assert shadow.session.escaping_since == 0


@pytest.mark.spec("SMP-006", "API-181")
def test_the_card_for_every_turn_with_tools() -> None:
    box = desk(agentic_default="card")
    assert serve(box, seed=1).plan.effects.sampling.rules == {"temperature": 1.0, "top_p": 0.95, "top_k": 20, "seed": 1}
    assert serve(box).plan.effects.sampling.why == "card"
    assert box.serve([TASK], kind="opencode").plan.effects.sampling.why is None
    assert serve(box, sampling=frozenset({"seed"})).plan.effects.sampling.why is None
    assert serve(desk()).plan.effects.sampling.why is None


@pytest.mark.spec("SMP-006", "API-180")
def test_the_card_is_the_checkpoints_else_the_regenerates() -> None:
    assert sampling_kit({"temperature": 1.0, "top_p": 0.95, "top_k": 20.0}).card == CARD
    assert sampling_kit({"temperature": 0.6}).card == Draw(0.6, 1.0, 0)
    own = Draw(0.5, 0.9, 10)
    assert sampling_kit({}, regenerate=own).card == own
    assert sampling_kit({"temperature": 0.0, "top_k": 5}, regenerate=own).card == own


@pytest.mark.spec("SMP-004", "SMP-008", "API-054")
def test_health_has_settings_and_counts() -> None:
    box = desk(loop_escape="on")
    counts = SamplingCounts()
    for served in (
        serve(box, *SAME, *SAME),
        serve(box, *SAME),
        serve(box, headers={**box.headers, "x-tandem-regenerate": "1"}),
        serve(box, headers={**box.headers, "x-tandem-regenerate": "1"}, sampling=frozenset({"seed"})),
    ):
        counts.add(served.plan.effects.sampling)
    blocks = counts.blocks(box.kit.sampling)
    assert blocks["regenerate"] == {
        "on": True,
        "temperature": 0.7,
        "top_p": 0.95,
        "top_k": 20,
        "counts": {"header": 1, "conversation": 0, "client_params": 1},
    }
    assert blocks["loop_escape"]["counts"] == {"on": 1, "back": 1, "card": 0}


@pytest.mark.spec("SMP-008", "API-180", "OBS-043")
def test_the_log_tells_both_ends() -> None:
    box = desk(loop_escape="on")
    on = serve(box, *SAME, *SAME, seed=3).plan.effects.sampling.log("r1")
    assert on == "[loop-escape] r1 on why=repeat since_turn=1 temperature=1.0 top_p=0.95 top_k=20 seed=3"
    assert serve(box, *SAME).plan.effects.sampling.log("r2") == "[loop-escape] r2 back since_turn=1 turn=2"


@pytest.mark.spec("SMP-009")
def test_a_clients_n_gram_rule_is_dropped_where_repetition_is_the_point() -> None:
    box = Desk(headers={"x-session-id": "a"})  # everything is classified as code
    dropped = box.serve([TASK], ngram=3)
    assert dropped.plan.effects.drop_ngram
    assert dropped.plan.row is not None
    assert "penalty_dropped" in dropped.plan.row.extra
    assert not box.serve([TASK]).plan.effects.drop_ngram
    assert not box.serve([TASK], ngram=3, headers={"x-tandem": "raw"}).plan.effects.drop_ngram
