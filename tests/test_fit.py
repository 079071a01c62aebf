"""The fit of the served model, as the service reads it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from tandem.conductor.router.modelfit import NO_FIT, ModelFit
from tandem.config import SettingError, Settings
from tandem.engine.fake import FakeEngine
from tandem.fit import check_fit, model_fit
from tandem.serve import run

CARD = replace(FakeEngine().card, name="M", conductor={"lean": True, "questions": False})


@pytest.mark.spec("FIT-004", "OBS-043")
def test_the_declaration_is_read_and_one_line_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        fit = model_fit(Settings(conductor_config=Path("c")), CARD)
    assert fit == ModelFit(lean=True, questions=False)
    assert [record.getMessage() for record in caplog.records] == ["[conductor] model fit of M: questions=off lean=on"]


@pytest.mark.spec("FIT-004")
def test_a_model_that_declares_none_is_served_as_written() -> None:
    assert model_fit(Settings(conductor_config=Path("c")), FakeEngine().card) == NO_FIT


def test_without_a_conductor_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        model_fit(Settings(), CARD)
    assert caplog.records == []


@pytest.mark.spec("FIT-006")
@pytest.mark.parametrize("value", ["colour=red", "lean=perhaps", "all"])
def test_a_bad_value_ends_the_start(value: str) -> None:
    settings = Settings(conductor_fit=value)
    with pytest.raises(SettingError, match=r"--conductor-fit: .*" + value.partition("=")[0]):
        check_fit(settings)
    with pytest.raises(SettingError, match="--conductor-fit"):
        model_fit(settings, CARD)
    with pytest.raises(SettingError, match="--conductor-fit"):
        run(replace(settings, fake=True), {})
