"""`tandem pull ORG/NAME`: a model of the Hugging Face hub, put below STATE/models.

What serving would refuse is refused before its weights are fetched: a directory by its `config.json`, a GGUF file by
its header. Files are fetched into the staging directory under their digests, checked, and put in place when all are
there. A token and the hub's address come from where huggingface_hub has them (`HF_TOKEN`, `HF_ENDPOINT`).
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_url
from rich.filesize import decimal

from tandem.engine.checkpoints.hub_checks import check_config, check_elements, header_is_served, shards_of
from tandem.engine.checkpoints.hub_choice import RepoFile, directory_files, gguf_to_pull, is_of_directory
from tandem.engine.checkpoints.hub_errors import one_line
from tandem.engine.checkpoints.hub_fetch import Fetcher, matches, size_of
from tandem.engine.checkpoints.pulled import CONFIG, LOCK, ModelName, is_inside, staging_dir, stored_dir
from tandem.engine.checkpoints.safetensors import INDEX
from tandem.engine.errors import CheckpointError

__all__ = ["HEADER_BYTES", "Progress", "pull"]

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

HEADER_BYTES = 16 << 20
"""How much of a GGUF file is fetched to see its header, most of which is the vocabulary; doubled where it is longer."""
_PLAIN_HTTP_BYTES = 50 * 10**9
"""Largest file that the hub gives out over plain HTTP."""
_DIGEST = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


def pull(
    name: ModelName,
    state_dir: Path,
    progress: Progress,
    *,
    revision: str | None = None,
    endpoint: str | None = None,
    retry_s: float = 1.0,
) -> Path:
    """Fetch the model, or what is missing of it, and return its directory or GGUF file.

    `revision` is a branch, tag or commit (default: the main branch), `endpoint` the hub's address instead of
    huggingface_hub's, `retry_s` the pause after a broken connection. `CheckpointError` says in one line what cannot be
    served or why it does not come. After an error or an interrupt the next call continues.
    """
    api = HfApi(endpoint=endpoint)
    with one_line(name, revision, api), _locked(name, staging_dir(state_dir, name.repo)) as staging:
        return _Pull(name, api, stored_dir(state_dir, name.repo), staging, progress, revision, retry_s).run()


@contextmanager
def _locked(name: ModelName, staging: Path) -> Iterator[Path]:
    staging.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(staging / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointError(f"another process pulls {name.repo}; wait for it to end") from None
        yield staging
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class _Listing:
    commit: str
    files: Mapping[str, RepoFile]
    elements: Mapping[str, int]
    """Parameters by element type of the safetensors, as the hub counts them; may be empty."""


class _Pull:
    """One pull under way."""

    def __init__(
        self,
        name: ModelName,
        api: HfApi,
        target: Path,
        staging: Path,
        progress: Progress,
        revision: str | None,
        retry_s: float,
    ) -> None:
        self._name = name
        self._api = api
        self._target = target
        self._staging = staging
        self._progress = progress
        self._fetcher = Fetcher(self._advance, retry_s)
        self._done = self._total = 0
        self._listing = _list(api, name, revision)

    def run(self) -> Path:
        self._drop_other_revisions()
        gguf = gguf_to_pull(self._name, self._listing.files)
        wanted = self._directory_files() if gguf is None else [gguf]
        self._done, self._total = 0, sum(file.size for file in wanted)
        missing = [file for file in wanted if not self._is_in_place(file)]
        self._done += sum(self._staged_bytes(file) for file in missing)
        self._require_room(missing)
        if gguf in missing:
            self._check_header(gguf)
        for file in missing:
            self._fetch(file)
        self._put_in_place(missing)
        if gguf is not None:
            return self._target / gguf.name
        self._remove_stale({file.name for file in wanted})
        return self._target

    def _directory_files(self) -> list[RepoFile]:
        """The files of a directory, once its config has been found to be served."""
        files = self._listing.files
        check_elements(str(self._name), self._listing.elements)
        try:
            check_config(self._read(files[CONFIG]), str(self._name))
        except CheckpointError:
            self._discard(files[CONFIG])
            raise
        if INDEX not in files:
            return directory_files(self._name, files, None)
        shards = shards_of(self._read(files[INDEX]), str(self._name))
        return directory_files(self._name, files, shards)

    def _read(self, file: RepoFile) -> bytes:
        path = self._target / file.name
        return (path if matches(path, file) else self._fetch(file)).read_bytes()

    def _is_in_place(self, file: RepoFile) -> bool:
        found = matches(self._target / file.name, file)
        if found:
            self._advance(file.size)
        return found

    def _staged_bytes(self, file: RepoFile) -> int:
        staged = self._staging / file.digest
        return size_of(staged) or size_of(staged.with_suffix(".part"))

    def _require_room(self, missing: list[RepoFile]) -> None:
        needed = sum(file.size - self._staged_bytes(file) for file in missing)
        free = shutil.disk_usage(self._staging).free
        if needed > free:
            raise CheckpointError(
                f"{self._name} needs {decimal(needed)} more, and {decimal(free)} are free at {self._target.parent}; "
                "make room, or name another directory with --state-dir"
            )
        for file in missing:
            if file.size > _PLAIN_HTTP_BYTES:
                raise CheckpointError(
                    f"{self._name}: {file.name} has {decimal(file.size)}, and the hub gives out no file over "
                    f"{decimal(_PLAIN_HTTP_BYTES)} this way; use hf download, and give its directory to --model"
                )

    def _check_header(self, file: RepoFile) -> None:
        """`CheckpointError` where the header tells that the file is not served; its start is fetched for this."""
        upto = min(HEADER_BYTES, file.size)
        try:
            while not header_is_served(self._part(file, upto), upto, file.size, f"{self._name.repo}: {file.name}"):
                upto = min(2 * upto, file.size)
        except CheckpointError:
            self._discard(file)
            raise

    def _part(self, file: RepoFile, upto: int) -> Path:
        """Where the first `upto` bytes of the file are, or more."""
        staged = self._staging / file.digest
        if staged.is_file():
            return staged
        part = staged.with_suffix(".part")
        if size_of(part) > file.size:
            part.unlink()
        part.touch()
        url = hf_hub_url(self._name.repo, file.name, revision=self._listing.commit, endpoint=self._api.endpoint)
        self._fetcher.fetch(url, part, upto)
        return part

    def _fetch(self, file: RepoFile) -> Path:
        """The whole file, checked, in the staging directory."""
        staged = self._staging / file.digest
        part = self._part(file, file.size)
        if part != staged:
            if not matches(part, file):
                part.unlink()
                raise CheckpointError(f"{self._name}: {file.name} came damaged; run again: tandem pull {self._name}")
            part.replace(staged)
        return staged

    def _put_in_place(self, missing: list[RepoFile]) -> None:
        """Move the files; a directory is no model from the first move to the last, which brings its config."""
        config = self._listing.files.get(CONFIG)
        kept = self._target / CONFIG
        if missing and config is not None and is_of_directory(missing[0].name) and config not in missing:
            kept.replace(self._staging / config.digest)
            missing = [*missing, config]
        elif config in missing:
            kept.unlink(missing_ok=True)
        placed: dict[str, Path] = {}
        for file in sorted(missing, key=lambda file: file.name == CONFIG):
            path = self._target / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            if file.digest in placed:  # one content under two names
                shutil.copyfile(placed[file.digest], path)
            else:
                (self._staging / file.digest).replace(path)
                placed[file.digest] = path
            _sync(path.parent)

    def _remove_stale(self, wanted: set[str]) -> None:
        """Drop what another revision had: an index of shards that are gone would be taken for the truth."""
        for path in self._target.iterdir():
            if is_of_directory(path.name) and path.name not in wanted:
                path.unlink()

    def _discard(self, file: RepoFile) -> None:
        staged = self._staging / file.digest
        for path in (staged, staged.with_suffix(".part")):
            path.unlink(missing_ok=True)

    def _drop_other_revisions(self) -> None:
        digests = {file.digest for file in self._listing.files.values()}
        for path in self._staging.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.stem not in digests and path.name != LOCK:
                path.unlink()

    def _advance(self, nbytes: int) -> None:
        self._done += nbytes
        if self._total:
            self._progress(min(self._done, self._total), self._total)


def _list(api: HfApi, name: ModelName, revision: str | None) -> _Listing:
    """The repository's files at a revision, and its commit."""
    try:
        info = api.model_info(name.repo, revision=revision, files_metadata=True)
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"{api.endpoint} does not answer as a Hugging Face hub: {error}") from error
    if info.sha is None or info.siblings is None:
        raise CheckpointError(f"{api.endpoint} does not list the files of {name.repo}")
    files = {}
    for each in info.siblings:
        digest = each.lfs.sha256 if each.lfs is not None else each.blob_id
        # Names and digests become paths here, so a hub must not choose them freely.
        if each.size is not None and is_inside(each.rfilename) and _DIGEST.fullmatch(digest or ""):
            files[each.rfilename] = RepoFile(each.rfilename, each.size, str(digest))
    return _Listing(info.sha, files, {} if info.safetensors is None else info.safetensors.parameters)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
