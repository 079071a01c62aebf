"""What is told of the code and the settings that run."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import tandem
from tandem import identity
from tandem.config import Settings
from tandem.identity import Identity, identify

HEX = re.compile("[0-9a-f]{12}")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.spec("OBS-036")
def test_a_running_checkout() -> None:
    found = identify(Settings())
    assert found.version == tandem.__version__
    assert HEX.fullmatch(found.code_sha256)
    assert HEX.fullmatch(found.flags_sha256)
    assert found.git_sha == "unknown" or HEX.fullmatch(found.git_sha)
    assert identify(Settings()) == found


def test_nothing_is_known_of_an_identity_that_was_not_made() -> None:
    assert Identity() == Identity(tandem.__version__, "unknown", "unknown", "unknown")


@pytest.mark.spec("OBS-036")
def test_the_settings_have_one_hash_wherever_they_run() -> None:
    settings = Settings()
    sha = identify(settings).flags_sha256
    assert identify(replace(settings, port=1, state_dir=Path("/elsewhere"))).flags_sha256 == sha
    assert identify(replace(settings, named=frozenset({"port"}), unknown=("TANDEM_X",))).flags_sha256 == sha
    assert identify(replace(settings, max_queue=7)).flags_sha256 != sha


@pytest.mark.spec("OBS-036")
def test_the_code_has_another_hash_once_a_file_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "PACKAGE", tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("x")
    (tmp_path / "inner" / "b.py").write_text("y")
    sha = identify(Settings()).code_sha256
    (tmp_path / "notes.txt").write_text("z")
    assert identify(Settings()).code_sha256 == sha
    (tmp_path / "inner" / "b.py").write_text("z")
    changed = identify(Settings()).code_sha256
    (tmp_path / "inner" / "b.py").rename(tmp_path / "b.py")
    assert len({sha, changed, identify(Settings()).code_sha256}) == 3


def make_repository(path: Path, head: str) -> Path:
    package = path / "tandem"
    package.mkdir(parents=True)
    (path / ".git").mkdir()
    (path / ".git" / "HEAD").write_text(head + "\n")
    return package


def commit_of(package: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(identity, "PACKAGE", package)
    return identify(Settings()).git_sha


def test_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    detached = make_repository(tmp_path / "detached", COMMIT)
    assert commit_of(detached, monkeypatch) == COMMIT[:12]
    branch = make_repository(tmp_path / "branch", "ref: refs/heads/main")
    git = branch.parent / ".git"
    assert commit_of(branch, monkeypatch) == "unknown"  # no commit yet
    (git / "packed-refs").write_text(f"# pack-refs\n{'f' * 40} refs/heads/other/refs/heads/main2\n")
    assert commit_of(branch, monkeypatch) == "unknown"
    (git / "packed-refs").write_text(f"# pack-refs\n{COMMIT} refs/heads/main\n")
    assert commit_of(branch, monkeypatch) == COMMIT[:12]
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "main").write_text("a" * 40 + "\n")
    assert commit_of(branch, monkeypatch) == "a" * 12
    assert commit_of(tmp_path / "installed" / "tandem", monkeypatch) == "unknown"


def test_the_commit_of_a_worktree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There `.git` is a file that says where the rest is."""
    main = tmp_path / "main"
    (main / "tandem").mkdir(parents=True)
    (main / "tandem" / "a.py").write_text("x")

    def git(*arguments: str) -> str:
        run = subprocess.run(["git", *arguments], cwd=main, capture_output=True, text=True, check=True)
        return run.stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "x")
    git("worktree", "add", "-q", "../tree")
    assert commit_of(main / "tandem", monkeypatch) == git("rev-parse", "HEAD")[:12]
    assert commit_of(tmp_path / "tree" / "tandem", monkeypatch) == git("rev-parse", "HEAD")[:12]
