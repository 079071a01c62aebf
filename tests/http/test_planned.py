"""What a plan changes of a parsed request."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.conductor.router.plan import NO_EFFECTS, Effects
from tandem.http.openai.requests import parse_chat
from tandem.http.planned import applied

DROPS = Effects(under_plan=True, drop_ngram=True)


@pytest.mark.spec("API-175", "SMP-009", "ENG-079")
@pytest.mark.parametrize(
    ("sent", "effects", "server", "holds"),
    [
        ({}, NO_EFFECTS, 0, 0),
        ({}, NO_EFFECTS, 4, 4),
        ({"no_repeat_ngram_size": None}, DROPS, 4, 4),
        ({"no_repeat_ngram_size": 3}, NO_EFFECTS, 4, 3),
        ({"no_repeat_ngram_size": 0}, NO_EFFECTS, 4, 0),
        ({"no_repeat_ngram_size": 3}, DROPS, 0, 0),
        ({"no_repeat_ngram_size": 3}, DROPS, 4, 4),
    ],
)
def test_whose_ngram_rule_holds(sent: dict[str, Any], effects: Effects, server: int, holds: int) -> None:
    """The server's own stays where a plan drops the client's."""
    request = parse_chat({"messages": [{"role": "user", "content": "hi"}], **sent}, lambda _: True)
    assert applied(request, effects, ngram=server).rules.no_repeat_ngram == holds


def test_a_request_that_nothing_changes_is_itself() -> None:
    request = parse_chat({"messages": [{"role": "user", "content": "hi"}]}, lambda _: True)
    assert applied(request, NO_EFFECTS) is request
