"""What is compiled, where it is kept, and what happens where it cannot be made."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import torch

from tandem.engine.native import build
from tandem.engine.native.build import compiled, parallel

FILES = ("products.c",)
makes = pytest.mark.skipif(
    shutil.which("cc") is None or not torch.cpu._is_vnni_supported(), reason="nothing can be compiled here"
)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty temporary directory, and the one in it where libraries are kept."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"tandem-native-of-{os.getuid()}"


@makes
def test_a_library_is_made_once(room: Path) -> None:
    assert isinstance(compiled(*FILES), ctypes.CDLL)
    [library] = room.iterdir()
    assert room.stat().st_mode & 0o777 == 0o700
    made = library.stat().st_mtime_ns
    assert compiled(*FILES) is not None
    assert [each.stat().st_mtime_ns for each in room.iterdir()] == [made]
    assert [each.name for each in room.parent.iterdir()] == [room.name], "nothing else is left"


@makes
@pytest.mark.parametrize("how", ["open to others", "a link"])
def test_a_directory_that_is_not_ours_alone_is_not_used(room: Path, how: str) -> None:
    if how == "a link":
        (room.parent / "elsewhere").mkdir(mode=0o700)
        room.symlink_to(room.parent / "elsewhere")
    else:
        room.mkdir()
        room.chmod(0o777)
    assert compiled(*FILES) is not None
    assert list(room.iterdir()) == []


@pytest.mark.spec("ENG-016")
def test_without_a_compiler_or_the_processor_there_is_none(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "which", lambda name: None)
        assert compiled(*FILES) is None
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    assert compiled(*FILES) is None


def test_a_compiler_that_fails_is_told_and_torch_serves(
    room: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: True)
    monkeypatch.setattr(build, "COMPILERS", ("false",))
    with caplog.at_level(logging.WARNING):
        assert compiled(*FILES) is None
    assert "torch's kernels serve" in caplog.text


def test_torchs_threads_are_found() -> None:
    if list(Path(torch.__file__).parent.glob("lib/libgomp*")):
        assert parallel()
