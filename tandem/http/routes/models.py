"""GET /v1/models and GET /v1/models/{id}."""

from __future__ import annotations

from quart import Blueprint, Response

from tandem.http.context import SERVED_NAME, context
from tandem.http.openai.models import Models
from tandem.http.responses import json_response

__all__ = ["blueprint"]

blueprint = Blueprint("models", __name__)


@blueprint.get("/v1/models")
async def listed() -> Response:
    return json_response(_models().list_body())


@blueprint.get("/v1/models/<path:model_id>")
async def card(model_id: str) -> Response:
    return json_response(_models().card_body(model_id))


def _models() -> Models:
    """Without a conductor the id is `--served-model`, with one `TandemLLM`; the other name answers too (API-049 to
    API-051, PRF-002).
    """
    here = context()
    names = (SERVED_NAME, here.settings.served_model)
    return Models(
        id=names[0] if here.documents is not None else names[1],
        created=int(here.created.timestamp()),
        base_model=here.card.name,
        max_len=here.card.max_len,
        aliases=names,
    )
