"""The deciders document: which decision models are loaded when, who answers what, and the script API (CFG-016).

No code reads it yet; a stored document keeps it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.conductor.documents.words import Name, OnOff, Section, Share

__all__ = ["DeciderApi", "Deciders"]


class DeciderApi(Section, frozen=True):
    mode: Annotated[OnOff, Meta(description="Scripts may ask questions.")] = "on"
    rate_per_min: Annotated[int, Meta(ge=1, le=1_000_000, description="Texts a minute over all callers.")] = 240
    max_texts: Annotated[int, Meta(ge=1, le=1000, description="Texts in one call.")] = 16
    max_chars: Annotated[int, Meta(ge=1, le=10_000_000, description="Characters in one call.")] = 100_000
    deadline_ms: Annotated[int, Meta(ge=1, le=60_000, description="How long a caller waits.")] = 15_000
    threshold: Annotated[Share, Meta(description="From here on an answer is sure.")] = 0.8
    drive_rate_per_s: Annotated[int, Meta(ge=1, le=1000, description="Steps a second of a driver.")] = 10
    drive_sessions: Annotated[int, Meta(ge=1, le=1000, description="Drivers at once.")] = 4
    drive_max_texts: Annotated[int, Meta(ge=1, le=10_000_000, description="Texts of one driver.")] = 36_000
    drive_idle_s: Annotated[int, Meta(ge=1, le=86_400, description="A driver ends after this silence.")] = 30


class Deciders(Section, frozen=True):
    on_start: Annotated[tuple[Name, ...], Meta(description="Models loaded when the server starts.")] = ()
    on_demand: Annotated[tuple[Name, ...], Meta(description="Models loaded when somebody asks.")] = ()
    questions: Annotated[dict[Name, Name], Meta(description="The model of a question; auto for judge, laya_api.")] = (
        msgspec.field(default_factory=dict)
    )
    api: Annotated[DeciderApi, Meta(description="Questions from scripts.")] = DeciderApi()
