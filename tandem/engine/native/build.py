"""Compiles the C files of this package for the processor it runs on, and loads them.

It takes a second or two. What was made is kept in a directory of this user's in the system's temporary one, under a
name made of all that it depends on; a directory that another user could write to is not used.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import torch

__all__ = ["compiled", "parallel"]

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-shared", "-fPIC", "-ffp-contract=off", "-fno-math-errno")
"""No product and sum are fused but those that the source fuses, so that every compiler gives the same bits."""
TARGET = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mfma")
PATIENCE_S = 60

log = logging.getLogger(__name__)


def compiled(*names: str) -> ctypes.CDLL | None:
    """The library made of those files; None where this processor or its compiler cannot have it, or making it fails."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None or not torch.cpu._is_vnni_supported():
        return None
    sources = [Path(__file__).with_name(name) for name in names]
    try:
        with tempfile.TemporaryDirectory(prefix="tandem-native-") as made:
            kept = _own(Path(tempfile.gettempdir(), f"tandem-native-of-{os.getuid()}")) or Path(made)
            library = kept / f"{_key(compiler, sources)}.so"
            if not library.exists():
                new = Path(made, "native.so")
                command = [compiler, *FLAGS, *TARGET, "-o", str(new), *map(str, sources)]
                subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=PATIENCE_S)
                new.replace(library)  # whole or not at all, whoever else makes it now
            return ctypes.CDLL(str(library))  # stays mapped when its file is gone
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("%s not compiled, torch's kernels serve instead: %s", " and ".join(names), error)
        return None


def parallel() -> int | None:
    """Where the function lies by which OpenMP runs something on the threads that torch runs on."""
    for path in Path(torch.__file__).parent.glob("lib/libgomp*.so*"):
        with suppress(AttributeError, OSError):
            return ctypes.cast(ctypes.CDLL(str(path)).GOMP_parallel, ctypes.c_void_p).value
    return None


def _own(directory: Path) -> Path | None:
    """The directory, made where it is not; None where it is not this user's alone."""
    with suppress(OSError):
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return directory
    return None


def _key(compiler: str, sources: list[Path]) -> str:
    version = Path(compiler).resolve()
    parts = [str(version), str(version.stat().st_mtime_ns), *FLAGS, *TARGET, *(path.read_text() for path in sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
