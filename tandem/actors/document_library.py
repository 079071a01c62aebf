"""The documents' directory, read and written in one worker thread at a time: what the documents actor has done.

Everything here blocks and is called through `Blocking` alone. `Library` is a frozen value; whatever changes it gives a
new one, so that a failed write leaves what is in service as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tandem.conductor.documents import LOCKED, Body, DocumentError, DocumentKey, Documents, parse
from tandem.conductor.documents.checks import check_itself, check_names
from tandem.conductor.documents.documents import KINDS, PROFILES, split_key
from tandem.conductor.documents.shipped import NOTE, shipped_documents
from tandem.conductor.documents.versions import (
    CURRENT,
    Version,
    decode_current,
    decode_version,
    file_name,
    number_of,
)
from tandem.conductor.packages.text import SKILL_FILE, skill_folders
from tandem.store.document_files import DocumentFiles, Mark

__all__ = [
    "InUse",
    "Library",
    "Problem",
    "Standing",
    "is_locked",
    "keys_of",
    "load",
    "mark_of",
    "numbers_of",
    "put_in",
    "read_versions",
    "reason_of",
    "standings",
    "unreadable",
    "with_skills",
]

ORDER = ("packages", "router", PROFILES, "settings", "roles", "deciders", "residency", "monitor")
"""A document names only what stands before it."""
MONITOR = "monitor"


@dataclass(frozen=True, slots=True)
class Problem:
    """A file on disk that is not in service, and why."""

    file: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class InUse:
    """A document's version in service."""

    version: Version
    body: Body


@dataclass(frozen=True, slots=True)
class Library:
    documents: Documents
    in_use: Mapping[DocumentKey, InUse]
    numbers: Mapping[DocumentKey, tuple[int, ...]]
    """The versions on disk, rising."""
    problems: Mapping[DocumentKey, Problem]
    mark: Mark = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Standing:
    """One document, as a person is told of it."""

    key: DocumentKey
    version: int
    versions: int
    """How many there are on disk."""
    note: str
    created: str
    locked: bool
    problem: Problem | None


def is_locked(key: DocumentKey) -> bool:
    """Whether the document never changes (PRF-012)."""
    kind, _, name = key.partition("/")
    return kind == PROFILES and name in LOCKED


def load(files: DocumentFiles, before: Library | None = None, policy: Mapping[str, Any] | None = None) -> Library:
    """What is on disk. Where the version in use cannot be served, the last good one is (CFG-007): the one of `before`,
    else the newest older one that can, else the shipped one as version 0. The monitor's is its `policy` file (CFG-009).
    """
    shipped = shipped_documents() if policy is None else {**shipped_documents(), MONITOR: dict(policy)}
    library = _as_shipped(shipped)
    keys = keys_of(files, shipped)
    mark = mark_of(files, keys, before)  # taken first: what changes meanwhile is read at the next look
    for key in keys:
        numbers = numbers_of(files, key)
        problem = None
        for candidate in _candidates(files, key, numbers, before, shipped.get(key)):
            if isinstance(candidate, Problem):
                problem = problem or candidate
                continue
            found = _checked(key, candidate, library.documents)
            if isinstance(found, Problem):
                problem = problem or found
                continue
            library = put_in(library, key, found)
            break
        problems = {**library.problems, key: problem} if problem is not None else library.problems
        library = replace(library, numbers={**library.numbers, key: numbers}, problems=problems)
    return replace(with_skills(files, library), mark=mark)


def with_skills(files: DocumentFiles, library: Library) -> Library:
    """With the skill files that the packages in service name as their sources (PKG-001); paths are below the root."""
    skills: dict[str, str] = {}
    for name, folders in skill_folders(library.documents.packages).items():
        for folder in folders:
            with suppress(OSError, UnicodeDecodeError):  # one that cannot be read is none: its package has no text
                raw = files.read(folder, SKILL_FILE)
                if raw is not None:
                    skills[name] = raw.decode("utf-8")
                    break
    return replace(library, documents=replace(library.documents, skills=skills))


def read_versions(files: DocumentFiles, key: DocumentKey) -> list[Version]:
    """All versions that can be read, rising; of whatever they hold."""
    found = (_read(files, key, number) for number in numbers_of(files, key))
    return [version for version in found if isinstance(version, Version)]


def standings(library: Library) -> list[Standing]:
    """Every document there is, in the order of its key."""
    return [_standing(library, key) for key in sorted({*library.in_use, *library.problems, MONITOR})]


