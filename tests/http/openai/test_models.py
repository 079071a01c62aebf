from __future__ import annotations

import json

import pytest
from openai.types import Model

from tandem.http.openai.errors import ApiError
from tandem.http.openai.models import Models

MODELS = Models(id="TandemLLM", created=5, base_model="SmolLM2", max_len=8192, aliases=("old/name",))


@pytest.mark.spec("API-049", "API-050")
def test_list_and_card() -> None:
    listed = json.loads(MODELS.list_body())
    card = json.loads(MODELS.card_body("TandemLLM"))
    assert listed == {"object": "list", "data": [card]}
    Model.model_validate(card)
    assert (card["object"], card["owned_by"], card["base_model"]) == ("model", "tandem", "SmolLM2")
    assert card["context_length"] == card["max_model_len"] == card["meta"]["n_ctx"] == 8192


@pytest.mark.spec("API-050")
def test_other_ids() -> None:
    assert json.loads(MODELS.card_body("old/name"))["id"] == "TandemLLM"
    with pytest.raises(ApiError) as refusal:
        MODELS.card_body("gpt")
    assert (refusal.value.status, refusal.value.code) == (404, "model_not_found")
