from __future__ import annotations

import re
from dataclasses import fields
from typing import get_args

import pytest

from tandem.store.journal import HiddenText, JournalRow, Kind, event_row, failed_write
from tandem.store.schema import EVENTS
from tests.project.tree import ROOT
from tests.store.samples import event


@pytest.mark.spec("OBS-019")
def test_a_row_has_a_field_for_each_column() -> None:
    assert {field.name.rstrip("_") for field in fields(JournalRow)} == {column.name for column in EVENTS}
    row = event_row(event(3, class_="build", score=0.5, detail={"stages": [1]}, extra={}))
    values = dict(zip([column.name for column in EVENTS], row, strict=True))
    assert {name: value for name, value in values.items() if value is not None} == {
        "ts_ms": 1_774_744_200_003,
        "kind": "route",
        "request_id": "req-3",
        "class": "build",
        "score": 0.5,
        "detail": '{"stages":[1]}',
        "extra": "{}",
    }


@pytest.mark.spec("OBS-021")
def test_the_kinds_are_those_of_the_specification() -> None:
    text = (ROOT / "docs/spec/observability.md").read_text()
    table = text.split("- **OBS-021**")[1].split("- **OBS-022**")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(get_args(Kind))


@pytest.mark.spec("OBS-020")
def test_a_text_is_known_by_its_hash() -> None:
    text = HiddenText.of("Check your work.", 4)
    assert re.fullmatch("[0-9a-f]{16}", text.hash)
    assert HiddenText.of("Check your work.") == HiddenText(text.hash, "Check your work.", None)
    assert HiddenText.of("Check your work!").hash != text.hash


def test_a_detail_that_is_no_json_is_told() -> None:
    with pytest.raises(TypeError):
        event_row(event(detail={"what": object()}))


def test_a_failed_write_is_told_without_the_words_of_its_error() -> None:
    row = failed_write(5, "transcript", OSError(28, "No space left", "/secret/of/user"), request_id="req-1")
    assert (row.kind, row.request_id, row.detail) == ("store", "req-1", {"part": "transcript", "error": "OSError"})
