"""The packages of a turn: general, core, task skill, by class, profile, tools and model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tandem.conductor.documents import ClassRouting, Documents, Packages, Policy, Profile, Routing
from tandem.conductor.packages.selection import Chosen, Offer, decide, offer
from tandem.conductor.router.modelfit import ModelFit
from tandem.conductor.sessions import PackagePick
from tests.conductor.documents.samples import documents
from tests.conductor.packages.tools import BASH, SEARCH

ON = Profile(mode="on")


def names(offered: Offer) -> tuple[list[str], list[str], list[str]]:
    return (
        [one.name for one in offered.general],
        [one.name for one in offered.core],
        [one.name for one in offered.options],
    )


def with_policy(class_id: str, **changes: Any) -> Documents:
    router = documents().router
    policy = msgspec.structs.replace(router.policies[class_id], **changes)
    return replace(documents(), router=msgspec.structs.replace(router, policies={**router.policies, class_id: policy}))


@pytest.mark.spec("PKG-002", "PKG-003", "RTR-001")
@pytest.mark.parametrize(
    ("class_id", "general", "core", "options"),
    [
        ("chat", [], [], []),
        ("summarize", [], [], []),
        ("writing", [], [], ["writing-essay", "writing-letter", "writing-story", "translation"]),
        ("analysis", [], [], ["maths-steps", "data-reading", "decision-table"]),
        ("research", [], [], ["research-report", "source-check"]),
        ("code_edit", ["coding"], [], ["test-cli", "test-api", "test-data", "test-web", "test-game"]),
        ("debug", ["coding"], [], ["test-cli", "test-api", "test-data", "test-web", "test-game"]),
        ("design_ui", ["coding"], [], ["page-design", "ui-components", "accessibility", "test-web"]),
        ("drawing", ["coding"], [], ["svg-drawing", "canvas-drawing", "test-web"]),
        ("three_d", ["coding"], ["threejs-scene"], ["test-game", "test-web"]),
    ],
)
def test_what_ships_for_each_class(class_id: str, general: list[str], core: list[str], options: list[str]) -> None:
    offered = offer(documents(), ON, class_id, [BASH])
    assert names(offered) == (general, core, options)
    assert offered.sentence is None


@pytest.mark.spec("PKG-002", "PKG-003")
def test_general_and_core_go_ahead_of_the_task_skill_in_full() -> None:
    decision = decide(offer(documents(), ON, "three_d", [BASH]), Chosen(name="test-game", how="engine"))
    assert [part.name for part in decision.packages] == ["package:coding", "package:threejs-scene", "package:test-game"]
    assert all(part.kind == "class" for part in decision.packages)
    coding = documents().package("coding")
    assert coding is not None
    assert decision.packages[0].text == (coding.text or "").strip()
    assert decision.tool_fit is None
    assert decision.pick == PackagePick("three_d", "test-game")


@pytest.mark.spec("PKG-011")
def test_the_row_says_what_was_carried_and_how_it_was_chosen() -> None:
    chosen = Chosen(name="test-game", how="engine", probabilities={"test-game": 0.9, "none": 0.1}, ms=12.0)
    extra = decide(offer(documents(), ON, "three_d", [BASH, SEARCH]), chosen).extra
    assert extra == {
        "package_general": ["coding"],
        "package_core": ["threejs-scene"],
        "package_choice": {
            "candidates": ["test-game", "test-web"],
            "probabilities": {"test-game": 0.9, "none": 0.1},
            "pick": "test-game",
            "how": "engine",
            "ms": 12.0,
        },
        "tools": {"offered": 2, "caps": ["shell", "write"], "dropped": [], "fallback": {}},
    }
    assert decide(offer(documents(), ON, "chat", [])).extra == {}


@pytest.mark.spec("PKG-003", "PRF-018")
def test_a_profiles_routing_takes_the_place_of_the_class_policy() -> None:
    routed = Profile(
        mode="on",
        routing=Routing(classes={"three_d": ClassRouting(core=("test-web", "svg-drawing"))}),
    )
    assert names(offer(documents(), routed, "three_d", [BASH])) == (
        ["coding"],
        ["test-web"],  # the other is no package of the class: no effect
        ["threejs-scene", "test-game"],
    )
    short = Profile(mode="on", routing=Routing(classes={"three_d": ClassRouting(packages=("threejs-scene",))}))
    assert names(offer(documents(), short, "three_d", [BASH])) == ([], ["threejs-scene"], [])


@pytest.mark.spec("PKG-006")
def test_without_the_keys_every_listed_package_is_an_option() -> None:
    bare = [msgspec.structs.replace(one, general=False) for one in documents().packages.packages]
    older = replace(with_policy("three_d", core=()), packages=Packages(packages=tuple(bare)))
    assert names(offer(older, ON, "three_d", [BASH])) == (
        [],
        [],
        ["coding", "threejs-scene", "test-game", "test-web"],
    )


def test_a_package_that_is_off_unknown_or_without_text_is_none() -> None:
    packages = list(documents().packages.packages)
    packages = [msgspec.structs.replace(one, enabled=one.name != "svg-drawing") for one in packages]
    packages = [
        msgspec.structs.replace(one, text=None, source="skill:gone") if one.name == "test-web" else one
        for one in packages
    ]
    changed = replace(
        with_policy("drawing", packages=("coding", "svg-drawing", "canvas-drawing", "test-web", "nowhere")),
        packages=Packages(packages=tuple(packages)),
    )
    assert names(offer(changed, ON, "drawing", [BASH])) == (["coding"], [], ["canvas-drawing"])
    assert names(offer(changed, ON, "no_such_class", [BASH])) == ([], [], [])


@pytest.mark.spec("PKG-009", "PKG-010", "PKG-011")
def test_a_chat_without_a_shell_gets_the_answer_package_and_the_sentence() -> None:
    offered = offer(documents(), ON, "code_edit", [SEARCH])
    assert names(offered) == (["coding-answer"], [], [])
    decision = decide(offered)
    assert [part.name for part in decision.packages] == ["package:coding-answer"]
    assert decision.tool_fit is not None
    assert "search" in decision.tool_fit.text
    assert decision.extra["tools"] == {
        "offered": 1,
        "caps": [],
        "dropped": ["coding", "test-cli", "test-api", "test-data", "test-web", "test-game"],
        "fallback": {"coding": "coding-answer"},
    }


@pytest.mark.spec("PKG-010")
def test_tool_fit_in_shadow_only_tells_and_off_says_nothing() -> None:
    whole = names(offer(documents(), ON, "code_edit", [BASH]))
    shadow = offer(documents(), ON, "code_edit", [], tool_fit="shadow")
    assert names(shadow) == whole
    assert shadow.sentence is None
    assert shadow.shadow["tools"]["dropped"][0] == "coding"
    assert "tools" not in shadow.extra
    off = offer(documents(), ON, "code_edit", [], tool_fit="off")
    assert names(off) == whole
    assert (off.extra, off.shadow) == ({}, {})


@pytest.mark.spec("FIT-005", "FIT-007")
def test_a_model_may_leave_packages_out() -> None:
    none = decide(offer(documents(), ON, "three_d", [BASH], model=ModelFit(packages=False)))
    assert none.packages == ()
    assert none.extra == {"package_fit_dropped": ["coding", "threejs-scene", "test-game", "test-web"]}
    lean = decide(offer(documents(), ON, "three_d", [BASH], model=ModelFit(lean=True)))
    assert [part.name for part in lean.packages] == ["package:threejs-scene"]
    assert lean.extra["model_fit_lean"] == ["coding"]
    named = ModelFit(no_package_classes=("three_d",))
    assert decide(offer(documents(), ON, "three_d", [BASH], model=named)).packages == ()
    assert decide(offer(documents(), ON, "debug", [BASH], model=named)).packages != ()


@pytest.mark.spec("FIT-005", "FIT-007")
def test_a_model_may_take_short_packages_alone() -> None:
    offered = offer(documents(), ON, "three_d", [BASH], model=ModelFit(max_package_tokens=430))
    assert names(offered) == (["coding"], [], ["test-game", "test-web"])
    assert offered.extra["package_fit_dropped"] == ["threejs-scene"]


def test_no_package_of_a_policy_is_in_two_parts() -> None:
    twice = with_policy("three_d", packages=("coding", "threejs-scene", "coding", "coding-answer"), core=("coding",))
    assert names(offer(twice, ON, "three_d", [SEARCH])) == (["coding-answer"], [], ["threejs-scene"])
    assert isinstance(twice.policy("three_d"), Policy)
