"""D3: an answer that repeats itself (MON-156)."""

from __future__ import annotations

import pytest

from tests.conductor.monitor.guarding import answering, cut, first


@pytest.mark.spec("MON-156")
def test_an_endless_word_ends_the_answer() -> None:
    """H-01."""
    found = first(answering, cut("Here they are: " + "items " * 1_500))
    assert found is not None
    tokens, action = found
    assert (tokens, action.kind, action.reason) == (1_088, "GIVE_UP", "answer_loop(period)")
    assert action.text == "[a piece of 6, {copies} times]".format(**action.detail)
    assert (action.detail["unit"], action.score) == (6, action.detail["copies"])


@pytest.mark.spec("MON-156")
def test_sixty_copies_are_left_alone() -> None:
    assert first(answering, cut("items " * 60)) is None
    assert first(answering, cut("ok\n" * 100)) is None


@pytest.mark.spec("MON-156")
def test_a_constrained_answer_is_exempt() -> None:
    assert answering(["items "] * 1_024) is not None
    assert answering(["items "] * 1_024, constrained=True) is None


def test_ids_tell_where_tokens_have_no_text_of_their_own() -> None:
    pieces = ["\N{GRINNING FACE}"] * 400
    assert answering(pieces, ids=[7, 8, 9] * 400) is not None
    assert answering(pieces, ids=range(1_200)) is None
