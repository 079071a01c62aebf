"""What is off or not used costs no bit: within one build to the byte, between builds by a record of numbers (ENG-072).

The record stands for the build without a feature that came later. It is compared within a bound, since the processor
that runs this need not be the one that made it; what a feature changes by mistake is far above that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tandem.engine.caches.settings import CacheSettings
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.lookups import NO_LOOKUPS
from tandem.engine.verbs import EMPTY_TREE
from tests.engine.caches.wired import MIB, ON
from tests.engine.decoding.drafters import Recording, Scripted
from tests.engine.decoding.engines import GRID, PROMPT, ids_of, read, rounds, tiny, tiny_engine
from tests.engine.decoding.recorded import NEAR, RECORD, Step, run, sketch, text_of

pytestmark = pytest.mark.usefixtures("kind")

VECTORS = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


@pytest.mark.skipif(not VECTORS, reason="without vector kernels torch draws other random weights")
@pytest.mark.spec("ENG-072")
def test_the_run_gives_what_was_recorded(kind: str) -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))[kind]
    engine = tiny_engine()
    assert text_of(engine) == record["text"]
    steps = run(engine, record["text"])
    assert list(steps) == list(record["steps"])
    for name, step in steps.items():
        assert agrees(step.logits, record["steps"][name]["logits"]), f"logits of {name}"
        assert agrees(step.state, record["steps"][name]["state"]), f"state after {name}"


def agrees(numbers: Tensor, recorded: list[float]) -> bool:
    return all(abs(one - other) <= NEAR * recorded[0] for one, other in zip(sketch(numbers), recorded, strict=True))


def everything(folder: Path) -> CacheSettings:
    return CacheSettings(guest_max=100, stash=MIB, park=MIB, store=8 * MIB, disk=ON, disk_folder=folder)


FEATURES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "resident prefix": lambda folder: {"resident": True, "end_anchor": True},
    "caches and gate": lambda folder: {"caches": everything(folder), "fingerprint": "0123456789abcdef" * 2},
    "silent drafter": lambda folder: {"drafter": Scripted(lambda ids, nodes, depth: EMPTY_TREE)},
    "drafter that reads": lambda folder: {"drafter": Recording()},
    "lookup": lambda folder: {"drafter": NO_LOOKUPS.drafter(())},
}


@pytest.mark.spec("ENG-072")
@pytest.mark.parametrize("feature", FEATURES)
def test_what_is_there_and_not_used_changes_no_byte(feature: str, tmp_path: Path) -> None:
    model = tiny().model
    bare = tiny_engine(model=model, resident=False, end_anchor=False, anchor_bytes=0)
    text = text_of(bare)
    wanted = run(bare, text)
    engine = tiny_engine(model=model, **FEATURES[feature](tmp_path))
    assert same(run(engine, text), wanted)
    engine.leave()


@pytest.mark.spec("ENG-072")
def test_what_was_used_before_changes_no_byte() -> None:
    """A question, a loan and a snapshot, all of another sequence."""
    model = tiny().model
    bare, engine = tiny_engine(model=model, resident=False), tiny_engine(model=model)
    text = text_of(bare)
    used(engine)
    assert same(run(engine, text), run(bare, text))


def used(engine: TorchEngine) -> None:
    seq = read(engine, ids_of(50, 3))
    point = engine.snapshot(seq)
    rounds(engine, seq, 2)
    engine.ask(seq, [3, 1], [5, 6])
    loan = engine.borrow(seq, 2 * GRID)
    rounds(engine, read(engine, PROMPT[:GRID]), 2)
    engine.give_back(loan)
    engine.restore(seq, point)
    engine.close(seq)


def same(one: Mapping[str, Step], other: Mapping[str, Step]) -> bool:
    return list(one) == list(other) and all(
        torch.equal(step.logits, other[name].logits) and torch.equal(step.state, other[name].state)
        for name, step in one.items()
    )
