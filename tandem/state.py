"""STATE, the directory of everything that Tandem keeps, and the lock that lets one process at a time use it (API-259).

The lock is `flock` on `STATE/lock`, which holds the pid of its owner: the start and stop scripts read it (OBS-107). The
kernel drops the lock with the process, so a file that a dead process left behind is no obstacle.
"""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tandem.store.files import make_private_dir, open_private

__all__ = ["LOCK_NAME", "State", "StateLocked", "open_state"]

LOCK_NAME = "lock"

log = logging.getLogger(__name__)


class StateLocked(Exception):
    """Another process uses the directory. One line: the directory, the pid, and what to do."""

    def __init__(self, path: Path, pid: int | None) -> None:
        owner = "another process" if pid is None else f"process {pid}"
        super().__init__(f"{path} is in use by {owner}: stop it, or name another directory with --state-dir")
        self.path = path
        self.pid = pid


@dataclass(frozen=True, slots=True)
class State:
    """An opened state directory; this process holds its lock."""

    path: Path
    temporary: bool
    """Removed with all it holds when it is closed."""


@contextmanager
def open_state(path: Path, *, temporary: bool) -> Iterator[State]:
    """Lock the state directory, created 0700 where missing, until the end of the `with` block.

    With `temporary` it is a fresh directory elsewhere and `path` is not touched: for tests and a `--fake` without a
    named directory (OBS-016). Raises `StateLocked`, and `OSError` for a directory that cannot be made or written.
    """
    with ExitStack() as stack:
        if temporary:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tandem-")))
            log.info("[state] kept in %s and removed at the end", path)
        else:
            make_private_dir(path)
        stack.enter_context(_locked(path))
        yield State(path, temporary)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = open_private(path / LOCK_NAME)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateLocked(path, _pid(descriptor)) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, b"%d\n" % os.getpid())
        yield
        # Emptied, not removed: with another file under the name two processes could each hold a lock.
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _pid(descriptor: int) -> int | None:
    """The pid in the lock file, None where its owner has not written it yet."""
    text = os.pread(descriptor, 32, 0)
    return int(text) if text.strip().isdigit() else None
