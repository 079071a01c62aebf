"""Models that `tandem pull ORG/NAME` put below STATE/models: their names, and where they lie.

A model is at STATE/models/ORG/NAME: a Hugging Face directory, or GGUF files. What a pull has so far is kept at
STATE/models/.pull/ORG/NAME, so that no half of a model is ever found. Nothing here imports huggingface_hub or torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tandem.engine.checkpoints import embedded
from tandem.engine.errors import CheckpointError

__all__ = [
    "CONFIG",
    "LOCK",
    "ModelName",
    "Pulled",
    "find_pulled",
    "is_inside",
    "list_pulled",
    "staging_dir",
    "stored_dir",
]

CONFIG = "config.json"
"""What makes a directory a model: put in place last, taken away first."""
LOCK = "lock"
STAGING = ".pull"

_REPO_CHARS = 96
_REPO = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ModelName:
    """A repository of the hub, `ORG/NAME`, and a GGUF file in it where one is meant."""

    repo: str
    file: str | None = None

    @classmethod
    def parse(cls, text: str) -> ModelName | None:
        """`ORG/NAME` or `ORG/NAME:FILE.gguf`; None for any other text."""
        repo, colon, file = text.partition(":")
        if not _REPO.fullmatch(repo) or len(repo) > _REPO_CHARS or "--" in repo or ".." in repo:
            return None
        if not colon:
            return cls(repo)
        return cls(repo, file) if is_inside(file) and file.endswith(".gguf") else None

    def __str__(self) -> str:
        return self.repo if self.file is None else f"{self.repo}:{self.file}"


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model on disk: what `--model` calls it, `safetensors`, `GGUF` or `unfinished`, and its size in bytes."""

    name: str
    format: str
    nbytes: int


def stored_dir(state_dir: Path, repo: str) -> Path:
    """Where the model of `repo` is, or would be."""
    return state_dir / "models" / repo


def staging_dir(state_dir: Path, repo: str) -> Path:
    """Where a pull of `repo` keeps what it has so far."""
    return state_dir / "models" / STAGING / repo


def find_pulled(name: ModelName, state_dir: Path) -> Path:
    """The directory or GGUF file; `CheckpointError` names the command where it is not pulled."""
    directory = stored_dir(state_dir, name.repo)
    files = _gguf_files(directory)
    if name.file is not None:
        if name.file in files:
            return directory / name.file
    elif (directory / CONFIG).is_file():
        return directory
    elif len(files) == 1:
        return directory / files[0]
    elif files:
        raise CheckpointError(f"{name} has several files; name one: {', '.join(f'{name}:{file}' for file in files)}")
    raise CheckpointError(f"{name} is neither on this machine nor pulled; fetch it with: tandem pull {name}")


def list_pulled(state_dir: Path) -> list[Pulled]:
    """Every model below STATE/models, by name, and the pulls that were not finished."""
    found = []
    if (path := embedded.stored_path(state_dir)).is_file():
        found.append(Pulled(embedded.NAME, "GGUF", path.stat().st_size))
    for repo, directory in _repos(state_dir / "models"):
        if (directory / CONFIG).is_file():
            found.append(Pulled(repo, "safetensors", _size(directory, but=".gguf")))
        found += [
            Pulled(f"{repo}:{file}", "GGUF", (directory / file).stat().st_size) for file in _gguf_files(directory)
        ]
    for repo, directory in _repos(state_dir / "models" / STAGING):
        if nbytes := _size(directory):
            found.append(Pulled(repo, "unfinished", nbytes))
    return sorted(found, key=lambda each: each.name)


def is_inside(file: str) -> bool:
    """Whether a path of a repository stays below it."""
    return file.isprintable() and "\\" not in file and not any(part in ("", ".", "..") for part in file.split("/"))


def _gguf_files(directory: Path) -> list[str]:
    paths = (path.relative_to(directory) for path in directory.rglob("*.gguf") if path.is_file())
    return sorted(str(PurePosixPath(path)) for path in paths)


def _repos(directory: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(directory.glob("*/*")):
        repo = f"{path.parent.name}/{path.name}"
        if path.is_dir() and ModelName.parse(repo) == ModelName(repo):
            yield repo, path


def _size(directory: Path, but: str | None = None) -> int:
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != LOCK)
    return sum(path.stat().st_size for path in files if path.suffix != but)
