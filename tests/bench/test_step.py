"""The bench of whole passes runs: its random weights load as a checkpoint's do, and its table adds up."""

from __future__ import annotations

import pytest
import torch

from bench.kernels import SMALL
from bench.step import RandomWeights, config_of, measure, table
from tandem.engine.models.placement import CPU
from tandem.engine.models.qwen3_5 import load_qwen3_5_device


@pytest.mark.parametrize("codes", ["nvfp4", "fp8"])
def test_a_small_model_goes_through_every_pass(codes: str) -> None:
    config = config_of(SMALL, 64)
    weights = RandomWeights(config, codes, torch.device("cpu"))
    model = load_qwen3_5_device(config, weights, lambda done, total: None, CPU)
    assert model.formats == {codes: 16, "fp32": 3, "fp8-rows": 1}
    timed = measure(model, (40,), (4,), 64, steps=1)
    assert [(each.what, each.context) for each in timed] == [("step, rows 1", 40), ("verify, rows 4", 40)]
    report = table(timed, model, codes, 1e9, "here")
    assert len(report.rows) == 2
    state = model.new_state(8)
    with torch.inference_mode():
        logits = model.logits(model.forward(torch.arange(8), 0, state))
    assert logits.isfinite().all()
    assert 0.01 < logits.std() < 100
