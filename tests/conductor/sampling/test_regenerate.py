from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tandem.conductor.router.client_kind import ClientKind
from tandem.conductor.sampling import SamplingKit
from tests.conductor.router.driving import Desk, Served, assistant, system, tool, user

FIRST = [system("Be brief."), user("Name a bird")]
ANSWER = assistant("A wren.")
SECOND = [*FIRST, ANSWER, user("Another")]


def said(served: Served) -> str | None:
    return served.plan.effects.sampling.why


def desk(**more: Any) -> Desk:
    return Desk(headers={"x-session-id": "a"}, **more)


@pytest.mark.spec("SMP-001", "API-177")
def test_the_same_conversation_again_is_a_regenerate() -> None:
    box = desk()
    assert said(box.serve(FIRST, answer=ANSWER)) is None
    again = box.serve(FIRST, answer=assistant("An owl."))
    assert said(again) == "regenerate"
    assert again.plan.effects.sampling.by == "conversation"
    assert said(box.serve(SECOND, answer=ANSWER)) is None
    assert said(box.serve(SECOND)) == "regenerate"


@pytest.mark.spec("SMP-001", "API-177")
def test_so_is_a_prefix_that_was_answered_and_one_whose_answer_was_stopped() -> None:
    box = desk()
    box.serve(FIRST)
    assert said(box.serve(FIRST)) == "regenerate"
    box.serve(SECOND, answer=ANSWER)
    box.serve([*SECOND, ANSWER, user("More")], answer=ANSWER)
    assert said(box.serve(SECOND)) == "regenerate"


@pytest.mark.spec("SMP-001", "API-177")
def test_another_system_prompt_and_a_missing_reasoning_do_not_matter() -> None:
    box = desk()
    thought = {**ANSWER, "content": "<think>hm</think>A wren."}
    box.serve([*FIRST, thought, user("Another")], answer=ANSWER)
    assert said(box.serve([system("Now in German."), FIRST[1], ANSWER, user("Another")])) == "regenerate"


@pytest.mark.spec("SMP-001", "API-177")
def test_what_is_no_regenerate() -> None:
    box = desk()
    box.serve(SECOND, answer=ANSWER)
    calls = assistant("", '{"a":1}')
    for messages in (
        [*FIRST, ANSWER, user("Another one")],
        [*SECOND, ANSWER],
        [*SECOND, calls, tool("x")],
        [*SECOND, calls, tool("x")],
    ):
        assert said(box.serve(messages)) is None


@pytest.mark.spec("SMP-001", "API-178")
@pytest.mark.parametrize("kind", ["opencode", "hermes", "openai-sdk", "curl", "anon"])
def test_only_chat_clients_are_matched(kind: ClientKind) -> None:
    box = desk()
    box.serve(FIRST, kind=kind, headers={"x-session-id": "a", "x-tandem-profile": "chat"})
    again = box.serve(FIRST, kind=kind, headers={"x-session-id": "a", "x-tandem-profile": "chat"})
    assert said(again) is None


@pytest.mark.spec("SMP-001", "API-177")
def test_a_day_later_it_is_forgotten_and_only_the_last_32_are_kept() -> None:
    box = desk()
    box.serve(FIRST, now=0.0)
    assert said(box.serve(FIRST, now=24 * 3600.0)) is None
    for number in range(32):
        box.serve([user(f"Question {number}")], now=24 * 3600.0 + number)
    assert said(box.serve([user("Question 0")], now=25 * 3600.0)) == "regenerate"
    assert said(box.serve(FIRST, now=25 * 3600.0)) is None


@pytest.mark.spec("SMP-001")
def test_a_first_turn_without_an_id_is_known_by_its_head() -> None:
    box = Desk()
    box.serve(FIRST, answer=ANSWER)
    again = box.serve(FIRST)
    assert again.session.key.endswith("#2")
    assert said(again) == "regenerate"
    assert said(box.serve(FIRST, client="other")) is None


@pytest.mark.spec("SMP-002", "API-176", "API-179")
def test_it_is_sampled_with_a_fresh_seed_and_all_else_is_the_turns() -> None:
    box = desk()
    first, again = box.serve(FIRST, seed=4), box.serve(FIRST, seed=5)
    sampling = again.plan.effects.sampling
    assert sampling.rules == {"temperature": 0.7, "top_p": 0.95, "top_k": 20, "seed": 5}
    assert first.plan.effects.sampling.rules == {}
    assert again.prompt.ids == first.prompt.ids
    assert again.plan.class_decision is not None
    assert first.plan.class_decision is not None
    assert again.plan.class_decision.class_id == first.plan.class_decision.class_id
    assert again.plan.effects.cap == first.plan.effects.cap


@pytest.mark.spec("SMP-003", "API-179")
@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k", "min_p", "seed"])
def test_the_clients_fields_are_used_as_sent(name: str) -> None:
    box = desk()
    box.serve(FIRST)
    again = box.serve(FIRST, sampling=frozenset({name}))
    assert said(again) == "regenerate"
    assert again.plan.effects.sampling.rules == {}
    assert again.plan.row is not None
    assert again.plan.row.extra["client_params"] == [name]


@pytest.mark.spec("SMP-004", "API-178")
def test_the_header_marks_one_from_any_client_and_opts_out() -> None:
    box = Desk()
    marked: dict[str, Any] = {"kind": "anon", "headers": {"x-tandem-regenerate": "1", "x-tandem-profile": "coding"}}
    assert box.serve(FIRST, **marked).plan.effects.sampling.by == "header"
    box = desk()
    box.serve(FIRST)
    assert said(box.serve(FIRST, headers={"x-session-id": "a", "x-tandem-regenerate": "0"})) is None


@pytest.mark.spec("SMP-004", "API-176")
def test_the_setting_turns_it_off() -> None:
    box = desk()
    box.kit = replace(box.kit, sampling=SamplingKit(regenerates=False))
    box.serve(FIRST)
    assert said(box.serve(FIRST)) is None
    assert said(box.serve(FIRST, headers={"x-session-id": "a", "x-tandem-regenerate": "1"})) is None


@pytest.mark.spec("SMP-004", "API-179")
def test_the_log_has_one_line() -> None:
    box = desk()
    assert box.serve(FIRST).plan.effects.sampling.log("r1") is None
    line = box.serve(FIRST, seed=5).plan.effects.sampling.log("r2")
    assert line == "[regenerate] r2 by=conversation temperature=0.7 top_p=0.95 top_k=20 seed=5"
    as_sent = box.serve(FIRST, sampling=frozenset({"seed"})).plan.effects.sampling.log("r3")
    assert as_sent == "[regenerate] r3 by=conversation client"


@pytest.mark.spec("PRF-010", "PRF-014", "API-179")
def test_shadow_tells_and_a_client_prompt_leaves_out() -> None:
    box = desk()
    box.serve(FIRST)
    shadow = box.serve(FIRST, headers={"x-session-id": "a", "x-tandem": "shadow"})
    assert said(shadow) is None
    assert shadow.plan.row is not None
    assert shadow.plan.row.extra["shadow"]["sampling"] == "regenerate"
    kept = box.serve(FIRST, headers={"x-session-id": "a", "x-tandem-profile": "tools"})
    assert said(kept) is None
    assert kept.plan.row is not None
    assert "regenerate" in kept.plan.row.extra["prompt"]["dropped"]
