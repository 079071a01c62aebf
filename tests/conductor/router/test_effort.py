"""Levels, caps, and who has the last word on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tandem.conductor.documents import Documents, Profile
from tandem.conductor.documents.profiles import ClassRouting, ProfileThinking, Routing
from tandem.conductor.router.effort import LEVELS, EffortFacts, decide_effort
from tandem.conductor.router.facts import AskedThinking
from tandem.conductor.router.history import Checker
from tandem.conductor.router.plan import EffortDecision
from tests.conductor.documents.samples import documents

CHAT, CODING = documents().profiles["chat"], documents().profiles["coding"]
FAIL, PASS = Checker("check", "FAIL", 3), Checker("check", "PASS", 3)
OFF = AskedThinking(enabled=False, switch="chat_template_kwargs.enable_thinking")


def thinking(profile: Profile = CHAT, **changes: Any) -> Profile:
    return msgspec.structs.replace(profile, thinking=msgspec.structs.replace(profile.thinking, **changes))


def router(**changes: Any) -> Documents:
    own = documents()
    return Documents(
        **{name: getattr(own, name) for name in own.__dataclass_fields__}
        | {"router": msgspec.structs.replace(own.router, **changes)}
    )


def decide(class_id: str = "writing", **more: Any) -> EffortDecision:
    given: dict[str, Any] = {"documents": documents(), "profile": CHAT, "turn": "user"}
    return decide_effort(EffortFacts(class_id=class_id, **given | more))


@pytest.mark.spec("EFF-001", "RTR-001")
@pytest.mark.parametrize(
    ("class_id", "level", "cap"),
    [
        ("chat", "low", 1_024),
        ("writing", "medium", 8_192),
        ("analysis", "high", 16_384),
        ("research", "medium", 8_192),
        ("code_edit", "xhigh", None),
        ("debug", "xhigh", None),
        ("design_ui", "high", 16_384),
        ("drawing", "high", 16_384),
        ("three_d", "xhigh", None),
    ],
)
def test_every_class_has_its_level_and_cap(class_id: str, level: str, cap: int | None) -> None:
    found = decide(class_id)
    assert (found.level, found.cap, found.budget_source, found.thinking) == (level, cap, "class", "on")
    assert found.note_level == level


@pytest.mark.spec("EFF-004", "SES-016")
def test_level_off_does_not_think() -> None:
    found = decide("summarize", turn="compaction")
    assert (found.level, found.thinking, found.cap, found.budget_source) == ("off", "off", None, None)
    assert found.note_level is None


@pytest.mark.spec("EFF-001")
def test_a_profiles_budget_takes_the_place_of_a_levels() -> None:
    found = decide("writing", profile=thinking(budgets={"medium": 500}))
    assert (found.level, found.cap, found.budget_source) == ("medium", 500, "profile")
    assert decide("code_edit", profile=thinking(budgets={"xhigh": 40_000})).cap == 40_000
    assert decide("chat", profile=thinking(budgets={"medium": 500})).budget_source == "class"
    budgets = msgspec.structs.replace(documents().router.effort.budgets, medium=2_000)
    changed = router(effort=msgspec.structs.replace(documents().router.effort, budgets=budgets))
    assert decide("writing", documents=changed).cap == 2_000


@pytest.mark.spec("EFF-002", "PRF-018")
def test_a_profiles_routing_comes_before_the_class() -> None:
    routing = Routing(classes={"writing": ClassRouting(effort="xhigh")})
    assert decide(profile=msgspec.structs.replace(CHAT, routing=routing)).level == "xhigh"
    assert decide("chat", profile=msgspec.structs.replace(CHAT, routing=routing)).level == "low"


@pytest.mark.spec("EFF-006")
def test_the_size_lowers_the_effort_in_on_alone() -> None:
    shadow = decide("code_edit", size="small")
    assert (shadow.level, shadow.extra["size"]) == ("xhigh", "small")
    assert shadow.shadow["size"] == {"size": "small", "effort": "high"}
    on = decide("code_edit", size="small", profile=thinking(by_size="on"))
    assert (on.level, on.cap, on.note_level, on.shadow) == ("high", 16_384, "high", {})
    assert on.extra["effort_source"] == "size"
    assert on.extra["class_effort"] == "xhigh"
    assert decide("code_edit", size="large", profile=thinking(by_size="on")).level == "xhigh"
    off = decide("code_edit", size="small", profile=thinking(by_size="off"))
    assert (off.level, off.extra, off.shadow) == ("xhigh", {}, {})


@pytest.mark.spec("EFF-006")
def test_the_classes_effort_is_the_sizes_ceiling() -> None:
    routing = Routing(classes={"code_edit": ClassRouting(effort="low")})
    profile = thinking(msgspec.structs.replace(CHAT, routing=routing), by_size="on")
    assert decide("code_edit", size="large", profile=profile).level == "low"


@pytest.mark.spec("EFF-007", "EFF-008")
@pytest.mark.parametrize("turn", ["tool", "media"])
def test_a_tool_turn_may_have_a_level_of_its_own(turn: str) -> None:
    found = decide("code_edit", turn=turn, profile=thinking(tool_turn_effort="low"))
    assert (found.level, found.cap) == ("low", 1_024)
    assert found.note_level == "xhigh", "the note is still the class's"
    assert found.extra["effort_source"] == "tool_turn"
    assert found.extra["class_effort"] == "xhigh"
    assert decide("code_edit", turn=turn).level == "xhigh"
    structural = msgspec.structs.replace(documents().router.structural, tool_turn_effort="medium")
    own = router(structural=structural)
    assert decide("code_edit", turn=turn, documents=own).level == "medium"
    inherits = thinking(tool_turn_effort="inherit")
    assert decide("code_edit", turn=turn, documents=own, profile=inherits).level == "xhigh"


@pytest.mark.spec("EFF-007")
@pytest.mark.parametrize("turn", ["user", "after_compaction", "compaction", "assistant"])
def test_no_other_turn_has_the_tool_turns_level(turn: str) -> None:
    assert decide("code_edit", turn=turn, profile=thinking(tool_turn_effort="low")).level == "xhigh"


@pytest.mark.spec("EFF-009")
def test_a_failing_checker_raises_by_one() -> None:
    found = decide("writing", turn="tool", checker=FAIL)
    assert (found.level, found.cap, found.note_level) == ("high", 16_384, "medium")
    assert found.extra["effort_source"] == "checker"
    assert decide("code_edit", turn="tool", checker=FAIL).level == "xhigh", "at most xhigh"
    assert decide("writing", turn="tool", checker=PASS).level == "medium"
    assert decide("writing", turn="user", checker=FAIL).level == "medium"
    low = decide("code_edit", turn="tool", checker=FAIL, profile=thinking(tool_turn_effort="low"))
    assert low.level == "medium"


@pytest.mark.spec("EFF-002", "EFF-010")
def test_an_outcome_raises_and_never_goes_below_the_class() -> None:
    assert decide("writing", turn="tool", outcome="xhigh").level == "xhigh"
    assert decide("code_edit", turn="tool", outcome="low", profile=thinking(tool_turn_effort="low")).level == "xhigh"


@pytest.mark.spec("EFF-011")
def test_a_retry_after_the_argument_loop_guard() -> None:
    low = thinking(tool_turn_effort="off")
    assert decide("code_edit", turn="tool", argloop_retry=True, profile=low).level == "medium"
    found = decide("writing", turn="tool", argloop_retry=True)
    assert (found.level, found.extra["argloop_retry"]) == ("high", {"raised": True, "effort": "high"})
    refused = decide("writing", turn="tool", argloop_retry=True, asked=OFF)
    assert refused.thinking == "off_client"
    assert refused.extra["argloop_retry"] == {"raised": False, "effort": None}


@pytest.mark.spec("EFF-012", "API-100")
def test_a_clients_off_is_off_under_every_profile() -> None:
    for name, profile in documents().profiles.items():
        found = decide("code_edit", profile=profile, asked=OFF)
        assert (found.thinking, found.cap, found.budget_source, found.level) == ("off_client", None, None, None), name
        assert (found.note_level, found.note_skipped) == (None, "client_off")
        assert found.extra["client_thinking"] == {
            "field": "chat_template_kwargs.enable_thinking",
            "class_effort": "xhigh",
        }
    assert decide("code_edit", asked=replace(OFF, number=500)).cap is None


@pytest.mark.spec("EFF-013", "API-096")
def test_a_clients_number_wins() -> None:
    for number, cap in ((300, 300), (100_000, 100_000), (0, None)):
        found = decide("chat", asked=AskedThinking(number=number, word="high"))
        assert (found.level, found.cap, found.budget_source) == ("low", cap, "client")
        assert "client_word" not in found.extra, "a number beats a word"
    assert decide("summarize", asked=AskedThinking(number=64)).thinking == "on"
    assert decide("summarize", asked=AskedThinking(number=0)).thinking == "off", "0 sets no cap, and turns nothing on"


@pytest.mark.spec("EFF-014", "API-096", "API-097")
def test_a_clients_word_is_a_ceiling_on_the_cap() -> None:
    held = decide("code_edit", asked=AskedThinking(word="medium"))
    assert (held.level, held.cap) == ("xhigh", 8_192)
    assert held.extra["client_word"] == {"word": "medium", "effort": "xhigh", "cap": 8_192}
    assert held.note_level == "xhigh"
    free = decide("chat", asked=AskedThinking(word="medium"))
    assert (free.cap, free.extra.get("client_word")) == (1_024, None)
    for word in ("xhigh", "max", "none", "off", "unheard"):
        assert decide("analysis", asked=AskedThinking(word=word, enabled=True)).cap == 16_384
    assert decide("analysis", asked=AskedThinking(word="minimal")).cap == 1_024
    for profile in (CODING, documents().profiles["overnight"]):
        ignored = decide("code_edit", profile=profile, asked=AskedThinking(word="medium"))
        assert (ignored.cap, ignored.extra.get("client_word")) == (None, None)


@pytest.mark.spec("EFF-015", "API-098", "API-099")
def test_a_bare_switch_gives_way_and_alone_the_word_is_the_cap() -> None:
    assert decide("chat", asked=AskedThinking(enabled=True)).cap == 1_024
    off: dict[str, Any] = {"turn": "tool", "profile": thinking(tool_turn_effort="off")}
    assert decide(**off).thinking == "off", "`reasoning.enabled` and `thinking.type` alone are nothing here"
    switched = AskedThinking(enabled=True, switch="enable_thinking")
    kept = decide(asked=switched, **off)
    assert (kept.level, kept.thinking, kept.cap, kept.budget_source) == ("low", "on", 1_024, "class")
    assert decide("summarize", turn="compaction", asked=switched).thinking == "off"
    own = decide("code_edit", decides=False, asked=AskedThinking(word="medium"))
    assert (own.level, own.cap, own.budget_source, own.note_level) == (None, 8_192, "client", None)
    assert decide("code_edit", decides=False) == EffortDecision()
    assert decide("code_edit", decides=False, asked=AskedThinking(number=9)).cap == 9
    assert decide("code_edit", decides=False, asked=OFF).thinking == "off_client"


@pytest.mark.spec("EFF-015", "PRF-011", "API-099")
def test_in_shadow_the_clients_own_cap_holds() -> None:
    found = decide("code_edit", applies=False, asked=AskedThinking(word="medium"), turn="tool", size="small")
    assert (found.level, found.cap, found.budget_source, found.note_level) == (None, 8_192, "client", None)
    sized = {"size": "small", "effort": "high"}
    assert found.shadow == {"size": sized, "effort": "xhigh", "thinking": "on", "budget": 8_192}
    assert found.extra == {"size": "small"}


@pytest.mark.spec("FIT-005", "FIT-007")
def test_a_models_fit_may_have_no_sentence() -> None:
    found = decide("chat", has_note=False)
    assert (found.cap, found.note_level, found.note_skipped) == (1_024, None, "model_fit")


@pytest.mark.spec("EFF-002")
def test_the_order_of_the_steps() -> None:
    profile = thinking(by_size="on", tool_turn_effort="low", budgets={"high": 777})
    found = decide("code_edit", size="small", turn="tool", checker=FAIL, outcome="low", profile=profile)
    assert found.level == "xhigh", "an outcome never goes below the class"
    found = decide("code_edit", size="small", turn="tool", checker=FAIL, argloop_retry=True, profile=profile)
    assert (found.level, found.extra["effort_source"]) == ("medium", "checker")
    found = decide("analysis", turn="tool", checker=FAIL, asked=AskedThinking(word="low", number=3), profile=profile)
    assert (found.level, found.cap, found.budget_source) == ("medium", 3, "client")


@pytest.mark.spec("API-097")
def test_what_no_document_names_is_left_to_the_client() -> None:
    assert decide("gone") == EffortDecision()
    assert LEVELS == ("off", "low", "medium", "high", "xhigh")
    assert ProfileThinking().client_word == "ceiling"
