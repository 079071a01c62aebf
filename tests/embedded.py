"""The embedded model for tests: the file on this machine, fetched once where it is missing (98 MB)."""

from __future__ import annotations

import functools
from pathlib import Path

from tandem.engine.checkpoints import embedded
from tandem.engine.checkpoints.load import Checkpoint, open_checkpoint

__all__ = ["embedded_checkpoint", "embedded_path"]


@functools.cache
def embedded_path() -> Path:
    """Path of the GGUF file; fetched into ~/.tandem/models, as `tandem serve` does."""
    return embedded.ensure(Path.home() / ".tandem", lambda done, total: None)


@functools.cache
def embedded_checkpoint() -> Checkpoint:
    """The opened checkpoint, shared by all tests of a process: opening takes seconds, and it is immutable."""
    return open_checkpoint(embedded_path())
