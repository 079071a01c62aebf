"""Two slots over the embedded model in its own 4 bits: each text is its text alone, up to near ties (section 16)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.bench.judge import Run, Step, judge
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.tree import cut, share
from tandem.engine.load import load_engine
from tandem.engine.verbs import Accepted, SamplingRules
from tests.engine.decoding.engines import read

COUNT = 12
RULES = SamplingRules(logprobs=2)
REPEATING = "one two three four five, one two three four five, one two three four"
"""A lookup drafts here."""


def steps_of(accepted: Accepted) -> list[Step]:
    told = []
    for each in accepted.logprobs:
        (best, ahead), (second, behind) = each.top
        told.append(Step(each.token, second if each.token == best else best, ahead - behind))
    return told


def write(engine: TorchEngine, prompts: list[str]) -> list[Run]:
    """Each prompt on a slot of its own, in lockstep."""
    slots = engine.slots[: len(prompts)]
    seqs = [read(slot, engine.text.encode(prompt)) for slot, prompt in zip(slots, prompts, strict=True)]
    steps: list[list[Step]] = [[] for _ in prompts]
    while busy := [at for at in range(len(prompts)) if len(steps[at]) < COUNT]:
        trees = [slots[at].draft(seqs[at], COUNT - len(steps[at])) for at in busy]
        pairs = [(seqs[at], cut(tree, share(len(busy)))) for at, tree in zip(busy, trees, strict=True)]
        for at, rows in zip(busy, engine.verify(pairs), strict=True):
            steps[at] += steps_of(slots[at].accept(seqs[at], rows, RULES))
    for slot, seq in zip(slots, seqs, strict=True):
        slot.close(seq)
    return [Run.of(each[:COUNT], engine.text.end_ids) for each in steps]


@pytest.mark.slow
@pytest.mark.spec("ENG-162", "ENG-163", "SCH-069")
def test_each_text_is_its_text_alone(embedded_path: Path) -> None:
    engine = load_engine(embedded_path, max_len=128, drafter="lookup", parallel=2, side_max_len=128, floor=0)
    assert len(engine.slots) == 2
    prompts = ["The capital of France is", REPEATING]
    joint = write(engine, prompts)
    assert engine.state()["joint_passes"] > 5
    for run, prompt in zip(joint, prompts, strict=True):
        [plain] = write(engine, [prompt])
        verdict = judge(run, plain)
        assert not verdict.is_defect, verdict.fork