def unreadable(root: str, error: OSError, policy: Mapping[str, Any] | None = None) -> Library:
    """The shipped documents, where the directory cannot be used."""
    shipped = shipped_documents() if policy is None else {**shipped_documents(), MONITOR: dict(policy)}
    library = _as_shipped(shipped)
    problem = Problem(root, "", reason_of(error))
    for key in sorted(shipped, key=_rank):
        found = _checked(key, _version_0(shipped[key]), library.documents)
        if isinstance(found, InUse):
            library = put_in(library, key, found)
    return replace(library, problems=dict.fromkeys(shipped, problem))


def reason_of(error: OSError) -> str:
    """Why the disk refused: its own words, without a path, or the error's type."""
    return error.strerror or type(error).__name__


def mark_of(files: DocumentFiles, keys: Iterable[DocumentKey], library: Library | None) -> Mark:
    """Changes with the directory: with a file that comes, goes or is in use and changes."""
    paths = ["", PROFILES]
    for key in sorted(keys):
        paths += [key, f"{key}/{CURRENT}"]
        if library is not None and key in library.in_use:
            paths.append(f"{key}/{file_name(library.in_use[key].version.version)}")
    if library is not None:
        skills = skill_folders(library.documents.packages).values()
        paths += [f"{folder}/{SKILL_FILE}" for folders in skills for folder in folders]
    return files.mark(paths)


def keys_of(files: DocumentFiles, shipped: Iterable[DocumentKey]) -> list[DocumentKey]:
    """The documents there are, in `ORDER`."""
    found = {*shipped, MONITOR}
    for key in files.folders(PROFILES):
        try:
            split_key(key)
        except KeyError:
            continue
        found.add(key)
    return sorted(found, key=_rank)


def _rank(key: DocumentKey) -> tuple[int, str]:
    return ORDER.index(key.partition("/")[0]), key


def _standing(library: Library, key: DocumentKey) -> Standing:
    one = library.in_use.get(key)
    return Standing(
        key=key,
        version=0 if one is None else one.version.version,
        versions=len(library.numbers.get(key, ())),
        note="" if one is None else one.version.note,
        created="" if one is None else one.version.created,
        locked=is_locked(key),
        problem=library.problems.get(key),
    )


def _as_shipped(shipped: Mapping[DocumentKey, Mapping[str, Any]]) -> Library:
    """Of the shipped documents, without a profile: those come as they are checked."""
    kinds = (kind for kind in KINDS if kind in shipped and kind != MONITOR)
    bodies: dict[str, Any] = {kind: parse(kind, shipped[kind]) for kind in kinds}
    documents = Documents(profiles={}, monitor=None, versions={MONITOR: 0}, **bodies)
    return Library(documents, {}, {}, {})


def put_in(library: Library, key: DocumentKey, one: InUse) -> Library:
    """The same with `one` in service."""
    kind, name = split_key(key)
    documents = library.documents
    change: dict[str, Any] = {kind: one.body if name is None else {**documents.profiles, name: one.body}}
    versions = {**documents.versions, key: one.version.version}
    return replace(
        library,
        documents=replace(documents, versions=versions, **change),
        in_use={**library.in_use, key: one},
    )


def _candidates(
    files: DocumentFiles,
    key: DocumentKey,
    numbers: Sequence[int],
    before: Library | None,
    shipped: Mapping[str, Any] | None,
) -> Iterator[Version | Problem]:
    """What may serve, best first."""
    try:
        raw = files.read(key, CURRENT)
        current = None if raw is None else decode_current(raw)
    except DocumentError as error:
        yield Problem(f"{key}/{CURRENT}", error.path, error.message)
        current = None
    if current is None and numbers:
        current = numbers[-1]
    if current is not None:
        yield _read(files, key, current)
    if before is not None and key in before.in_use:
        yield before.in_use[key].version
    for number in reversed(numbers):
        if current is not None and number < current:
            yield _read(files, key, number)
    if shipped is not None:
        yield _version_0(shipped)


def _version_0(shipped: Mapping[str, Any]) -> Version:
    return Version(version=0, created="", note=NOTE, body=dict(shipped))


def _read(files: DocumentFiles, key: DocumentKey, number: int) -> Version | Problem:
    file = f"{key}/{file_name(number)}"
    raw = files.read(key, file_name(number))
    if raw is None:
        return Problem(file, "", "there is no such file")
    try:
        return decode_version(raw, number)
    except DocumentError as error:
        return Problem(file, error.path, error.message)


def _checked(key: DocumentKey, version: Version, documents: Documents) -> InUse | Problem:
    try:
        body = parse(split_key(key)[0], version.body)
        check_itself(key, body)
        check_names(key, body, documents)
    except DocumentError as error:
        return Problem(f"{key}/{file_name(version.version)}", error.path, error.message)
    return InUse(version, body)


def numbers_of(files: DocumentFiles, key: DocumentKey) -> tuple[int, ...]:
    """The versions of a document that are on disk, rising."""
    return tuple(sorted(number for number in map(number_of, files.names(key)) if number is not None))
