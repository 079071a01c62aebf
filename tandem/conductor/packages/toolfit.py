"""What a request's tools can do, and which packages they can carry out (PKG-007 to PKG-010).

It is read from the tools' schemas alone: a command argument makes a shell, a path and a content argument make a writer
of files. A shell writes files too, so whoever has one lacks nothing (decided).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tandem.conductor.documents.packages import Package
from tandem.conductor.documents.router import ToolFit
from tandem.conductor.packages.text import NO_SKILLS, URL, source_text
from tandem.conductor.tool_arguments import COMMANDS, CONTENTS, PATHS, argument_names, mapping

__all__ = ["Capability", "Fitted", "fit", "fit_sentence", "required", "tool_caps", "tool_names"]

Capability: TypeAlias = Literal["shell", "write"]

NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
NAMED = 20
"""Tools that the sentence names."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What of the wanted packages the tools can carry out."""

    kept: tuple[Package, ...]
    """In their order, fallbacks in the place of what they stand in for."""
    dropped: tuple[str, ...] = ()
    """Names of those that stayed out, whether something took their place or not."""
    fallback: Mapping[str, str] = field(default_factory=dict)
    """Of these the ones that gave way, with the name of what took their place."""


def tool_caps(tools: Sequence[Mapping[str, Any]]) -> frozenset[Capability]:
    """What the tools of a request can do."""
    found: set[Capability] = set()
    for tool in tools:
        names = argument_names(tool)
        if names & COMMANDS:
            found |= {"shell", "write"}
        elif names & PATHS and names & CONTENTS:
            found.add("write")
    return frozenset(found)


def tool_names(tools: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Their names as sent; one that is no plain word is left out, for the sentence is the server's own text."""
    names = (mapping(tool.get("function")).get("name") for tool in tools)
    return tuple(name for name in names if isinstance(name, str) and NAME.fullmatch(name))


def required(package: Package, skills: Mapping[str, str] = NO_SKILLS) -> frozenset[Capability]:
    """What a package's text needs (PKG-008)."""
    if package.requires_tools is not None:
        return frozenset(package.requires_tools)
    return frozenset({"shell"} if URL in (source_text(package, skills) or "") else ())


def fit(
    wanted: Iterable[Package],
    caps: frozenset[Capability],
    package_of: Callable[[str], Package | None],
    skills: Mapping[str, str] = NO_SKILLS,
) -> Fitted:
    """The wanted packages as far as `caps` carry them out (PKG-009). `package_of` knows all there are, by name."""
    kept: dict[str, Package] = {}
    dropped: list[str] = []
    fallback: dict[str, str] = {}
    for package in wanted:
        if required(package, skills) <= caps:
            kept.setdefault(package.name, package)
            continue
        dropped.append(package.name)
        instead = package_of(package.fallback) if package.fallback is not None else None
        if instead is not None and instead.enabled and required(instead, skills) <= caps:
            fallback[package.name] = instead.name
            kept.setdefault(instead.name, instead)
    return Fitted(tuple(kept.values()), tuple(dropped), fallback)


def fit_sentence(settings: ToolFit, caps: frozenset[Capability], names: Sequence[str]) -> str | None:
    """What the note says of the tools where something stayed out (PKG-010); None: they can do everything."""
    if "shell" in caps:
        return None
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    template = settings.note_write if "write" in caps else settings.note_none
    return template.replace("{tools}", shown or "none").strip() or None
