"""Which profile a request gets and in which mode it runs (PRF-005 to PRF-010)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tandem.conductor.documents import Documents, Mode, Profile, Switch
from tandem.conductor.router.facts import Facts
from tandem.conductor.router.plan import PlanRefused

__all__ = ["Resolution", "lower", "resolve"]

MODES: tuple[Mode, ...] = ("raw", "shadow", "on")
"""Lowest first."""
ASKED: Mapping[str, Mode] = {"raw": "raw", "off": "raw", "shadow": "shadow", "on": "on"}
RAW = "raw"


@dataclass(frozen=True, slots=True)
class Resolution:
    """The profile and the request's mode."""

    name: str
    profile: Profile
    source: Literal["header", "client", "tools", "default"]
    mode: Mode

    @property
    def switches(self) -> Mapping[str, Switch]:
        """The decisions as they hold for this request: `shadow` lowers every `on` (PRF-010)."""
        decisions = self.profile.decisions
        named = {name: getattr(decisions, name) for name in ("classify", "effort", "package")}
        follows: Switch = "off" if self.profile.mode == "raw" else self.profile.mode
        named["identity"] = decisions.identity or follows
        return {name: self.lowered(switch) for name, switch in named.items()}

    def lowered(self, switch: Switch) -> Switch:
        """A switch of the profile in this request's mode."""
        if self.mode == "raw":
            return "off"
        return "shadow" if switch == "on" and self.mode == "shadow" else switch

    @property
    def keeps_prompt(self) -> bool:
        """The model reads what the client sent (PRF-013)."""
        return self.profile.prompt == "client"


def resolve(documents: Documents, facts: Facts) -> Resolution:
    """Raises `PlanRefused` for a profile there is not, and for a mode that is none."""
    asked = asked_mode(facts.headers)
    name, source = _name(documents, facts)
    profile = documents.profile(name)
    if profile is None:
        # The stored default may have been deleted since; the engine's own path is always there.
        return Resolution(RAW, Profile(mode="raw"), "default", "raw")
    own: Mode = "raw" if profile.locked else profile.mode
    return Resolution(name, profile, source, lower(own, asked))


def lower(one: Mode, other: Mode) -> Mode:
    """The lower of two modes."""
    return min(one, other, key=MODES.index)


def asked_mode(headers: Mapping[str, str]) -> Mode:
    """The mode that `X-Tandem` asks for; without it nothing is lowered (MON-005, MON-007)."""
    value = headers.get("x-tandem")
    if value is None:
        return "on"
    mode = ASKED.get(value.strip().lower())
    if mode is None:
        raise PlanRefused("X-Tandem", "X-Tandem takes raw, off, shadow or on")
    return mode


def _name(documents: Documents, facts: Facts) -> tuple[str, Literal["header", "client", "tools", "default"]]:
    asked = facts.headers.get("x-tandem-profile")
    if asked is not None:
        if documents.profile(asked) is None:
            raise PlanRefused("X-Tandem-Profile", "there is no profile of that name")
        return asked, "header"
    for name, each in documents.profiles.items():
        if facts.kind in each.clients:
            return name, "client"
    tools = documents.settings.tools_profile
    if tools and facts.offers_tools and (profile := documents.profile(tools)) and profile.memory == "off":
        return tools, "tools"
    return documents.settings.default_profile, "default"
