"""The pages of weight files that the kernel keeps after a load (ENG-032)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["drop_pages"]


def drop_pages(files: Iterable[Path]) -> int:
    """Tell the kernel that `files` will not be read again; how many of them it was told about.

    It gives up their clean pages that nobody has mapped. Where device and processor share their memory, such pages
    count as taken when the next buffer is asked for. Nothing depends on it: a file that cannot be opened, or a system
    without the call, is passed over.
    """
    if not hasattr(os, "posix_fadvise"):
        return 0
    return sum(_drop(file) for file in files)


def _drop(file: Path) -> bool:
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return False
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
