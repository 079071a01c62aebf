"""The words that several documents share, and the base of every section of one.

A document is a msgspec Struct: its field names are the document's keys, a field's default is what the absent key means
(CFG-010), its description is the dashboard's help, and a key that no field has is refused.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

__all__ = ["ClassId", "Level", "Mode", "Name", "OnOff", "OnShadowAct", "PackageNames", "Section", "Share", "Switch"]

Mode: TypeAlias = Literal["raw", "shadow", "on"]
OnOff: TypeAlias = Literal["off", "on"]
Switch: TypeAlias = Literal["off", "shadow", "on"]
OnShadowAct: TypeAlias = Literal["off", "shadow", "act"]
Level: TypeAlias = Literal["off", "low", "medium", "high", "xhigh"]

Name: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""A profile, a package or a role: letters, digits, dot, dash and underscore, so that it is a file's name too."""
ClassId: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
PackageNames: TypeAlias = tuple[Name, ...]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A document, or an object within one."""
