"""What every planner is given: the text model, how the served model fits, and the settings that planning reads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tandem.conductor.documents import Switch
from tandem.conductor.router.modelfit import NO_FIT, ModelFit
from tandem.conductor.router.notes import Dedup
from tandem.conductor.sampling import SHIPPED, SamplingKit
from tandem.conductor.sessions import DigestCache
from tandem.engine.text.model import TextModel
from tandem.engine.text.splicing import Openings, openings

__all__ = ["Encoder", "Kit", "kit_for"]

KEPT = 512
"""Texts whose ids are kept: packages come again on every turn."""


class Encoder:
    """Ids of the server's texts. Any thread may use it."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode
        self._kept: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def __call__(self, text: str) -> tuple[int, ...]:
        ids = self._kept.get(text)
        if ids is None:
            ids = self._kept[text] = tuple(self._encode(text))
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """Made once, when the server starts."""

    encode: Callable[[str], tuple[int, ...]]
    digests: DigestCache = field(default_factory=DigestCache)
    turn_ends: frozenset[int]
    openings: Openings | None = None
    """None: the template knows no closed thinking block."""
    fit: ModelFit = NO_FIT
    model_name: str = "the served model"
    """What the identity note calls it (FIT-003)."""
    url: str = ""
    """Takes the place of {tandem_url} in packages."""
    dedup: Dedup = "parts"
    client_cwd: Literal["note", "off"] = "note"
    tool_fit: Switch = "on"
    sampling: SamplingKit = SHIPPED


def kit_for(text: TextModel, **settings: Any) -> Kit:
    """The kit of a model; `settings` are the fields that the text model does not give."""
    return Kit(encode=Encoder(text.encode), turn_ends=text.turn_ends, openings=openings(text), **settings)
