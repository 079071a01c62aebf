"""What an answer may be constrained to, as the client asked for it. Nothing here is compiled yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Calls", "CallsOrDocument", "Choice", "Constraint", "Document", "JsonObject", "JsonSchema", "Regex"]


@dataclass(frozen=True, slots=True)
class JsonObject:
    """One JSON object of any nesting (API-129)."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A JSON document that validates. `param` is the request field that a refusal names."""

    schema: Mapping[str, Any]
    param: str


@dataclass(frozen=True, slots=True)
class Regex:
    """A text that matches the whole pattern."""

    pattern: str
    param: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of these texts."""

    texts: tuple[str, ...]
    param: str


Document: TypeAlias = JsonObject | JsonSchema | Regex | Choice


@dataclass(frozen=True, slots=True)
class Calls:
    """One to `limit` calls of the tools on offer, or of those that are named (ENG-090)."""

    tools: Sequence[Mapping[str, Any]]
    names: tuple[str, ...] | None
    limit: int
    param: str = "tools"


@dataclass(frozen=True, slots=True)
class CallsOrDocument:
    """Calls or the document, whichever the model begins by itself; never a mixture (ENG-091)."""

    calls: Calls
    document: Document


Constraint: TypeAlias = Document | Calls | CallsOrDocument
