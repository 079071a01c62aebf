"""Changes that reach stored documents, each one time (CFG-011). The first release ships none.

A migration leaves a document alone where one of its stored versions shows that the operator has decided otherwise. What
it has changed is a new version whose note names it; `done.json` in the directory remembers that it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tandem.conductor.documents.documents import DocumentKey
from tandem.conductor.documents.versions import Version

__all__ = ["MIGRATIONS", "Migration", "migrate"]

Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Migration:
    id: str
    keys: tuple[DocumentKey, ...]
    change: Callable[[Json], dict[str, Any] | None]
    """The new body made of the current one; None where there is nothing to change."""
    spares: Callable[[Json], bool] = lambda body: False
    """Whether a stored version is an exception: its document is left alone."""

    @property
    def note(self) -> str:
        return f"migration {self.id}"


MIGRATIONS: tuple[Migration, ...] = ()


def migrate(migration: Migration, current: Version, stored: Sequence[Version]) -> dict[str, Any] | None:
    """The body to store, or None. `stored` are all versions of the document that can be read, the current one too."""
    if any(version.note == migration.note or migration.spares(version.body) for version in stored):
        return None
    changed = migration.change(current.body)
    return None if changed == current.body else changed
