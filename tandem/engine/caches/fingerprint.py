"""What a stored state belongs to: one digest of everything that a row of it depends on (ENG-117).

A row of keys and values is a function of the ids below it and of the model that read them: its weights, the form they
have in memory, its configuration, the tokenizer that gave the ids, the grid at which passes are cut, and the software
that multiplied. A file of another fingerprint is never opened; it is swept at the next start.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from tandem.engine.checkpoints.config import ModelConfig

__all__ = ["FORMAT", "Fingerprint", "config_hash", "profile_folder", "weights_key"]

FORMAT: Final = 1
"""Version of the files' layout; raised with every change of it."""

_BLOCK: Final = 1 << 16
_SAMPLES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Each field says one thing that changes rows; two engines with equal ones may share files."""

    weights: str
    """`weights_key` of the checkpoint's files and overlays."""
    tokenizer: str
    """The sha256 of ENG-012."""
    config: str
    """`config_hash`."""
    grid: int
    numbers: str
    """What the weights become: `fp32`, `int4`, …; on a device its formats and the type of its rows."""
    runtime: str = ""
    """What else may move a bit: the version of torch, the device, its threads or chosen kernels."""

    @property
    def digest(self) -> str:
        """32 hexadecimal digits."""
        fields = json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, sort_keys=True)
        return blake2b(fields.encode(), digest_size=16).hexdigest()


def config_hash(config: ModelConfig) -> str:
    """Of every size and setting of a model."""
    fields = json.dumps(dataclasses.asdict(config), sort_keys=True, default=repr)
    return blake2b(fields.encode(), digest_size=16).hexdigest()


def weights_key(files: Iterable[Path]) -> str:
    """Of a checkpoint's files, wherever they lie: names, sizes, times, and 64 blocks spread over each.

    Reading 54 GB to name them would cost a start its time. A file that was changed between two samples has another
    modification time; one that was copied has that too and means a cold start, no more.
    """
    key = blake2b(digest_size=16)
    for path in sorted(files, key=lambda each: each.name):
        status = path.stat()
        key.update(json.dumps([path.name, status.st_size, status.st_mtime_ns]).encode())
        with path.open("rb") as file:
            for at in _sampled(status.st_size):
                file.seek(at)
                key.update(file.read(_BLOCK))
    return key.hexdigest()


def _sampled(size: int) -> list[int]:
    """Where the blocks begin that are read: the first, the last, and others between them."""
    last = max(size - _BLOCK, 0)
    return sorted({last * each // (_SAMPLES - 1) for each in range(_SAMPLES)})


def profile_folder(root: Path, profile: str) -> Path:
    """The folder of one serving profile (ENG-176): a start sweeps what is not its own, so none is shared.

    Any name makes a folder directly below `root`, and two names never the same one.
    """
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", profile) and "~" not in profile:
        return root / profile
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", profile)[:40]
    return root / f"{plain}~{blake2b(profile.encode(), digest_size=6).hexdigest()}"
