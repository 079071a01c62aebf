"""A chat with an image over HTTP on a tiny model with a tower: the engine's side of HTTP API section 21."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import trio

from tandem.actors.host import open_host
from tandem.actors.kit import Inline
from tandem.config import Settings
from tandem.engine.load import load_engine
from tandem.engine.tiny.qwen3_5 import build_qwen3_5
from tandem.http.app import create_app
from tandem.service import Parts, open_service
from tests.http.images.pictures import data_url, encoded, image_of
from tests.service.harness import Client, FixedWall, MemoryStore

CHAT = "/v1/chat/completions"
RED, BLUE = (encoded(image_of(200, 130, colour)) for colour in ("red", "blue"))
"""24 rows."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_qwen3_5(tmp_path_factory.mktemp("tiny") / "seeing", seed=2, vision=True)


@asynccontextmanager
async def open_seeing(checkpoint: Path, **settings: Any) -> AsyncIterator[tuple[Client, Any]]:
    given = Settings(**settings)
    engine = load_engine(checkpoint, grid=32, max_len=1024, cpu_weights="fp32", vision=given.vision)
    async with open_host() as host:
        parts = Parts(engine=engine, host=host, store=MemoryStore(), blocking=Inline(), wall=FixedWall())
        async with open_service(given, parts) as service, trio.open_nursery() as nursery:
            yield Client(create_app(service.context), nursery), engine
            nursery.cancel_scope.cancel()


def look(*images: bytes, text: str = "What colour is it?", **more: Any) -> dict[str, Any]:
    parts = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
    content: Any = [*parts, {"type": "text", "text": text}] if images else text
    messages = [{"role": "user", "content": content}]
    asked = {"model": "M", "messages": messages, "temperature": 0, "max_tokens": 8, "logprobs": True}
    return {**asked, "chat_template_kwargs": {"enable_thinking": False}, **more}


def figures(answer: dict[str, Any]) -> list[float]:
    found = [each["logprob"] for each in answer["choices"][0]["logprobs"]["content"]]
    assert len(found) > 2
    return found


@pytest.mark.spec("API-182", "API-183", "ENG-098", "ENG-100", "ENG-101")
async def test_an_image_is_read_and_counts_in_rows(checkpoint: Path) -> None:
    async with open_seeing(checkpoint) as (client, engine):
        text = (await client.send(CHAT, look())).json
        red = (await client.send(CHAT, look(RED))).json
        assert red["usage"]["prompt_tokens"] == text["usage"]["prompt_tokens"] + 24 + 2, "and its two markers"
        blue = (await client.send(CHAT, look(BLUE))).json
        assert blue["usage"]["prompt_tokens"] == red["usage"]["prompt_tokens"]
        assert blue["usage"]["prompt_tokens_details"]["cached_tokens"] == 0, "other pixels are another prompt"
        assert figures(blue) != figures(red)
        again = (await client.send(CHAT, look(BLUE))).json
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 32
        assert figures(again) == pytest.approx(figures(blue), abs=1e-4)
        both = (await client.send(CHAT, look(RED, BLUE, text="Which is which?", stream=False))).json
        assert both["usage"]["prompt_tokens"] > 48
        assert engine.state()["encoded_images"] == 2


@pytest.mark.spec("API-185", "ENG-102")
async def test_what_is_too_much_to_encode_is_refused_before_it_queues(checkpoint: Path) -> None:
    async with open_seeing(checkpoint, image_act_gb=0.01) as (client, engine):
        rows = int(0.01 * 2**30 / engine.card.geometry.row_bytes)
        assert 24 < rows < 256
        assert (await client.send(CHAT, look(RED))).status == 200
        call = await client.send(CHAT, look(encoded(image_of(500, 500))))
        assert call.status == 400
        assert "--image-act-gb" in call.json["error"]["message"]
        assert engine.state()["requests"] == 1


@pytest.mark.spec("API-182", "API-194", "ENG-103")
async def test_vision_off_loads_no_tower_and_answers_text_alike(checkpoint: Path) -> None:
    answers = []
    for vision in (True, False):
        async with open_seeing(checkpoint, vision=vision) as (client, engine):
            answers.append((await client.send(CHAT, look())).json)
            assert engine.card.images is vision
            if not vision:
                call = await client.send(CHAT, look(RED))
                assert call.status == 400
                assert "--vision off" in call.json["error"]["message"]
    assert figures(answers[0]) == figures(answers[1])
    assert answers[0]["choices"][0]["message"] == answers[1]["choices"][0]["message"]
