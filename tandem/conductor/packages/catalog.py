"""Every package as a person sees it: what it is, how long, who lists it (LIB-014, LIB-015, LIB-019)."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tandem.conductor.documents import Documents, Package, Switch
from tandem.conductor.documents.packages import SKILL
from tandem.conductor.packages.text import CHARS_PER_TOKEN, NO_SKILLS, Skill, inserted_text, parse_skill, source_text

__all__ = ["Category", "CatalogEntry", "Listing", "PackageItem", "TokenCounts", "catalog", "category", "item"]

Category: TypeAlias = Literal["library", "card", "test_skill", "task_skill", "package"]

SKILL_LIMIT, CARD_LIMIT = 350, 200
"""Tokens that a library skill and the library card may have (LIB-003)."""
KEPT = 4096


class TokenCounts:
    """How many tokens a text has; each is counted once, by its hash (LIB-015). Any thread may use it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, int] = OrderedDict()

    def count(self, text: str, encode: Callable[[str], Sequence[int]] | None) -> int:
        """By the engine's tokenizer; without one at 3.5 characters a token."""
        if encode is None:
            return math.ceil(len(text) / CHARS_PER_TOKEN)
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = len(encode(text)) if text else 0
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


@dataclass(frozen=True, slots=True)
class Listing:
    """A profile's own routing of a class that lists the package."""

    profile: str
    class_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    name: str
    description: str
    category: Category
    source: str
    """`text`, or `skill:<name>`."""
    has_text: bool
    enabled: bool
    general: bool
    core: tuple[str, ...]
    """Classes whose core it is."""
    requires_tools: tuple[str, ...] | None
    fallback: str | None
    tokens: int
    """As inserted."""
    tokens_whole: int
    """Before the cut."""
    tokens_reference: int
    limit: int
    over: bool
    """The text is longer than the limit."""
    classes: tuple[str, ...]
    """Classes whose policy lists it."""
    routings: tuple[Listing, ...]
    index_classes: tuple[str, ...] | None
    """Classes that INDEX.md names; None: it is no library skill."""
    library: Mapping[str, Switch]
    """Each profile's library switch; empty for what is no library package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageItem:
    """One package with its texts."""

    entry: CatalogEntry
    frontmatter: str | None
    """As written; None: its source is no skill file."""
    fields: Mapping[str, str]
    body: str
    reference: str
    inserted: str


Count: TypeAlias = Callable[[str], int]


def catalog(documents: Documents, count: Count, skills: Mapping[str, str] = NO_SKILLS) -> list[CatalogEntry]:
    """Every package, in the order of its document."""
    return [_entry(documents, package, count, skills) for package in documents.packages.packages]


def item(documents: Documents, name: str, count: Count, skills: Mapping[str, str] = NO_SKILLS) -> PackageItem | None:
    """None: there is no such package."""
    package = documents.package(name)
    if package is None:
        return None
    skill = _skill(package, skills)
    return PackageItem(
        entry=_entry(documents, package, count, skills),
        frontmatter=None if skill is None else skill.frontmatter,
        fields={} if skill is None else skill.fields,
        body=source_text(package, skills) or "",
        reference="" if skill is None else skill.reference,
        inserted=inserted_text(package, skills),
    )


def category(documents: Documents, package: Package) -> Category:
    """The first that holds (LIB-019)."""
    router = documents.router
    cards = {router.outcomes.cards.harness, *router.outcomes.cards.pitfalls.values(), router.library.card}
    if package.library:
        return "library"
    if package.name in cards:
        return "card"
    if package.name in router.outcomes.retrieve.packages:
        return "test_skill"
    return "package" if package.source is None else "task_skill"


def _entry(documents: Documents, package: Package, count: Count, skills: Mapping[str, str]) -> CatalogEntry:
    router, name = documents.router, package.name
    whole, skill = source_text(package, skills), _skill(package, skills)
    tokens_whole, limit = count(whole or ""), _limit(documents, package)
    return CatalogEntry(
        name=name,
        description=package.description,
        category=category(documents, package),
        source=package.source or "text",
        has_text=bool(whole),
        enabled=package.enabled,
        general=package.general,
        core=tuple(class_id for class_id, policy in router.policies.items() if name in policy.core),
        requires_tools=package.requires_tools,
        fallback=package.fallback,
        tokens=count(inserted_text(package, skills)),
        tokens_whole=tokens_whole,
        tokens_reference=0 if skill is None else count(skill.reference),
        limit=limit,
        over=tokens_whole > limit,
        classes=tuple(class_id for class_id, policy in router.policies.items() if name in policy.packages),
        routings=tuple(_routings(documents, name)),
        index_classes=None,
        library={each: profile.library for each, profile in documents.profiles.items()} if package.library else {},
    )


def _routings(documents: Documents, name: str) -> list[Listing]:
    return [
        Listing(profile, class_id)
        for profile, body in documents.profiles.items()
        for class_id, routing in body.routing.classes.items()
        if name in (*(routing.packages or ()), *(routing.core or ()))
    ]


def _limit(documents: Documents, package: Package) -> int:
    if package.library:
        return SKILL_LIMIT
    return CARD_LIMIT if package.name == documents.router.library.card else package.max_tokens


def _skill(package: Package, skills: Mapping[str, str]) -> Skill | None:
    """The skill file that is the package's source, where there is one."""
    text = skills.get(package.source.removeprefix(SKILL)) if package.text is None and package.source else None
    return None if text is None else parse_skill(text)
