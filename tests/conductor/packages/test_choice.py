"""The package question: what it asks, whose answer counts, and when it is not asked."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tandem.conductor.documents import Documents, Package, Packages, Profile
from tandem.conductor.packages.choice import MOST, NONE, PackageChoice, settled
from tandem.conductor.packages.selection import Chosen, Offer, decide, offer
from tandem.conductor.router.plan import Answer, Question
from tandem.conductor.sessions import PackagePick, SessionView
from tests.conductor.documents.samples import documents
from tests.conductor.packages.tools import BASH

ON = Profile(mode="on")
ROUTER = documents().router


def offered(class_id: str = "drawing", within: Documents | None = None) -> Offer:
    return offer(within or documents(), ON, class_id, [BASH])


def view(class_id: str | None = None, package: PackagePick | None = None) -> SessionView:
    return SessionView(key="c:1", first_date=datetime.date(2026, 1, 1), class_id=class_id, package=package)


def question(choice: PackageChoice) -> Question:
    step = choice.next(None)
    assert isinstance(step, Question)
    return step


def answered(shares: dict[str, float], **more: Any) -> Chosen:
    choice = PackageChoice(ROUTER, offered(), "draw a cat")
    question(choice)
    step = choice.next(Answer(probabilities=shares, ms=7.0, **more))
    assert isinstance(step, Chosen)
    return step


@pytest.mark.spec("PKG-004")
def test_the_question_is_the_class_questions_with_packages_as_options() -> None:
    asked = question(PackageChoice(ROUTER, offered(), "draw a {cat}"))
    assert (asked.id, asked.stage, asked.deadline_ms) == ("package", "engine", ROUTER.classifier.timeout_ms)
    assert [option.id for option in asked.options] == ["svg-drawing", "canvas-drawing", "test-web", "none"]
    assert "draw a {cat}" in asked.text
    assert "svg-drawing - a picture as SVG" in asked.text
    assert "D: none - none of these" in asked.lettered


@pytest.mark.spec("PKG-004")
def test_a_prompt_of_its_own_names_the_class() -> None:
    classifier = msgspec.structs.replace(ROUTER.classifier, package_prompt="{class}? {question} of {classes}")
    router = msgspec.structs.replace(ROUTER, classifier=classifier)
    asked = question(PackageChoice(router, offered(), "a cat"))
    assert asked.text.startswith("drawing? a cat of svg-drawing - ")


@pytest.mark.spec("PKG-004")
def test_an_answer_counts_from_its_threshold_on() -> None:
    sure = answered({"svg-drawing": 0.6, "canvas-drawing": 0.3, "test-web": 0.05, "none": 0.05})
    assert (sure.name, sure.how, sure.ms, sure.answered) == ("svg-drawing", "engine", 7.0, True)
    unsure = answered({"svg-drawing": 0.59, "canvas-drawing": 0.41})
    assert (unsure.name, unsure.how, unsure.answered) == (None, "below_accept", False)
    assert unsure.probabilities["svg-drawing"] == 0.59
    none = answered({"none": 0.9, "svg-drawing": 0.1})
    assert (none.name, none.how, none.answered) == (None, "engine", True)


@pytest.mark.spec("PKG-004")
def test_nobody_who_answers_is_no_answer() -> None:
    late = answered({}, error="engine_timeout")
    assert (late.name, late.how, late.answered) == (None, "engine_timeout", False)
    assert decide(offered(), late).pick is None
    assert decide(offered(), answered({"none": 1.0})).pick == PackagePick("drawing", None)


@pytest.mark.spec("RTR-023")
def test_under_the_grant_nobody_is_asked() -> None:
    step = PackageChoice(ROUTER, offered(), "draw a cat", ()).next(None)
    assert isinstance(step, Chosen)
    assert (step.name, step.how, step.answered) == (None, "under_grant", False)


def test_a_router_without_the_stage_asks_nobody() -> None:
    engine = msgspec.structs.replace(ROUTER.classifier.engine, mode="off")
    router = msgspec.structs.replace(ROUTER, classifier=msgspec.structs.replace(ROUTER.classifier, engine=engine))
    step = PackageChoice(router, offered(), "draw a cat").next(None)
    assert isinstance(step, Chosen)
    assert step.how == "not_asked"


@pytest.mark.spec("PKG-005")
def test_a_prose_class_keeps_its_package_without_a_question() -> None:
    essay = PackagePick("writing", "writing-essay")
    kept = settled(ROUTER, offered("writing"), view("writing", essay))
    assert kept == Chosen(name="writing-essay", how="sticky", answered=False)
    decision = decide(offered("writing"), kept)
    assert [part.name for part in decision.packages] == ["package:writing-essay"]
    assert decision.pick is None  # the session has it


@pytest.mark.spec("PKG-005")
@pytest.mark.parametrize(
    ("session", "class_id"),
    [
        (view(), "writing"),
        (view("writing", PackagePick("writing", None)), "writing"),  # the answer was none
        (view("chat", PackagePick("writing", "writing-essay")), "writing"),  # the class moved, and back
        (view("writing", PackagePick("writing", "writing-essay")), "research"),  # the class moves now
        (view("writing", PackagePick("writing", "no-longer-there")), "writing"),
        (view("drawing", PackagePick("drawing", "svg-drawing")), "drawing"),  # a code class asks every message
    ],
)
def test_it_is_asked_again(session: SessionView, class_id: str) -> None:
    assert settled(ROUTER, offered(class_id), session) is None


@pytest.mark.spec("PKG-006")
def test_a_policy_without_the_sticky_key_follows_the_router() -> None:
    policies = {**ROUTER.policies, "writing": msgspec.structs.replace(ROUTER.policies["writing"], package_sticky=None)}
    router = msgspec.structs.replace(ROUTER, policies=policies)
    assert settled(router, offered("writing"), view("writing", PackagePick("writing", "writing-essay"))) is None


@pytest.mark.spec("SES-019")
def test_after_a_compaction_every_class_keeps_its_package() -> None:
    svg = view("drawing", PackagePick("drawing", "svg-drawing"))
    assert settled(ROUTER, offered(), svg, after_compaction=True) == Chosen(
        name="svg-drawing", how="kept", answered=False
    )
    assert settled(ROUTER, offered(), view("drawing"), after_compaction=True) == Chosen(
        name=None, how="kept", answered=False
    )


def test_a_question_has_no_more_options_than_letters() -> None:
    many = tuple(Package(name=f"p{at}", description="one", max_tokens=10, text="t") for at in range(80))
    policies = {**ROUTER.policies}
    policies["chat"] = msgspec.structs.replace(policies["chat"], packages=tuple(one.name for one in many))
    within = replace(
        documents(), packages=Packages(packages=many), router=msgspec.structs.replace(ROUTER, policies=policies)
    )
    asked = question(PackageChoice(ROUTER, offered("chat", within), "hello"))
    assert len(asked.options) == MOST + 1
    assert asked.options[-1] == NONE
