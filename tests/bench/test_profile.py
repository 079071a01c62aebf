"""Where a token's time goes: groups of calls, and the floor."""

from __future__ import annotations

import pytest
import torch

from tandem.bench.ops import OpTimer, group_of
from tandem.bench.profile import Floor, bytes_read


@pytest.mark.parametrize(
    ("op", "callers", "group"),
    [
        ("linear", [("matrix", "__call__"), ("model", "forward")], "layer matmuls"),
        ("linear", [("matrix", "__call__"), ("model", "logits")], "head matmul"),
        ("_weight_int8pack_mm", [("matrix", "__call__")], "layer matmuls"),
        ("_weight_int4pack_mm_for_cpu", [("matrix", "__call__"), ("model", "logits")], "head matmul"),
        ("qlinear_pointwise.default", [("digits", "_product"), ("model", "logits")], "head matmul"),
        ("exp", [("delta", "delta_steps"), ("model", "_attend")], "recurrence"),
        ("scaled_dot_product_attention", [("model", "_attend")], "attention"),
        ("rms_norm", [("model", "_rms")], "norms"),
        ("cat", [("rotary", "rotate"), ("model", "_attention")], "rotary"),
        ("to", [("packed", "__call__"), ("model", "_mlp")], "casts"),
        ("mv", [("matrix", "__call__")], "layer matmuls"),
        ("__setitem__", [("kv", "put")], "KV cache"),
        ("max", [("sampler", "_highest"), ("torch_engine", "accept")], "sampler"),
        ("silu", [("model", "_mlp")], "other"),
        ("silu", [], "other"),
    ],
)
def test_groups(op: str, callers: list[tuple[str, str]], group: str) -> None:
    assert group_of(op, callers) == group


def test_the_timer_counts_calls_and_only_while_entered() -> None:
    x = torch.ones(4, 4)
    timer = OpTimer()
    with timer:
        y = torch.nn.functional.linear(x, x)
        torch.nn.functional.rms_norm(y, (4,))
    torch.nn.functional.linear(x, x)
    assert timer.calls == {"layer matmuls": 1, "norms": 1}
    assert timer.seconds.keys() == timer.calls.keys()
    assert all(seconds > 0 for seconds in timer.seconds.values())


def test_bytes_read() -> None:
    assert bytes_read({"embedding": 100, "attention": 10, "mlp": 20, "norms": 1, "head": 0}) == 131
    assert bytes_read({"embedding": 100, "attention": 10, "mlp": 20, "norms": 1, "head": 50, "copies": 90}) == 81


def test_floor() -> None:
    assert Floor(weight_bytes=150, cache_bytes=50, bytes_per_s=100.0).seconds == 2.0
