"""Prose against a weak code class, and the line that says how a message was read."""

from __future__ import annotations

import pytest

from tandem.conductor.documents.router import Guard, Reading
from tandem.conductor.router.guard import guarded, is_prose
from tandem.conductor.router.plan import StageResult
from tandem.conductor.router.reading import reading_line

CODE = frozenset({"code_edit", "three_d"})
LETTER = "Write a letter to the town about the new park"


def weak(share: float) -> StageResult:
    shares = {"code_edit": share, "three_d": 0.2, "writing": 0.18, "chat": 0.1}
    return StageResult(stage="engine", label="code_edit", confidence=share, probabilities=shares)


@pytest.mark.spec("RTR-015")
def test_a_weak_code_class_loses_to_the_best_class_beside_them() -> None:
    seen = guarded(weak(0.52), Guard(), LETTER, CODE)
    assert (seen.label, seen.confidence, seen.guard) == ("writing", 0.18, True)
    assert seen.probabilities == weak(0.52).probabilities


@pytest.mark.spec("RTR-015")
def test_what_the_guard_leaves_alone() -> None:
    for result, rules, text in (
        (weak(0.7), Guard(), LETTER),
        (weak(0.5), Guard(mode="off"), LETTER),
        (weak(0.5), Guard(), "write a letter to the town, as an HTML page"),
        (weak(0.5), Guard(), "make it faster"),
        (StageResult(stage="engine", label="chat", confidence=0.3, probabilities={"chat": 0.3}), Guard(), LETTER),
        (StageResult(stage="engine", label="three_d", confidence=0.3, probabilities={"three_d": 0.3}), Guard(), LETTER),
    ):
        assert guarded(result, rules, text, CODE) is result
    assert guarded(weak(0.5), Guard(below=0.4), LETTER, CODE) == weak(0.5)


@pytest.mark.spec("RTR-015", "RTR-004")
@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("An essay of 800 words on loneliness in games", True),
        ("Schreib einen Brief an meine Vermieterin", True),
        ("Ein Gedicht über den Herbst, bitte", True),
        ("Fasse es in 300 Wörtern zusammen", True),
        ("Write a short story about a lighthouse", True),
        ("Write an essay about the history of Python", False),
        ("Schreibe ein Programm, das einen Brief an alle druckt", False),
        ("count the letters of a word in app.ts", False),
        ("fix story.py", False),
        ("make the box spin", False),
    ],
)
def test_prose_and_code_by_their_words(text: str, prose: bool) -> None:
    assert is_prose(text) is prose


@pytest.mark.spec("RTR-029")
def test_of_a_very_long_message_head_and_tail_are_read() -> None:
    filler = "and so on. " * 20_000
    assert is_prose(f"An essay, please. {filler}")
    assert not is_prose(f"An essay, please. {filler} In Python.")
    assert is_prose(f"An essay, please. {filler} In Python. {filler}"), "what stands in the middle is not looked for"


@pytest.mark.spec("RTR-017")
def test_a_doubtful_reading_is_said() -> None:
    line = reading_line(
        Reading(mode="on"), "three_d", {"three_d": 0.6, "design_ui": 0.2, "drawing": 0.16, "chat": 0.04}
    )
    assert line is not None
    sentence, told = line
    assert "a 3D three.js scene" in sentence
    assert "a flat web page" in sentence
    assert "drawing" not in sentence
    assert told == {"mode": "on", "class": "three_d", "share": 0.6, "other": "design_ui", "other_share": 0.2}


@pytest.mark.spec("RTR-017")
@pytest.mark.parametrize(
    ("rules", "picked", "shares"),
    [
        (Reading(), "three_d", {"three_d": 0.6, "drawing": 0.3}),
        (Reading(mode="on"), "three_d", {"three_d": 0.8, "drawing": 0.2}),
        (Reading(mode="on"), "three_d", {"three_d": 0.6, "drawing": 0.14}),
        (Reading(mode="on"), "three_d", {"three_d": 0.6, "chat": 0.4}),
        (Reading(mode="on"), "chat", {"chat": 0.6, "drawing": 0.4}),
        (Reading(mode="on", phrases={}), "three_d", {"three_d": 0.6, "drawing": 0.3}),
    ],
)
def test_where_nothing_is_said(rules: Reading, picked: str, shares: dict[str, float]) -> None:
    assert reading_line(rules, picked, shares) is None
