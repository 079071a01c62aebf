"""How the conductor fits the served model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tandem.conductor.router.modelfit import NO_FIT, ModelFit, fit_of
from tandem.engine.models.llama import declared_fit
from tandem.engine.models.registry import fit_of as declared_of
from tests.embedded import embedded_checkpoint

LEAN = {"questions": False, "packages": False, "lean": True}


@pytest.mark.spec("FIT-004", "FIT-005")
def test_a_model_that_declares_nothing_gets_the_documents_as_written() -> None:
    assert fit_of({}) == NO_FIT
    assert NO_FIT.row is None
    assert str(NO_FIT) == "as written"


@pytest.mark.spec("FIT-006")
def test_a_declaration_holds_unless_it_is_ignored() -> None:
    assert fit_of(LEAN) == ModelFit(questions=False, packages=False, lean=True)
    assert fit_of(LEAN, "model") == fit_of(LEAN)
    assert fit_of(LEAN, "off") == NO_FIT


@pytest.mark.spec("FIT-006")
def test_single_keys_are_overridden() -> None:
    asked = "packages=on, max_package_tokens=300,no_package_classes=chat+writing,lean=false"
    assert fit_of(LEAN, asked) == ModelFit(
        questions=False, max_package_tokens=300, no_package_classes=("chat", "writing")
    )
    assert fit_of({"no_package_classes": ["chat"]}, "no_package_classes=") == NO_FIT


@pytest.mark.spec("FIT-006")
@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("colour=red", "colour"),
        ("lean", "lean"),
        ("lean=perhaps", "lean=perhaps"),
        ("max_package_tokens=-1", "max_package_tokens=-1"),
        ("max_package_tokens=many", "max_package_tokens=many"),
        ("model=off", "model"),
    ],
)
def test_what_it_cannot_mean_is_an_error_that_names_it(asked: str, named: str) -> None:
    with pytest.raises(ValueError, match=named) as raised:
        fit_of({}, asked)
    assert "\n" not in str(raised.value)


def test_a_declaration_with_an_unknown_key_is_an_error() -> None:
    with pytest.raises(ValueError, match="colour"):
        fit_of({"colour": "red"})


@pytest.mark.spec("FIT-007")
def test_the_row_and_the_log_say_what_differs() -> None:
    fit = ModelFit(lean=True, no_package_classes=("chat", "debug"))
    assert fit.row == {"lean": True, "no_package_classes": ["chat", "debug"]}
    assert str(fit) == "lean=on no_package_classes=chat+debug"


@pytest.mark.spec("FIT-004", "FIT-008")
def test_the_embedded_model_declares_a_lean_fit() -> None:
    config = embedded_checkpoint().config
    assert declared_of(config) == LEAN
    assert fit_of(declared_of(config)) == ModelFit(questions=False, packages=False, lean=True)


@pytest.mark.spec("FIT-004")
def test_a_larger_model_and_another_family_declare_nothing() -> None:
    config = embedded_checkpoint().config
    assert declared_fit(replace(config, hidden_size=2048)) == {}
    assert declared_of(replace(config, architecture="qwen3_5")) == {}
