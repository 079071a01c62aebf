"""Directories and files that only their owner can read: 0700 and 0600 (OBS-001); reading without a trace."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["make_private_dir", "open_private", "read_only_uri"]

DIR_MODE, FILE_MODE = 0o700, 0o600


def make_private_dir(path: Path) -> None:
    """Create `path` and what is missing above it, each 0700. A directory that is there keeps its mode."""
    for directory in (*reversed(path.parents), path):
        if not directory.is_dir():
            directory.mkdir(mode=DIR_MODE, exist_ok=True)


def open_private(path: Path) -> int:
    """A file descriptor to read and write `path`; the file is created where missing and its mode set to 0600."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        os.fchmod(descriptor, FILE_MODE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_only_uri(path: Path) -> str:
    """The address at which SQLite reads `path` and leaves it as it is, byte for byte."""
    # Where a program has the file open, or was killed with it open, what it wrote last is in the log beside it. Of a
    # file without a log SQLite would make one, unless it is told that nothing can change.
    in_use = path.with_name(path.name + "-wal").exists()
    return f"{path.absolute().as_uri()}?{'mode=ro' if in_use else 'immutable=1'}"
