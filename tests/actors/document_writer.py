"""Saves versions of the settings document until it is killed. Run by `test_documents`, which reads its lines."""

from __future__ import annotations

import sys
from pathlib import Path

from tandem.actors.document_library import load
from tandem.actors.document_saving import save, seeded
from tandem.store.document_files import DocumentFiles

__all__ = ["main"]


def main(root: Path) -> None:
    files = DocumentFiles(root)
    seeded(files, "2026-01-02T03:04:05+00:00")
    library = load(files)
    while True:
        days = len(library.numbers["settings"]) + 1
        library, version = save(files, library, "settings", {"journal": {"days": days}}, "another day", "")
        print(version.version, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
