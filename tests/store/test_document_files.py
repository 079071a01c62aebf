"""Files that are written whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tandem.store.document_files import DocumentFiles, write_file


@pytest.mark.spec("CFG-002")
def test_a_file_is_replaced_and_private(tmp_path: Path) -> None:
    files = DocumentFiles(tmp_path / "a" / "b")
    files.write("profiles/coding", "v1.json", b"one")
    files.write("profiles/coding", "current", b"1\n")
    files.write("profiles/coding", "current", b"2\n")
    assert files.read("profiles/coding", "current") == b"2\n"
    assert files.names("profiles/coding") == ["current", "v1.json"]
    assert files.folders("profiles") == ["profiles/coding"]
    for path in (tmp_path / "a").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_what_is_not_there(tmp_path: Path) -> None:
    files = DocumentFiles(tmp_path / "no")
    assert (files.names("x"), files.folders(), files.read("x", "y")) == ([], [], None)
    assert files.mark(["x"]) == (None,)


@pytest.mark.spec("CFG-002")
def test_a_write_that_fails_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "current"
    write_file(path, b"1\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tandem.store.document_files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(path, b"2\n")
    assert path.read_bytes() == b"1\n"


@pytest.mark.spec("CFG-002")
def test_what_is_stored_is_never_rewritten(tmp_path: Path) -> None:
    files = DocumentFiles(tmp_path)
    files.write("router", "v1.json", b"one", new=True)
    with pytest.raises(FileExistsError):
        files.write("router", "v1.json", b"two", new=True)
    assert files.read("router", "v1.json") == b"one"
    assert files.names("router") == ["v1.json"]


def test_torn_files_are_swept(tmp_path: Path) -> None:
    files = DocumentFiles(tmp_path)
    files.write("router", "v1.json", b"{}")
    (tmp_path / "router" / "v2.json.tmp").write_bytes(b"{")
    files.sweep("router")
    assert files.names("router") == ["v1.json"]


def test_a_mark_changes_with_what_it_is_of(tmp_path: Path) -> None:
    files = DocumentFiles(tmp_path)
    files.write("router", "current", b"1\n")
    before = files.mark(["router", "router/current"])
    assert files.mark(["router", "router/current"]) == before
    files.write("router", "current", b"2\n")
    assert files.mark(["router", "router/current"]) != before
