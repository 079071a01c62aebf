"""Slots whose drafters run a layer of the checkpoint: each has rows of its own over weights in common (ENG-160)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tandem.engine.drafting.mtp import MtpDrafter
from tandem.engine.verbs import SamplingRules
from tests.engine.decoding.engines import KIND, tiny_engine
from tests.engine.decoding.slotted import PROMPTS, Asked, together
from tests.engine.models.mtp import TinyMtp, copying, tiny_mtp


@pytest.fixture(autouse=True, scope="module")
def hybrid() -> Iterator[None]:
    token = KIND.set("qwen3_5")
    yield
    KIND.reset(token)


@pytest.mark.spec("ENG-160", "ENG-162")
@pytest.mark.parametrize("make", [tiny_mtp, copying])
def test_each_drafts_and_writes_what_it_does_alone(make: Callable[[int], TinyMtp]) -> None:
    tiny = make(1)
    rules = [SamplingRules(), SamplingRules(temperature=0.8, seed=11)]
    requests = [Asked(prompt, each) for prompt, each in zip(PROMPTS, rules, strict=False)]
    engine = tiny_engine(model=tiny.model, drafter=MtpDrafter(tiny.layer, 256))
    engine.add_side(200, MtpDrafter(tiny.layer, 200))
    together(engine, requests)
    for asked in requests:
        single = Asked(asked.prompt, asked.rules)
        together(tiny_engine(model=tiny.model, drafter=MtpDrafter(tiny.layer, 256)), [single])
        assert asked.written[:16] == single.written[:16]
        assert [each.drafted for each in asked.rounds] == [each.drafted for each in single.rounds]
    assert engine.state()["joint_passes"] > 0
