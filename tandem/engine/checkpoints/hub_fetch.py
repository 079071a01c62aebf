"""One file of the hub, continued where an earlier try ended, and checked.

huggingface_hub gives the session, the headers with the token, and the errors. Its own download would not do: since
version 2 it throws a partial file away when the process is interrupted, and a GGUF model is one file of gigabytes.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2
from huggingface_hub import get_session
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status  # type: ignore[attr-defined]  # documented

from tandem.engine.checkpoints.hub_choice import RepoFile

__all__ = ["Advance", "Fetcher", "matches", "size_of"]

Advance = Callable[[int], None]
"""Called with the bytes that came, or with a negative number where a file starts anew."""

RETRIES = 5
"""Failures in a row, without a byte between them, after which a download is given up."""
SILENCE_S = 30.0
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Downloads into partial files."""

    advance: Advance
    retry_s: float = 1.0
    """Pause after a broken connection."""

    def fetch(self, url: str, part: Path, upto: int) -> None:
        """Append to `part` until it has at least `upto` bytes.

        A broken connection is taken up again. Raises huggingface_hub's errors for an answer that refuses, httpx2's
        where nothing more comes, and `OSError` of the disk.
        """
        failures = 0
        while (have := size_of(part)) < upto:
            try:
                self._stream(url, part, upto)
                if size_of(part) <= have:
                    raise httpx2.RemoteProtocolError("the answer ended early")
            except httpx2.TransportError:
                failures = failures + 1 if size_of(part) <= have else 0
                if failures > RETRIES:
                    raise
                time.sleep(self.retry_s)

    def _stream(self, url: str, part: Path, upto: int) -> None:
        with part.open("ab") as out:
            have = out.tell()
            headers = {**build_hf_headers(), "Accept-Encoding": "identity", "Range": f"bytes={have}-{upto - 1}"}
            with get_session().stream("GET", url, headers=headers, timeout=SILENCE_S) as response:
                hf_raise_for_status(response)
                if have and response.status_code != httpx2.codes.PARTIAL_CONTENT:
                    out.truncate(0)
                    self.advance(-have)
                    have = 0
                for chunk in response.iter_bytes():
                    out.write(chunk)
                    self.advance(len(chunk))
                    have += len(chunk)
                    if have >= upto:
                        break


def matches(path: Path, file: RepoFile) -> bool:
    """Whether `path` holds the whole of `file`, by size and digest."""
    if not path.is_file() or (size := path.stat().st_size) != file.size:
        return False
    is_git = len(file.digest) == 40
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False) if is_git else hashlib.sha256()
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == file.digest


def size_of(path: Path) -> int:
    """Bytes in a file, 0 where there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
