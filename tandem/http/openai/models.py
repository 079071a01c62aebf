"""The served models as OpenAI's clients list them (API-049, API-050)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem.http.openai.errors import model_not_found
from tandem.http.openai.jsontext import dump

__all__ = ["Models"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """One served model: `id` is listed, `aliases` only answer. `max_len` is the served window in tokens."""

    id: str
    created: int
    base_model: str
    max_len: int
    aliases: tuple[str, ...] = ()

    @property
    def card(self) -> Mapping[str, Any]:
        return {
            "id": self.id,
            "object": "model",
            "created": self.created,
            "owned_by": "tandem",
            "base_model": self.base_model,
            "context_length": self.max_len,
            "max_model_len": self.max_len,
            "meta": {"n_ctx": self.max_len},
        }

    def list_body(self) -> bytes:
        """The body of `GET /v1/models`."""
        return dump({"object": "list", "data": [self.card]})

    def card_body(self, id: str) -> bytes:
        """The body of `GET /v1/models/{id}`; an alias answers with the card of the listed id (API-051).

        Raises `ApiError` 404 for an id that is not served.
        """
        if id != self.id and id not in self.aliases:
            raise model_not_found(id)
        return dump(self.card)
