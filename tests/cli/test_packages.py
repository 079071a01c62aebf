"""`tandem packages migrate` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tandem.actors.document_library import load
from tandem.actors.document_saving import save, seeded
from tandem.cli import main
from tandem.store.document_files import DocumentFiles


def run(folder: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["packages", "migrate", str(folder), *more])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two shipped packages with a text and a limit of the operator's own, and one package that does not ship."""
    files = DocumentFiles(tmp_path / "conductor")
    seeded(files, "")
    library = load(files)
    body: dict[str, Any] = json.loads(json.dumps(library.in_use["packages"].version.body))
    body["packages"][0] |= {"text": "an older text\n", "max_tokens": 77}
    body["packages"].append({"name": "mine", "description": "d", "max_tokens": 5, "text": "my own"})
    save(files, library, "packages", body, "mine", "")
    return tmp_path / "conductor"


@pytest.mark.spec("CFG-013")
def test_edits_are_printed_and_written_with_apply_alone(folder: Path) -> None:
    dry = run(folder)
    assert dry.exit_code == 0
    assert "-an older text" in dry.stdout
    assert "nothing was written" in dry.stdout
    assert "mine" not in dry.stdout
    files = DocumentFiles(folder)
    assert load(files).documents.versions["packages"] == 2
    done = run(folder, "--apply", "--note", "new texts")
    assert "stored as version 3" in done.stdout
    found = load(files).in_use["packages"].version
    first = json.loads((folder / "packages/v1.json").read_bytes())["body"]["packages"][0]
    assert found.note == "new texts"
    assert found.body["packages"][0] == {**first, "max_tokens": 77}
    assert found.body["packages"][-1]["text"] == "my own"
    again = run(folder, "--apply")
    assert again.stdout == "every text is the one that ships\n"
    assert load(files).documents.versions["packages"] == 3


def test_a_directory_without_documents(tmp_path: Path) -> None:
    assert "has no packages document" in run(tmp_path).stderr
    assert run(tmp_path / "no").exit_code == 2
