"""The documents in use, as one frozen value: a request keeps the one it started with (CFG-006)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias, get_args

from tandem.conductor.documents.deciders import Deciders
from tandem.conductor.documents.monitor import MonitorDocument
from tandem.conductor.documents.packages import Package, Packages
from tandem.conductor.documents.profiles import Profile
from tandem.conductor.documents.residency import Residency
from tandem.conductor.documents.roles import RoleContract, Roles, contracts
from tandem.conductor.documents.router import ClassDef, Policy, Router
from tandem.conductor.documents.settings import SettingsDocument

__all__ = ["KINDS", "PROFILES", "Body", "DocumentKey", "Documents", "Kind", "document_key", "split_key"]

Kind: TypeAlias = Literal["profiles", "router", "roles", "packages", "settings", "monitor", "deciders", "residency"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PROFILES = "profiles"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

DocumentKey: TypeAlias = str
"""`router`, `profiles/coding`: the document's path in the API and in the directory."""
Body: TypeAlias = Profile | Router | Roles | Packages | SettingsDocument | MonitorDocument | Deciders | Residency


def document_key(kind: Kind, name: str | None = None) -> DocumentKey:
    return kind if name is None else f"{kind}/{name}"


def split_key(key: DocumentKey) -> tuple[Kind, str | None]:
    """Kind and name; the name is a profile's alone. Raises `KeyError` for what is no document's path."""
    kind, _, name = key.partition("/")
    found = next((one for one in KINDS if one == kind), None)
    if found is None or (found == PROFILES) != bool(NAME.fullmatch(name)) or (found != PROFILES and "/" in key):
        raise KeyError(key)
    return found, name or None


@dataclass(frozen=True)  # no slots: the look-ups are made once, at first use
class Documents:
    """Every document with the number of its version in use."""

    profiles: Mapping[str, Profile]
    router: Router
    packages: Packages
    settings: SettingsDocument
    roles: Roles
    deciders: Deciders
    residency: Residency
    monitor: MonitorDocument | None
    """Its version 0 is the monitor's policy file; None where nobody has given one."""
    versions: Mapping[DocumentKey, int]
    skills: Mapping[str, str] = field(default_factory=dict)
    """The SKILL.md files that packages name as their source, by the skill's name."""

    def profile(self, name: str) -> Profile | None:
        return self.profiles.get(name)

    def class_def(self, class_id: str) -> ClassDef | None:
        return self._classes.get(class_id)

    def policy(self, class_id: str) -> Policy | None:
        return self.router.policies.get(class_id)

    def package(self, name: str) -> Package | None:
        """The package, enabled or not."""
        return self._packages.get(name)

    @cached_property
    def contracts(self) -> Mapping[str, RoleContract]:
        """Every role with its whole contract, the built-in ones included."""
        return contracts(self.roles, self.residency.claims)

    @cached_property
    def _classes(self) -> Mapping[str, ClassDef]:
        return {one.id: one for one in self.router.classes}

    @cached_property
    def _packages(self) -> Mapping[str, Package]:
        return {one.name: one for one in self.packages.packages}
