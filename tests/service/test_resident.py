"""A second turn over HTTP on a tiny model, with the engine thread real and no mock clock."""

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
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.load import load_engine
from tandem.engine.text.model import Conversation
from tandem.http.app import create_app
from tandem.service import Parts, open_service
from tests.service.harness import Client, FixedWall, MemoryStore
from tests.tiny import build_llama

CHAT = "/v1/chat/completions"
GRID = 32
SYSTEM = {"role": "system", "content": "the quick brown fox jumps over the lazy dog and says so to everyone it meets"}
ASKED = {"role": "user", "content": "what does the fox say to the dog"}
ANSWERED = 12


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return build_llama(tmp_path / "tiny")


@asynccontextmanager
async def open_real(checkpoint: Path) -> AsyncIterator[tuple[Client, TorchEngine]]:
    """A service over the engine of `checkpoint`, and the engine."""
    engine = load_engine(checkpoint, grid=GRID)
    async with open_host() as host:
        parts = Parts(engine=engine, host=host, store=MemoryStore(), blocking=Inline(), wall=FixedWall())
        async with open_service(Settings(), parts) as service, trio.open_nursery() as nursery:
            yield Client(create_app(service.context), nursery), engine
            nursery.cancel_scope.cancel()


def ask(messages: list[dict[str, str]], **more: Any) -> dict[str, Any]:
    return {"model": "M", "messages": messages, "temperature": 0, "max_tokens": ANSWERED, **more}


def length(engine: TorchEngine, messages: list[dict[str, str]]) -> int:
    return len(engine.text.render(Conversation(messages=messages)).ids)


@pytest.mark.spec("ENG-110", "ENG-106", "API-157", "API-160", "API-161")
async def test_the_second_turn_resumes_at_the_end_of_the_first(checkpoint: Path) -> None:
    async with open_real(checkpoint) as (client, engine):
        # A random model's answer is rarely text that reads back as the same ids; one word said over and over is.
        [word] = engine.text.encode(" the")
        call = await client.send(CHAT, ask([SYSTEM, ASKED], logit_bias={str(word): 100}))
        assert call.text == " the" * ANSWERED
        assert call.json["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert call.json["timings"]["cache_source"] == "none"
        messages = [SYSTEM, ASKED, {"role": "assistant", "content": call.text}, ASKED]
        warm = (await client.send(CHAT, ask(messages))).json
        resident, whole = length(engine, [SYSTEM, ASKED]) + ANSWERED - 1, length(engine, messages)
        assert warm["usage"]["prompt_tokens"] == whole
        assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] == resident
        timings = warm["timings"]
        assert (timings["cache_source"], timings["cache_n"], timings["prompt_n"]) == (
            "session",
            resident,
            whole - resident,
        )
    assert warm["choices"][0]["message"] == await cold_message(checkpoint, messages)


@pytest.mark.spec("ENG-107", "API-157", "API-160", "API-161")
async def test_a_question_asked_again_resumes_at_the_grid(checkpoint: Path) -> None:
    async with open_real(checkpoint) as (client, engine):
        first, again = [(await client.send(CHAT, ask([SYSTEM, ASKED]))).json for _ in range(2)]
        line = length(engine, [SYSTEM, ASKED]) // GRID * GRID
        assert line > 0
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == again["timings"]["cache_n"] == line
        assert again["timings"]["cache_source"] == "prefix"
    assert first["choices"] == again["choices"]


@pytest.mark.spec("ENG-107")
async def test_after_two_choices_the_next_turn_says_what_a_cold_server_says(checkpoint: Path) -> None:
    async with open_real(checkpoint) as (client, _):
        call = await client.send(CHAT, ask([SYSTEM, ASKED], n=2, temperature=1, seed=7))
        messages = [SYSTEM, ASKED, call.json["choices"][0]["message"], ASKED]
        warm = (await client.send(CHAT, ask(messages))).json
        assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert warm["choices"][0]["message"] == await cold_message(checkpoint, messages)


async def cold_message(checkpoint: Path, messages: list[dict[str, str]]) -> Any:
    """What a server that has just started answers."""
    async with open_real(checkpoint) as (client, _):
        body = (await client.send(CHAT, ask(messages))).json
        assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        return body["choices"][0]["message"]
