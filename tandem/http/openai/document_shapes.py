"""The shapes of the routes of the conductor's documents, as types: schemas are made from them (API-233 to API-237)."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = [
    "ConductorConfig",
    "ConductorDocument",
    "ConductorVersions",
    "DiskTier",
    "DocumentRestore",
    "DocumentSave",
]

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Note: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500, description="Why the document changes.")]
Key: TypeAlias = Annotated[str, Meta(description="router, profiles/coding and so on: its path in the API.")]
Created: TypeAlias = Annotated[str | None, Meta(description="When it was stored, with a time zone; null: it is not.")]
ContractVersion: TypeAlias = Annotated[str, Meta(pattern=r"^1\.0$")]


class FailedFile(Struct, forbid_unknown_fields=True):
    """A file on disk that is not in service; the last good version is."""

    file: Annotated[str, Meta(description="Its path in the conductor's directory.")]
    path: Annotated[str, Meta(description="The key at fault; empty: the file itself.")]
    message: str


class DocumentStanding(Struct, forbid_unknown_fields=True):
    """One document."""

    name: Key
    version: Annotated[Count, Meta(description="The version in use; 0: none is stored.")]
    versions: Annotated[Count, Meta(description="How many are stored.")]
    note: Annotated[str, Meta(description="Of the version in use.")]
    created: Created
    locked: Annotated[bool, Meta(description="It cannot be changed.")]
    problem: FailedFile | None


class ConductorConfig(Struct, forbid_unknown_fields=True):
    """Every document of the conductor."""

    contract_version: ContractVersion
    documents: list[DocumentStanding]


class RoleShown(Struct, forbid_unknown_fields=True):
    """A role with its whole contract."""

    name: str
    kind: str
    endpoint: str
    model: str
    mode: str
    memory_claim_gib: float
    window: str
    preemptible: bool
    latency_budget_ms: int
    fallback: str
    writes: str
    tokenizer_sha256: str
    sharing: Annotated[list[str], Meta(description="What its document lets it be given.")]
    filled: Annotated[list[str], Meta(description="Fields that its document lacks and that were filled in.")]
    may_share: Annotated[list[str], Meta(description="What it is given in fact.")]


class ConductorDocument(Struct, forbid_unknown_fields=True):
    """One version of a document."""

    contract_version: ContractVersion
    document: Annotated[dict[str, Any] | None, Meta(description="As it was stored; null: none is stored.")]
    version: Count
    note: str
    created: Created
    restored_from: Annotated[int | None, Meta(description="The version that it repeats.")]
    contracts: Annotated[list[RoleShown] | UnsetType, Meta(description="Of the roles document.")] = UNSET


class VersionHead(Struct, forbid_unknown_fields=True):
    """One version, without its document."""

    version: Count
    note: str
    created: Created
    restored_from: int | None


class ConductorVersions(Struct, forbid_unknown_fields=True):
    """The versions of a document that can be read, the newest first."""

    contract_version: ContractVersion
    versions: list[VersionHead]


class DocumentSave(Struct, forbid_unknown_fields=True):
    """A new version."""

    document: Annotated[dict[str, Any], Meta(description="The whole document.")]
    note: Note
    base_version: Annotated[
        Count | None, Meta(description="The version that was edited; a 409 where it is no longer in use.")
    ] = None


class DocumentRestore(Struct, forbid_unknown_fields=True):
    """An older version as a new one."""

    version: Annotated[int, Meta(ge=1)]
    note: Note


class DiskTierSettings(Struct, forbid_unknown_fields=True):
    """What holds, and the version of the settings document that says so."""

    version: Count
    mode: str
    budget_gb: float
    ttl_days: float
    admit_after: int
    min_free_gb: float


class DiskEntry(Struct, forbid_unknown_fields=True):
    """A file of the disk tier."""

    rows: Annotated[Count, Meta(description="Tokens of the prefix that it ends.")]
    bytes: Count
    uses: Count


class DiskTier(Struct, forbid_unknown_fields=True):
    """The disk tier of the caches."""

    contract_version: ContractVersion
    running: Annotated[bool, Meta(description="Whether the server was started with a disk tier.")]
    settings: DiskTierSettings
    bytes: Count
    budget_bytes: Count
    free_bytes: Annotated[Count | None, Meta(description="Free on its drive; null: nobody knows.")]
    floor_bytes: Count
    hits: Count
    misses: Count
    hit_rate: Annotated[Share | None, Meta(description="null: nothing was asked for yet.")]
    entries: Annotated[list[DiskEntry], Meta(max_length=20, description="Those most used.")]
    events: Annotated[list[str], Meta(description="The newest last.")]
