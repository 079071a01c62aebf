"""The packages document: the texts a turn may carry (PKG-001).

A shipped package's text is the file `tandem/conductor/packages/texts/<name>.md` (see `shipped.py`); in a stored
document every text stands in full.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from tandem.conductor.documents.words import Name, Section

__all__ = ["SKILL", "Package", "Packages"]

SKILL = "skill:"
"""What a `source` begins with; the skill's name follows."""


class Package(Section, frozen=True):
    name: Annotated[Name, Meta(description="The name that classes and profiles use.")]
    description: Annotated[str, Meta(min_length=1, max_length=400, description="What the package question shows.")]
    max_tokens: Annotated[int, Meta(ge=1, le=100_000, description="The text is cut here, at 3.5 characters a token.")]
    text: Annotated[
        Annotated[str, Meta(max_length=200_000)] | None,
        Meta(description="What the model reads. {tandem_url} names this server."),
    ] = None
    source: Annotated[
        Annotated[str, Meta(pattern=r"^skill:[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None,
        Meta(description="A skill, instead of a text."),
    ] = None
    enabled: Annotated[bool, Meta(description="Whether any turn may carry it.")] = True
    general: Annotated[bool, Meta(description="Every turn of a class that lists it carries it.")] = False
    library: Annotated[bool, Meta(description="A skill of the library.")] = False
    requires_tools: Annotated[
        tuple[Literal["shell", "write"], ...] | None,
        Meta(description="What the request's tools must be able to do. Absent: read from the text."),
    ] = None
    fallback: Annotated[Name | None, Meta(description="The package instead, where the tools cannot do it.")] = None


class Packages(Section, frozen=True):
    packages: Annotated[tuple[Package, ...], Meta(description="The packages.")]
    skill_dirs: Annotated[tuple[str, ...], Meta(description="Where skills are looked for.")] = ()
