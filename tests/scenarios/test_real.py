"""The scenarios once more on a tiny random model, whose engine thread and worker threads are real (SCH-110).

Nothing is told by times here: who comes after whom is decided by what has been seen, and who ends before whom by who
has ended. What everybody is told must be what the box tells that request when it is alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import trio

from tandem.actors.host import open_host
from tandem.actors.kit import Threads
from tandem.actors.watchdog import Look, Sight
from tandem.build import THREADS
from tandem.config import Settings
from tandem.draining import drain
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.load import load_engine
from tandem.engine.memory import GIB
from tandem.engine.text.side import SIDE_SHAPES
from tandem.http.app import create_app
from tandem.service import Parts, Service, open_service
from tests.service.harness import Call, Client, FixedWall, MemoryStore
from tests.tiny import build_llama

CHAT = "/v1/chat/completions"
GRID = 32
WINDOW = 512
LONG = 200
"""Tokens of an answer during which all else happens. They are drawn, so that hardly a draft is taken and it has about
as many rounds: ten times those of the others."""
SHORT = 20
TINY = 8
"""Of a lane job; whatever is longer is none here."""
TITLE = next(shape for shape in SIDE_SHAPES if shape.id == "opencode-title").opens[0]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_llama(tmp_path_factory.mktemp("tiny"), max_position_embeddings=WINDOW, tied=False)


@dataclass
class Machine:
    free_gib: float = 1e6

    def free(self) -> int:
        return int(self.free_gib * GIB)


class Real:
    """A service over the tiny model, on a machine whose memory the test sets."""

    def __init__(
        self, service: Service, engine: TorchEngine, client: Client, store: MemoryStore, machine: Machine
    ) -> None:
        self.service = service
        self.machine = machine
        self._engine = engine
        self._client = client
        self._store = store

    def ask(self, who: str, tokens: int, *, system: str = "", **more: Any) -> Call:
        """A request whose answer has just so many tokens, since it may not end before."""
        said = [{"role": "system", "content": system}] if system else []
        body = {
            "model": "M",
            "messages": [*said, {"role": "user", "content": f"{who} asks what {who} would ask of nobody but {who}"}],
            "stream": True,
            "temperature": 1,
            "seed": 7,
            "max_tokens": tokens,
            "logit_bias": {str(token): -100 for token in self._engine.text.end_ids},
            **more,
        }
        return self._client.start(CHAT, body, headers={"user-agent": "opencode/1.0"})

    def row(self, call: Call) -> Any:
        """What was written down of it, once the service has come to rest."""
        [row] = [each for each in self._store.outcomes if each.request_id == call.headers["x-request-id"]]
        return row

    async def until(self, is_so: Callable[[Sight], bool]) -> None:
        """What the watchdog sees has become so."""
        while not is_so(await self.service.context.watchdog.ask(Look)):
            await trio.sleep(0.001)

    async def rest(self) -> None:
        """Nothing of any request is left."""
        await self.until(_is_at_rest)


def _is_at_rest(sight: Sight) -> bool:
    is_held = sight.waiting or sight.running or sight.lane or (sight.memory is not None and sight.memory.reserved)
    return not is_held and set(sight.slots.values()) <= {"idle"}


@asynccontextmanager
async def open_real(checkpoint: Path, **settings: Any) -> AsyncIterator[Real]:
    slots = settings.get("parallel", 1)
    engine = load_engine(checkpoint, grid=GRID, drafter="lookup", parallel=slots, side_max_len=WINDOW, floor=0)
    assert len(engine.slots) == slots
    store, machine = MemoryStore(), Machine()
    async with open_host() as host:
        parts = Parts(
            engine=engine,
            host=host,
            store=store,
            blocking=Threads.with_limits(THREADS),
            wall=FixedWall(),
            available=machine.free,
            floor=GIB,
        )
        async with (
            open_service(Settings(side_lane_new_max=TINY, **settings), parts) as service,
            trio.open_nursery() as nursery,
        ):
            real = Real(service, engine, Client(create_app(service.context), nursery), store, machine)
            with trio.fail_after(30):
                yield real
                await real.rest()
            nursery.cancel_scope.cancel()


@pytest.fixture(scope="module")
def alone(checkpoint: Path) -> dict[str, str]:
    """What everybody is told who asks when nobody else does."""
    return trio.run(_said_alone, checkpoint)


async def _said_alone(checkpoint: Path) -> dict[str, str]:
    said = {}
    async with open_real(checkpoint, side_lane="off") as real:
        for who, tokens, more in (
            ("ann", LONG, {}),
            ("bob", SHORT, {}),
            ("bob", LONG, {}),
            ("cat", TINY, {"system": TITLE}),
        ):
            call = real.ask(who, tokens, **more)
            await call.finished.wait()
            assert call.finish == "length"
            said[f"{who} {tokens}"] = call.text
    return said


@pytest.mark.spec("SCH-110", "SCH-049", "SCH-064", "SCH-068")
async def test_two_sessions_and_a_title_wait_for_no_end(checkpoint: Path, alone: dict[str, str]) -> None:
    async with open_real(checkpoint, parallel=2) as real:
        ann = real.ask("ann", LONG)
        await ann.wait_for_piece(3)
        bob, cat = real.ask("bob", SHORT), real.ask("cat", TINY, system=TITLE)
        await bob.finished.wait()
        await cat.finished.wait()
        assert not ann.finished.is_set()
        await ann.finished.wait()
        await real.until(lambda sight: sight.turns is not None and 2 in sight.turns.rounds)  # told once a second
        assert [real.row(call).slot for call in (ann, bob, cat)] == [0, 1, 0]
        assert real.row(cat).lane in ("decode", "prefill")
        assert (ann.text, bob.text, cat.text) == (alone[f"ann {LONG}"], alone[f"bob {SHORT}"], alone[f"cat {TINY}"])


@pytest.mark.spec("SCH-110", "SCH-039", "SCH-046")
async def test_a_title_is_served_inside_an_answer(checkpoint: Path, alone: dict[str, str]) -> None:
    async with open_real(checkpoint) as real:
        ann = real.ask("ann", LONG)
        await ann.wait_for_piece(3)
        bob = real.ask("bob", LONG)
        cat = real.ask("cat", TINY, system=TITLE)
        await cat.finished.wait()
        assert not ann.finished.is_set()
        await ann.finished.wait()
        await bob.finished.wait()
        await real.rest()
        assert (real.row(cat).lane, real.row(ann).lane) == ("decode", None)
        texts = [ann.text, bob.text, cat.text]
        assert texts == [alone[f"ann {LONG}"], alone[f"bob {LONG}"], alone[f"cat {TINY}"]]


@pytest.mark.spec("SCH-110", "SCH-010", "SCH-077")
async def test_who_waits_runs_once_the_other_has_left(checkpoint: Path, alone: dict[str, str]) -> None:
    async with open_real(checkpoint, side_lane="off", max_queue=1) as real:
        ann = real.ask("ann", LONG)
        await ann.wait_for_piece(3)
        bob = real.ask("bob", SHORT)
        await real.until(lambda sight: sight.waiting == 1)
        cat = real.ask("cat", SHORT)
        await cat.finished.wait()
        assert (cat.status, cat.json["error"]["code"]) == (503, "queue_full")
        assert not ann.finished.is_set()
        ann.leave()
        await bob.finished.wait()
        assert bob.text == alone[f"bob {SHORT}"]
        assert real.row(ann).finish_reason == "abandoned"
        assert alone[f"ann {LONG}"].startswith(ann.text)


@pytest.mark.spec("SCH-110", "SCH-068", "SCH-077")
async def test_one_who_leaves_a_round_takes_nobody_with_it(checkpoint: Path, alone: dict[str, str]) -> None:
    async with open_real(checkpoint, parallel=2) as real:
        ann, bob = real.ask("ann", LONG), real.ask("bob", LONG)
        await ann.wait_for_piece(3)
        await bob.wait_for_piece(3)
        bob.leave()
        await bob.finished.wait()
        assert not ann.finished.is_set()
        await ann.finished.wait()
        assert ann.text == alone[f"ann {LONG}"]
        assert alone[f"bob {LONG}"].startswith(bob.text)


@pytest.mark.spec("SCH-110", "SCH-073", "SCH-074")
async def test_a_request_waits_for_memory_and_not_for_the_others_end(checkpoint: Path, alone: dict[str, str]) -> None:
    async with open_real(checkpoint, parallel=2) as real:
        real.machine.free_gib = 0.5
        ann = real.ask("ann", LONG)
        await ann.wait_for_piece(3)
        bob = real.ask("bob", SHORT)
        await real.until(lambda sight: sight.memory is not None and sight.memory.waits == 1)
        real.machine.free_gib = 2.0
        await bob.finished.wait()
        await ann.finished.wait()
        assert (ann.text, bob.text) == (alone[f"ann {LONG}"], alone[f"bob {SHORT}"])
        assert real.row(bob).wait_mem_ms > 0
        assert real.row(ann).wait_mem_ms is None


@pytest.mark.spec("SCH-110", "SCH-092", "SCH-093")
async def test_a_drain_lets_the_answer_end_and_refuses_who_waits(checkpoint: Path, alone: dict[str, str]) -> None:
    async with open_real(checkpoint, side_lane="off") as real:
        ann = real.ask("ann", LONG)
        await ann.wait_for_piece(3)
        bob = real.ask("bob", SHORT)
        await real.until(lambda sight: sight.waiting == 1)
        await drain(real.service.context)
        assert ann.finished.is_set()
        assert (ann.text, ann.finish) == (alone[f"ann {LONG}"], "length")
        assert (bob.status, bob.json["error"]["code"]) == (503, "draining")
