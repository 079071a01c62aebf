"""The first look at a whole service."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from tandem.actors.host import InlineHost
from tandem.actors.kit import Inline
from tandem.config import Settings
from tandem.engine.caches.caching import Caching
from tandem.engine.fake import FakeEngine
from tandem.engine.verbs import Engine
from tandem.http.app import create_app
from tandem.service import Parts, open_service
from tests.service.harness import Client, FixedWall, MemoryStore, chat, open_harness

CHAT = "/v1/chat/completions"


async def test_an_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send("/v1/chat/completions", chat({"say": "Hello there, friend"}))
        print(call.status, call.body)
        assert call.text == "Hello there, friend"
        call = await harness.client.send("/v1/chat/completions", chat({"say": "Hello there, friend"}, stream=True))
        print(call.body.decode())
        assert call.text == "Hello there, friend"
        print(harness.outcomes)
        call = await harness.client.send("/health")
        print(call.json)


MEMBERS = {name for each in (Engine, Caching) for name in vars(each) if not name.startswith("_")}


class Bare:
    """An engine with what the Protocol names, and nothing else."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        assert name in MEMBERS, f"the service uses {name}, which engines need not have"
        return getattr(self._engine, name)


@pytest.mark.spec("ENG-167")
async def test_a_service_uses_nothing_of_an_engine_but_its_verbs_card_and_text(
    autojump_clock: trio.testing.MockClock,
) -> None:
    engine = FakeEngine()
    bare: Any = Bare(engine)
    wall = FixedWall()
    parts = Parts(engine=bare, host=InlineHost(engine), store=MemoryStore(), blocking=Inline(), wall=wall)
    async with open_service(Settings(), parts) as service, trio.open_nursery() as nursery:
        client = Client(create_app(service.context), nursery)
        assert (await client.send(CHAT, chat({"say": "a b"}, n=2))).text == "a b"
        assert (await client.send(CHAT, chat({"say": "a b"}, stream=True))).text == "a b"
        assert (await client.send(CHAT, chat({"say": "a b", "fail_at": 1}))).status == 500
        assert (await client.send("/v1/models")).status == (await client.send("/health")).status == 200
        nursery.cancel_scope.cancel()
