"""What runs: version, commit, and hashes of the code and of the settings (OBS-036)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

import tandem
from tandem.config import Settings, declared

__all__ = ["Identity", "identify"]

SHOWN_DIGITS = 12
PACKAGE = Path(tandem.__file__).parent
LIVES_ELSEWHERE = ("port", "state_dir")
"""Settings that change where a service runs and not how."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Of one process; `unknown` is what could not be found out."""

    version: str = tandem.__version__
    git_sha: str = "unknown"
    code_sha256: str = "unknown"
    flags_sha256: str = "unknown"


def identify(settings: Settings) -> Identity:
    """Reads the package's own files, which takes some 20 ms."""
    return Identity(
        git_sha=_git_sha(PACKAGE.parent / ".git"), code_sha256=_code_sha(), flags_sha256=_flags_sha(settings)
    )


def _git_sha(repository: Path) -> str:
    """The commit that is checked out; `unknown` for an installed package."""
    try:
        own, shared = _git_folders(repository)
        head = (own / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head[:SHOWN_DIGITS]
        name = head.removeprefix("ref: ")
        loose = shared / name
        if loose.is_file():
            return loose.read_text().strip()[:SHOWN_DIGITS]
        packed = (shared / "packed-refs").read_text().splitlines()
        return next((line[:SHOWN_DIGITS] for line in packed if line.endswith(f" {name}")), "unknown")
    except (OSError, ValueError):
        return "unknown"


def _git_folders(repository: Path) -> tuple[Path, Path]:
    """What a checkout has of its own and what it shares; both are one but in a worktree, whose `.git` is a file."""
    if repository.is_dir():
        return repository, repository
    own = repository.parent / repository.read_text().strip().removeprefix("gitdir: ")
    return own, own / (own / "commondir").read_text().strip()


def _code_sha() -> str:
    digest = hashlib.sha256()
    for path, content in _sources():
        digest.update(path.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:SHOWN_DIGITS]


def _sources() -> Iterator[tuple[str, bytes]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE)), path.read_bytes()


def _flags_sha(settings: Settings) -> str:
    values: Mapping[str, str] = {
        name: repr(getattr(settings, name)) for name in sorted(declared()) if name not in LIVES_ELSEWHERE
    }
    return hashlib.sha256(msgspec.json.encode(values)).hexdigest()[:SHOWN_DIGITS]
