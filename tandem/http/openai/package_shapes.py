"""The shapes of the routes of packages, as types: schemas are made from them (API-238, CFG-017)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = ["PackageCatalog", "PackageDetail", "PackageTokens", "PackageUsageReport", "TokensAsked"]

Count: TypeAlias = Annotated[int, Meta(ge=0)]
ContractVersion: TypeAlias = Annotated[str, Meta(pattern=r"^1\.0$")]
Counted: TypeAlias = Annotated[
    Literal["engine", "estimate"], Meta(description="By the engine's tokenizer, or at 3.5 characters a token.")
]


class ProfileListing(Struct, forbid_unknown_fields=True):
    """A profile's own routing of a class that lists the package."""

    profile: str
    class_id: str


class PackageEntry(Struct, forbid_unknown_fields=True):
    """One package."""

    name: str
    description: str
    category: Literal["library", "card", "test_skill", "task_skill", "package"]
    source: Annotated[str, Meta(description="text, or skill:<name>.")]
    has_text: Annotated[bool, Meta(description="Whether there is anything to insert.")]
    enabled: bool
    general: Annotated[bool, Meta(description="Every turn of a class that lists it carries it.")]
    core: Annotated[list[str], Meta(description="Classes whose core it is.")]
    requires_tools: Annotated[list[str] | None, Meta(description="null: read from the text.")]
    fallback: str | None
    tokens: Annotated[Count, Meta(description="As inserted.")]
    tokens_whole: Annotated[Count, Meta(description="Before the cut.")]
    tokens_reference: Annotated[Count, Meta(description="Of a skill's reference, which is never inserted.")]
    limit: Count
    over: Annotated[bool, Meta(description="The text is longer than the limit.")]
    classes: Annotated[list[str], Meta(description="Classes whose policy lists it.")]
    routings: list[ProfileListing]
    index_classes: Annotated[list[str] | None, Meta(description="Classes that INDEX.md names for a library skill.")]
    library: Annotated[dict[str, str], Meta(description="Of a library package: each profile's switch.")]


class PackageCatalog(Struct, forbid_unknown_fields=True):
    """Every package, in the order of its document."""

    contract_version: ContractVersion
    version: Annotated[Count, Meta(description="Of the packages document.")]
    counted: Counted
    packages: list[PackageEntry]


class CountedText(Struct, forbid_unknown_fields=True):
    text: str
    tokens: Count


class Similar(Struct, forbid_unknown_fields=True):
    """Another library skill that is close to it."""

    name: str
    score: float


class PackageDetail(Struct, forbid_unknown_fields=True):
    """One package with its texts."""

    contract_version: ContractVersion
    version: Count
    counted: Counted
    package: PackageEntry
    frontmatter: Annotated[str | None, Meta(description="As written; null: its source is no skill file.")]
    fields: Annotated[dict[str, str], Meta(description="Of the frontmatter.")]
    body: CountedText
    reference: CountedText
    inserted: CountedText
    similar: Annotated[list[Similar], Meta(max_length=6)]


class TokensAsked(Struct, forbid_unknown_fields=True):
    """Texts to be counted."""

    texts: Annotated[list[Annotated[str, Meta(max_length=200_000)]], Meta(min_length=1, max_length=20)]


class PackageTokens(Struct, forbid_unknown_fields=True):
    """The tokens of each text, in order."""

    contract_version: ContractVersion
    counted: Counted
    tokens: list[Count]


class UsageCounts(Struct, forbid_unknown_fields=True):
    """Of 24 hours and of seven days."""

    inserted_day: Annotated[Count, Meta(description="Times it went into a prompt.")]
    inserted_week: Count
    would_day: Annotated[Count, Meta(description="Times it would have, had the plan been on.")]
    would_week: Count


class UsageRow(Struct, forbid_unknown_fields=True):
    """A turn that the package went into, or in shadow would have."""

    id: Annotated[int, Meta(ge=1, description="Of the journal's row.")]
    ts_ms: Annotated[Count, Meta(description="Milliseconds since 1970.")]
    request_id: str | None
    session: str | None
    profile: str | None
    class_id: str | None
    how: Literal["inserted", "shadow"]


class LibraryTotals(Struct, forbid_unknown_fields=True):
    """The library's week; nothing is picked from it yet."""

    retrievals: Count
    picks: Count


class LibraryRetrieval(Struct, forbid_unknown_fields=True):
    ts_ms: Count
    name: str | None


class PackageUsageReport(Struct, forbid_unknown_fields=True):
    """How often packages went into prompts."""

    contract_version: ContractVersion
    packages: dict[str, UsageCounts]
    library: LibraryTotals
    retrievals: Annotated[list[LibraryRetrieval], Meta(max_length=50)]
    rows: Annotated[list[UsageRow] | UnsetType, Meta(description="With name: its newest turns.")] = UNSET
