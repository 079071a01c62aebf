"""Series of numbered files that are never written again, and a small file that says which of them counts.

Everything here blocks. A file is written under a temporary name, flushed and renamed, so that a process that is killed
leaves the old state or the new one; directories are 0700 and files 0600.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tandem.store.files import make_private_dir, open_private

__all__ = ["DocumentFiles", "Mark", "write_file"]

TEMPORARY = ".tmp"

Mark: TypeAlias = tuple[tuple[int, int, int] | None, ...]
"""Inode, time and size of some files; another mark means that one has changed."""


@dataclass(frozen=True, slots=True)
class DocumentFiles:
    """`folder` arguments are relative to `root`, as `profiles/coding`."""

    root: Path

    def folders(self, under: str = "") -> list[str]:
        """The directories in `under`, sorted."""
        try:
            found = sorted(one.name for one in os.scandir(self.root / under) if one.is_dir())
        except FileNotFoundError:
            return []
        return [f"{under}/{name}" if under else name for name in found]

    def names(self, folder: str) -> list[str]:
        """The files of `folder`; none where it is not there."""
        try:
            return sorted(one.name for one in os.scandir(self.root / folder) if one.is_file())
        except FileNotFoundError:
            return []

    def read(self, folder: str, name: str) -> bytes | None:
        """None where there is no such file."""
        try:
            return (self.root / folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, folder: str, name: str, content: bytes, *, new: bool = False) -> None:
        """Durable once it returns. With `new` a file that is there stays, and `FileExistsError` is raised."""
        make_private_dir(self.root / folder)
        write_file(self.root / folder / name, content, new=new)

    def mark(self, paths: Iterable[str]) -> Mark:
        """Of files and directories; one that is missing counts as such."""
        return tuple(_stat(self.root / path) for path in paths)

    def sweep(self, folder: str) -> None:
        """Remove what a killed process has left half written."""
        for name in self.names(folder):
            if name.endswith(TEMPORARY):
                (self.root / folder / name).unlink(missing_ok=True)


def write_file(path: Path, content: bytes, *, new: bool = False) -> None:
    """Write `path` whole, mode 0600, in the place of what is there unless it must be `new`. Raises `OSError`; what was
    there then stands."""
    temporary = path.with_name(path.name + TEMPORARY)
    descriptor = open_private(temporary)
    try:
        os.ftruncate(descriptor, 0)
        _write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if new:
        _link(temporary, path)
    else:
        temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)  # the rename itself
    finally:
        os.close(directory)


def _link(temporary: Path, path: Path) -> None:
    """Unlike a rename it never takes the place of a file that another process has made meanwhile."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        temporary.unlink()
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(path) from None
        temporary.replace(path)
    else:
        temporary.unlink()


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
