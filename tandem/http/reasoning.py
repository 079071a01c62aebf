"""Where the reasoning of one chat answer goes, by what its request, its client and the settings say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tandem.config import Settings
from tandem.http.endpoint import Asked
from tandem.http.openai.formats import ReasoningFormat, choose_format
from tandem.http.openai.requests import ChatRequest

__all__ = ["reasoning_format"]


def reasoning_format(asked: Asked[ChatRequest], settings: Settings) -> ReasoningFormat:
    by_kind = cast(Mapping[str, ReasoningFormat], dict(settings.client_reasoning))
    return choose_format(
        asked.request.reasoning_format,
        settings.reasoning_format,
        asked.kind,
        wants_json=asked.request.wants_json,
        plan_formats=by_kind if asked.effects.under_plan else None,
    )
