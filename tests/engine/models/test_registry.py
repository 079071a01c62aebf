"""Architectures and their packages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tandem.engine
from tandem.engine.errors import CheckpointError
from tandem.engine.models.llama import load_llama
from tandem.engine.models.registry import PACKAGES, package_of

ENGINE = Path(tandem.engine.__file__).parent


@pytest.mark.spec("ENG-002")
def test_a_known_architecture_has_its_package() -> None:
    assert package_of("llama") is load_llama


@pytest.mark.spec("ENG-002")
def test_an_unknown_architecture_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"'mamba3'.*llama"):
        package_of("mamba3")


@pytest.mark.spec("ENG-002")
def test_no_file_outside_models_compares_an_architecture() -> None:
    branch = re.compile(rf"""(?:==|!=|\bin\b|\bcase)\s*[("'\[{{]*(?:{"|".join(PACKAGES)})["']""")
    outside = [path for path in ENGINE.rglob("*.py") if not path.is_relative_to(ENGINE / "models")]
    assert len(outside) > 5
    found = [
        f"{path.relative_to(ENGINE)}: {line}"
        for path in outside
        if "checkpoints" not in path.parts
        for line in path.read_text(encoding="utf-8").splitlines()
        if branch.search(line)
    ]
    assert not found
