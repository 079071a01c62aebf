"""A folder of cache files that one process uses at a time: private, locked, and clear about why it cannot be used."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

__all__ = ["FolderRefused", "LockedFolder"]

_LOCK: Final = "lock"


class FolderRefused(Exception):
    """The folder cannot be used. One line for the operator: which folder, why, and what to do."""


class LockedFolder:
    """A folder, 0700, whose lock this process holds until `close`; the kernel drops it with the process.

    Two processes on one folder would evict each other's files and count each other's bytes, so the second is refused
    (ENG-117). `FolderRefused` also where the rights or the disk forbid it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            for missing in (*reversed(path.parents), path):
                if not missing.exists():
                    missing.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._lock, 0)
            os.write(self._lock, b"%d\n" % os.getpid())
        except BlockingIOError:
            owner = os.pread(self._lock, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._lock)
            raise FolderRefused(
                f"{path} is in use by process {owner}: stop it, or give this one a profile of its own"
            ) from None
        except OSError:
            pass  # the pid is for people; on a full disk the lock holds without it

    def close(self) -> None:
        os.close(self._lock)

    def files(self) -> tuple[Path, ...]:
        """All that lies in it; where it cannot be listed it is given up, with `FolderRefused`."""
        try:
            return tuple(self.path.iterdir())
        except OSError as error:
            self.close()
            raise self._unusable(error) from error

    def free(self) -> int | None:
        """Bytes free on its disk; None where the system does not say."""
        try:
            return shutil.disk_usage(self.path).free
        except OSError:
            return None

    def remove(self, file: str) -> str | None:
        """Why a file is still there; None once it is gone."""
        try:
            (self.path / file).unlink(missing_ok=True)
        except OSError as error:
            return f"{file} cannot be removed: {error.strerror}"
        return None

    def touch(self, files: Iterable[str], now: float) -> None:
        """They were used now, which a restart orders them by. What cannot be touched stays older than it is."""
        for file in files:
            try:
                os.utime(self.path / file, (now, now))
            except OSError:
                continue

    def _unusable(self, error: OSError) -> FolderRefused:
        return FolderRefused(
            f"{self.path} cannot be used as a cache folder: {error.strerror}; name one that this user may write to"
        )
