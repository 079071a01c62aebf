"""Which packages a turn carries: those of its class, as far as its tools and its model take them (PKG-001 to PKG-006).

`offer` finds what there is for a turn; where something is left to be chosen, `choice.py` asks; `decide` makes the parts
of the note and what the row says of them. Nothing here knows what earlier notes said: the notes leave out what is live.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tandem.conductor.documents import Documents, Package, Profile, Switch
from tandem.conductor.packages.text import CHARS_PER_TOKEN, inserted_text
from tandem.conductor.packages.toolfit import Capability, fit, fit_sentence, tool_caps, tool_names
from tandem.conductor.router.modelfit import NO_FIT, ModelFit
from tandem.conductor.router.notes import NotePart
from tandem.conductor.sessions import PackagePick

__all__ = ["Chosen", "Offer", "PackageDecision", "decide", "offer"]

SWITCHES: tuple[Switch, ...] = ("off", "shadow", "on")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The packages of a turn's class that the turn may carry."""

    class_id: str
    general: tuple[Package, ...] = ()
    core: tuple[Package, ...] = ()
    options: tuple[Package, ...] = ()
    """What the package question picks from (PKG-004)."""
    skills: Mapping[str, str] = field(default_factory=dict)
    """Where the texts of some of them are."""
    sentence: str | None = None
    """What the note says of the tools, because something stayed out (PKG-010)."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    shadow: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The task skill, and how it was found. A `name` that is None: none of them."""

    name: str | None
    how: str
    """A stage's name, `sticky`, `kept` (after a compaction), `below_accept`, `under_grant`, `not_asked`, an error."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    ms: float = 0.0
    answered: bool = True
    """Whether it is to be remembered: not what was remembered before, nor that nobody was sure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageDecision:
    """The packages of one turn. The parts are of kind `class`, in the order in which the note has them."""

    packages: tuple[NotePart, ...] = ()
    tool_fit: NotePart | None = None
    """It stands behind the rules and the reading line (NOTE-003)."""
    pick: PackagePick | None = None
    """For the session; None leaves what it has."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    shadow: Mapping[str, Any] = field(default_factory=dict)


def offer(
    documents: Documents,
    profile: Profile,
    class_id: str,
    tools: Sequence[Mapping[str, Any]],
    *,
    model: ModelFit = NO_FIT,
    tool_fit: Switch = "on",
) -> Offer:
    """What the class has for this turn. `tools` are those the model may call; `tool_fit` off keeps every package."""
    listed = _listed(documents, profile, class_id)
    if not listed.names:
        return Offer(class_id=class_id)
    if not model.packages or class_id in model.no_package_classes:
        return Offer(class_id=class_id, extra={"package_fit_dropped": listed.names})
    extra: dict[str, Any] = {}
    if model.lean and listed.general:
        extra["model_fit_lean"] = [one.name for one in listed.general]
        listed = replace(listed, general=())
    mode = min(tool_fit, documents.router.tool_fit.mode, key=SWITCHES.index)
    caps = tool_caps(tools)
    fits = _Fitting(caps, documents)
    fitted = listed.through(fits) if mode != "off" else listed
    told = {"offered": len(tools), "caps": sorted(caps), "dropped": fits.dropped, "fallback": fits.fallback}
    served, too_long = _within(fitted if mode == "on" else listed, model.max_package_tokens, documents.skills)
    if too_long:
        extra["package_fit_dropped"] = too_long
    if mode == "on":
        extra["tools"] = told
    out = mode == "on" and bool(fits.dropped)
    return Offer(
        class_id=class_id,
        general=served.general,
        core=served.core,
        options=served.options,
        skills=documents.skills,
        sentence=fit_sentence(documents.router.tool_fit, caps, tool_names(tools)) if out else None,
        extra=extra,
        shadow={"tools": told} if mode == "shadow" else {},
    )


def decide(offered: Offer, chosen: Chosen | None = None, *, url: str = "") -> PackageDecision:
    """The note's parts: general packages, core packages, the task skill (PKG-002, PKG-003)."""
    skill = next((one for one in offered.options if chosen is not None and one.name == chosen.name), None)
    carried = [*offered.general, *offered.core, *([skill] if skill is not None else [])]
    extra = dict(offered.extra)
    if offered.general:
        extra["package_general"] = [one.name for one in offered.general]
    if offered.core:
        extra["package_core"] = [one.name for one in offered.core]
    if chosen is not None:
        extra["package_choice"] = {
            "candidates": [one.name for one in offered.options],
            "probabilities": dict(chosen.probabilities),
            "pick": chosen.name,
            "how": chosen.how,
            "ms": chosen.ms,
        }
    return PackageDecision(
        packages=tuple(
            NotePart("class", f"package:{one.name}", inserted_text(one, offered.skills, url)) for one in carried
        ),
        tool_fit=None if offered.sentence is None else NotePart("class", "tool_fit", offered.sentence),
        pick=PackagePick(offered.class_id, chosen.name) if chosen is not None and chosen.answered else None,
        extra=extra,
        shadow=offered.shadow,
    )


@dataclass(frozen=True, slots=True)
class _Listed:
    """Packages of a class by their part: no package is in two of them."""

    general: tuple[Package, ...] = ()
    core: tuple[Package, ...] = ()
    options: tuple[Package, ...] = ()

    @property
    def names(self) -> list[str]:
        return [one.name for one in (*self.general, *self.core, *self.options)]

    def through(self, change: Callable[[tuple[Package, ...]], Iterable[Package]]) -> _Listed:
        """With each part changed; what an earlier part has, a later one leaves out."""
        parts: list[tuple[Package, ...]] = []
        there: set[str] = set()
        for part in (self.general, self.core, self.options):
            parts.append(tuple(one for one in change(part) if one.name not in there))
            there |= {one.name for one in parts[-1]}
        return _Listed(*parts)


class _Fitting:
    """Fits a part to the tools and remembers what stayed out."""

    def __init__(self, caps: frozenset[Capability], documents: Documents) -> None:
        self._caps = caps
        self._documents = documents
        self.dropped: list[str] = []
        self.fallback: dict[str, str] = {}

    def __call__(self, part: tuple[Package, ...]) -> tuple[Package, ...]:
        fitted = fit(part, self._caps, self._documents.package, self._documents.skills)
        self.dropped += fitted.dropped
        self.fallback |= fitted.fallback
        return fitted.kept


def _listed(documents: Documents, profile: Profile, class_id: str) -> _Listed:
    """The class's packages under the profile (PRF-018); those without a text, off or unknown are none."""
    policy, routing = documents.policy(class_id), profile.routing.classes.get(class_id)
    if policy is None:
        return _Listed()
    names = policy.packages if routing is None or routing.packages is None else routing.packages
    core = policy.core if routing is None or routing.core is None else routing.core
    found = [one for name in dict.fromkeys(names) if (one := documents.package(name)) is not None and one.enabled]
    found = [one for one in found if inserted_text(one, documents.skills)]
    return _Listed(
        general=tuple(one for one in found if one.general),
        core=tuple(one for one in found if one.name in core and not one.general),
        options=tuple(one for one in found if one.name not in core and not one.general),
    )


def _within(listed: _Listed, most: int, skills: Mapping[str, str]) -> tuple[_Listed, list[str]]:
    """Without the packages of more than `most` tokens (0: no limit), and their names."""

    def short(part: tuple[Package, ...]) -> Iterable[Package]:
        return (one for one in part if math.ceil(len(inserted_text(one, skills)) / CHARS_PER_TOKEN) <= most)

    kept = listed.through(short) if most else listed
    return kept, [name for name in listed.names if name not in kept.names]
