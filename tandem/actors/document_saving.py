"""What changes the documents' directory: the first start, migrations, a save (CFG-002, CFG-011, PRF-023).

Everything here blocks, like `document_library`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tandem.actors.document_library import (
    InUse,
    Library,
    keys_of,
    load,
    numbers_of,
    put_in,
    read_versions,
    with_skills,
)
from tandem.conductor.documents import DocumentKey, parse
from tandem.conductor.documents.checks import check_saved
from tandem.conductor.documents.documents import split_key
from tandem.conductor.documents.migrations import Migration, migrate
from tandem.conductor.documents.shipped import NOTE, shipped_documents
from tandem.conductor.documents.versions import CURRENT, Version, encode_current, encode_version, file_name
from tandem.store.document_files import DocumentFiles

__all__ = ["Stored", "migrated", "save", "seeded"]

DONE = "done.json"
"""The migrations that have run."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A version that was stored, for the journal."""

    key: DocumentKey
    version: int
    what: str
    """`stored`, `restored` or `migrated`."""
    note: str


def seeded(files: DocumentFiles, created: str) -> list[Stored]:
    """Store as version 1 what ships and is not there (PRF-023)."""
    stored = []
    shipped = shipped_documents()
    for key in keys_of(files, shipped):
        files.sweep(key)
    for key, body in shipped.items():
        if not numbers_of(files, key):
            _write(files, key, Version(version=1, created=created, note=NOTE, body=body))
            stored.append(Stored(key, 1, "stored", NOTE))
    return stored


def migrated(files: DocumentFiles, migrations: Sequence[Migration], created: str) -> list[Stored]:
    """Run each migration that has not run in this directory (CFG-011)."""
    done: list[str] = msgspec.json.decode(files.read("", DONE) or b"[]", type=list[str])
    stored = []
    for migration in migrations:
        if migration.id in done:
            continue
        library = load(files)
        for key in migration.keys:
            if key not in library.in_use:
                continue
            body = migrate(migration, library.in_use[key].version, read_versions(files, key))
            if body is not None:
                saved, _ = save(files, library, key, body, migration.note, created)
                stored.append(Stored(key, saved.in_use[key].version.version, "migrated", migration.note))
                library = saved
        done.append(migration.id)
        files.write("", DONE, msgspec.json.encode(done))
    return stored


def save(
    files: DocumentFiles,
    library: Library,
    key: DocumentKey,
    body: Mapping[str, Any],
    note: str,
    created: str,
    *,
    restored_from: int | None = None,
) -> tuple[Library, Version]:
    """Store a new version and make it current. Raises `DocumentError`, then nothing is stored, and `OSError`."""
    parsed = parse(split_key(key)[0], body)
    check_saved(key, parsed, library.documents)
    numbers = numbers_of(files, key)
    number = max((0, *numbers)) + 1
    version = Version(version=number, created=created, note=note, body=dict(body), restored_from=restored_from)
    _write(files, key, version)
    saved = with_skills(files, put_in(library, key, InUse(version, parsed)))
    problems = {other: problem for other, problem in library.problems.items() if other != key}
    return replace(saved, numbers={**library.numbers, key: (*numbers, number)}, problems=problems), version


def _write(files: DocumentFiles, key: DocumentKey, version: Version) -> None:
    files.write(key, file_name(version.version), encode_version(version), new=True)
    files.write(key, CURRENT, encode_current(version.version))
