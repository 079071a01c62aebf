"""What a lookup drafter is given at the start: how deep it goes, a corpus, a suffix store (ENG-049 to ENG-051)."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from tandem.engine.caches.folder import FolderRefused
from tandem.engine.drafting.corpus import Corpus
from tandem.engine.drafting.lookup import LookupDrafter
from tandem.engine.drafting.matches import Source
from tandem.engine.drafting.store import Scope, SuffixStore
from tandem.engine.drafting.tree import NODES
from tandem.engine.errors import CheckpointError

__all__ = ["MIB", "NO_LOOKUPS", "Lookups", "OpenLookups", "open_lookups"]

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """What the settings say of it."""

    deep: int = NODES + 1
    deep_after: int = 2
    corpus: Path | None = None
    store: Path | None = None
    store_bytes: int = 192 * MIB
    store_scope: Scope = "all"
    store_readonly: bool = False


@dataclass(frozen=True, slots=True)
class OpenLookups:
    """The sources that are open."""

    options: Lookups = Lookups()
    corpus: Corpus | None = None
    store: SuffixStore | None = None

    def drafter(self, barred: Container[int]) -> LookupDrafter:
        """A drafter that never proposes `barred` ids."""
        there: dict[str, Source | None] = {"corpus": self.corpus, "store": self.store}
        sources = {name: source for name, source in there.items() if source is not None}
        return LookupDrafter(sources, barred=barred, deep=self.options.deep, deep_after=self.options.deep_after)


NO_LOOKUPS = OpenLookups()


def open_lookups(options: Lookups, tokenizer: str) -> OpenLookups:
    """The corpus and the store of a model with that tokenizer's sha256; `CheckpointError` names what cannot be used."""
    corpus = None if options.corpus is None else Corpus(options.corpus, tokenizer)
    if options.store is None:
        return OpenLookups(options, corpus)
    try:
        store = SuffixStore(
            options.store,
            tokenizer,
            cap=options.store_bytes,
            scope=options.store_scope,
            readonly=options.store_readonly,
        )
    except FolderRefused as error:
        raise CheckpointError(f"--suffix-store {error}; or read it alone with --suffix-store-readonly on") from None
    except OSError as error:
        raise CheckpointError(f"--suffix-store {options.store}: {error.strerror}") from error
    return OpenLookups(options, corpus, store)
