"""The verbs are one Protocol: every engine has each of them, and one loop drives a Llama, a hybrid and the fake."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from tandem.engine.caches.caching import Caching
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Force, perform
from tandem.engine.drafting.tree import chain
from tandem.engine.errors import EngineError
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.warm import WarmFakeEngine
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import EMPTY_TREE, Engine, SamplingRules, Tree
from tests.engine.conformance.test_suite import IDS, load
from tests.engine.decoding.driving import prompt_of

GREEDY = SamplingRules()


def members(protocol: type) -> dict[str, Any]:
    return {name: member for name, member in vars(protocol).items() if not name.startswith("_")}


VERBS = {name for name, member in members(Engine).items() if inspect.isfunction(member)}


@pytest.mark.spec("ENG-182")
@pytest.mark.parametrize("engine", [TorchEngine, FakeEngine])
@pytest.mark.parametrize("protocol", [Engine, Caching])
def test_an_engine_has_each_verb_with_the_same_parameters(protocol: type, engine: type) -> None:
    for name, asked in members(protocol).items():
        given = inspect.getattr_static(engine, name)
        assert type(given) is type(asked), name
        if inspect.isfunction(given):
            assert not inspect.iscoroutinefunction(given)
            assert parameters(given) == parameters(asked), name


def parameters(verb: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(verb).parameters.values()]


@pytest.mark.spec("ENG-182")
def test_rules_are_one_value() -> None:
    with pytest.raises(FrozenInstanceError):
        GREEDY.temperature = 1.0  # type: ignore[misc]


class Watched:
    """An engine, and which of its verbs were called."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.called = set[str]()

    def __getattr__(self, name: str) -> Any:
        self.called |= {name} & VERBS
        return getattr(self._engine, name)


@pytest.mark.spec("ENG-182")
@pytest.mark.parametrize("kind", ["llama", "qwen3_5", "fake"])
def test_one_loop_drives_every_engine(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    fake = FakeEngine(grid=16)
    engine = Watched(fake if kind == "fake" else load(kind, tmp_path_factory))
    drive(engine, prompt_of(fake, {"say": "one two three four five"}) if kind == "fake" else Prompt.of_client(IDS))
    assert engine.called == VERBS


@pytest.mark.spec("ENG-182", "ENG-111", "MON-137", "ENG-040")
@pytest.mark.parametrize("kind", ["llama", "qwen3_5", "fake"])
def test_every_engine_knows_what_of_its_rows_no_client_has(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    fake = WarmFakeEngine(grid=16, max_len=256)
    engine: Any = fake if kind == "fake" else load(kind, tmp_path_factory)
    asked = prompt_of(fake, {"say": "one two three four five six seven"}) if kind == "fake" else Prompt.of_client(IDS)
    prompt, rows = replace(asked, session="mine"), len(asked.ids)
    seq = read(engine, prompt)
    start = engine.snapshot(seq)
    seen = [*round_of(engine, seq), *round_of(engine, seq)]
    engine.trim(seq, 0)  # an end token that is taken back
    perform(engine, seq, Force((7, 8, 9), visible=False, shown=1), GREEDY)
    dropped = [*round_of(engine, seq), *round_of(engine, seq)]
    perform(engine, seq, Force((3,), visible=False), GREEDY)
    perform(engine, seq, Force((6, 7), visible=False, dropped=2), GREEDY)
    perform(engine, seq, Force((5,), visible=True), GREEDY)
    with pytest.raises(EngineError):
        engine.force(seq, [5] * 256, hidden=True)
    with pytest.raises(EngineError):
        engine.ask(seq, [5] * 256, [1, 2])
    last = [*round_of(engine, seq), *round_of(engine, seq)]
    engine.close(seq)
    [written] = engine.written()
    assert written.keys == (*prompt.keys, *seen[:1], 7, 8, 9, *dropped, 3, 6, 7, 5, last[0])
    assert written.whose.hidden == ((rows + 1, rows + 3), (rows + 4, rows + 9))
    for forced in (False, True):
        engine.clear()
        seq = read(engine, prompt)
        if forced:
            engine.force(seq, [6, 7], hidden=True)
        engine.restore(seq, start)
        engine.close(seq)
        assert list(engine.written()) == [], "a snapshot does not say"


def drive(engine: Any, prompt: Prompt) -> None:
    """Each verb at least once; what comes after one that changes nothing is as before it."""
    seq = read(engine, prompt)
    start = engine.snapshot(seq)
    text = [*round_of(engine, seq), *round_of(engine, seq)]
    engine.restore(seq, start)
    assert [*round_of(engine, seq), *round_of(engine, seq)] == text
    engine.settle(seq)
    engine.restore(seq, start)
    assert round_of(engine, seq, chain(text[:1])) == tuple(text[:2])
    engine.trim(seq, 1)
    assert round_of(engine, seq) == (text[1],)
    engine.discard(seq)
    assert sum(engine.ask(seq, prompt.ids[:3], [5, 6])) == pytest.approx(1.0)
    loan = engine.borrow(seq, len(prompt.ids) + 8)
    round_of(engine, read(engine, prompt))
    engine.give_back(loan)
    assert round_of(engine, seq) == (text[1],)
    engine.force(seq, prompt.ids[:2])
    engine.synchronise()
    engine.close(seq)
    ids, rows = engine.resident()
    assert list(engine.written()) == [], "no session was named"
    assert tuple(ids[: len(prompt.ids)]) == prompt.ids
    assert rows == len(prompt.ids)
    assert engine.worst_case(len(prompt.ids), 10) >= 0
    engine.rebuild()
    assert engine.resident() == ((), 0)
    again = read(engine, prompt)
    assert [*round_of(engine, again), *round_of(engine, again)] == text
    engine.close(again)
    assert {"bytes_per_anchor", "bytes_per_snapshot", "bytes_per_token"} <= set(engine.cost())
    assert engine.state()["requests"] >= 1


def read(engine: Any, prompt: Prompt) -> Any:
    """Opened and read to the end, a chunk a verb."""
    seq, done = engine.open(prompt), 0
    while done < len(prompt.ids):
        done = engine.prefill(seq, len(prompt.ids)).done
    return seq


def round_of(engine: Any, seq: Any, tree: Tree = EMPTY_TREE) -> tuple[int, ...]:
    """A draft of one token is none."""
    tree = tree if tree.tokens else engine.draft(seq, 1)
    [rows] = engine.verify([(seq, tree)])
    ids: tuple[int, ...] = engine.accept(seq, rows, GREEDY).ids
    return ids
