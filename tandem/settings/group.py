"""What a group of settings is made of: its heading, and a field for each setting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from tandem.kinds import Kind

__all__ = ["DAY_S", "Group", "setting"]

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A base of `Settings`, which alone is made and has all the slots: no class can have two bases with slots."""

    heading: ClassVar[str]
    """What help and documentation call the group."""


def setting(kind: Kind, default: Any, *, help: str, shown: str | None = None) -> Any:
    """A field of `Settings` with its declaration; a callable default is called for each `Settings`."""
    meta = {"kind": kind, "help": help, "shown": shown}
    if callable(default):
        return field(default_factory=default, metadata=meta)
    return field(default=default, metadata=meta)
