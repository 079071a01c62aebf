"""The Qwen3.5 decoder against `transformers` on random tiny models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tandem.engine.errors import CheckpointError
from tandem.engine.models.formats import CPU_WEIGHTS, CpuWeights
from tandem.engine.models.qwen3_5 import Qwen35Model, load_qwen3_5
from tandem.engine.models.state import State
from tests.engine.models.hybrid import hybrid_config, hybrid_oracle, hybrid_spec, hybrid_tensors, tiny_hybrid
from tests.engine.models.memory import VOCAB, MemoryWeights, quiet

VARIANTS: dict[str, dict[str, Any]] = {
    "tied": {},
    "separate head": {"tied": False},
    "as many key heads": {"linear_num_key_heads": 4},
    "wide heads": {"linear_key_head_dim": 32, "linear_value_head_dim": 24, "head_dim": 32, "num_key_value_heads": 1},
    "attention first": {"layer_types": ["full_attention", "linear_attention"] * 2},
    "attention alone": {"layer_types": ["full_attention"] * 4},
    "narrow convolution": {"linear_conv_kernel_dim": 2, "rms_norm_eps": 1e-5},
    "whole heads turned": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 1.0}
    },
}
LOGITS_ATOL = 1e-4


def prompts(count: int, length: int, seed: int = 7) -> Tensor:
    return torch.randint(VOCAB, (count, length), generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def greedy(model: Qwen35Model, prompt: Tensor, count: int) -> list[int]:
    """Greedy ids of our layers alone: one prefill, then a row at a time."""
    state, at, out = model.new_state(len(prompt) + count), len(prompt), []
    hidden = model.forward(prompt, 0, state)
    for _ in range(count):
        out.append(int(model.logits(hidden[-1:]).argmax()))
        hidden, at = model.forward(torch.tensor(out[-1:]), at, state), at + 1
    return out


def logits_of(model: Qwen35Model, prompt: Tensor) -> Tensor:
    return model.logits(model.forward(prompt, 0, model.new_state(len(prompt))))


@pytest.mark.spec("ENG-006", "ENG-007", "ENG-008")
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_logits_equal_the_references(variant: dict[str, Any]) -> None:
    tiny = tiny_hybrid(3, **variant)
    oracle = hybrid_oracle(tiny.config, tiny.tensors)
    with torch.inference_mode():
        for batch in (prompts(20, 37), prompts(3, 150, 8)):
            for prompt, expected in zip(batch, oracle(batch).logits, strict=True):
                assert (logits_of(tiny.model, prompt) - expected).abs().max() < LOGITS_ATOL


@pytest.mark.spec("ENG-006", "ENG-007", "ENG-008")
@pytest.mark.parametrize("name", ["tied", "wide heads"])
def test_greedy_text_equals_the_references(name: str) -> None:
    tiny = tiny_hybrid(5, **VARIANTS[name])
    oracle = hybrid_oracle(tiny.config, tiny.tensors)
    batch = prompts(20, 37)
    with torch.inference_mode():
        texts = oracle.generate(
            batch, attention_mask=torch.ones_like(batch), max_new_tokens=64, do_sample=False, eos_token_id=None
        )
    for prompt, text in zip(batch, texts, strict=True):
        assert greedy(tiny.model, prompt, 64) == text[37:].tolist()


@pytest.mark.spec("ENG-007", "ENG-035")
def test_chunks_give_the_state_and_the_logits_of_one_pass_and_of_single_rows() -> None:
    tiny = tiny_hybrid(1)
    [prompt] = prompts(1, 150)
    with torch.inference_mode():
        state = tiny.model.new_state(150)
        whole = tiny.model.forward(prompt, 0, state)
        for size in (1, 7, 32, 100):
            other, at, parts = tiny.model.new_state(150), 0, []
            for part in prompt.split(size):
                parts.append(tiny.model.forward(part, at, other))
                at += len(part)
            assert (torch.cat(parts) - whole).abs().max() < 1e-4
            assert other.keep().row == state.keep().row == 150
            for one, two in zip(other.keep().layers, state.keep().layers, strict=True):
                for a, b in zip(one, two, strict=True):
                    assert (a - b).norm() <= 1e-4 * b.norm()


def test_a_forward_goes_on_where_the_recurrent_part_stands_and_nowhere_else() -> None:
    model = tiny_hybrid().model
    [prompt] = prompts(1, 20)
    state = model.new_state(64)
    with torch.inference_mode():
        model.forward(prompt, 0, state)
        with pytest.raises(RuntimeError, match="row 20, not at 12"):
            model.forward(prompt, 12, state)
    with pytest.raises(RuntimeError, match="row 20, not at 0"):
        state.copy(0)


@pytest.mark.spec("ENG-083")
def test_a_copy_of_a_state_goes_on_bit_for_bit_in_any_state_of_the_model() -> None:
    model = tiny_hybrid().model
    [prompt] = prompts(1, 40)
    with torch.inference_mode():
        state, other = model.new_state(64), model.new_state(64)
        model.forward(prompt[:30], 0, state)
        copy = state.copy(30)
        wanted = model.forward(prompt[30:], 30, state)
        model.forward(prompt.flip(0), 0, other)
        for each in (state, other):
            each.load(copy)
            assert torch.equal(model.forward(prompt[30:], 30, each), wanted)


@pytest.mark.spec("ENG-043")
def test_a_forward_that_fails_leaves_the_recurrent_part_where_it_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_hybrid().model
    [prompt] = prompts(1, 40)
    state = model.new_state(64)
    with torch.inference_mode():
        model.forward(prompt[:30], 0, state)
        stood, kept = state.keep(), [tensor.clone() for layer in state.keep().layers for tensor in layer]
        with monkeypatch.context() as patch:
            patch.setattr(model._layers[-1].mixer.out, "_weight", torch.zeros(1, 1))
            with pytest.raises(RuntimeError):
                model.forward(prompt[30:], 30, state)
    assert state.keep() is stood
    assert all(
        torch.equal(one, other)
        for one, other in zip([each for layer in stood.layers for each in layer], kept, strict=True)
    )


@pytest.mark.spec("ENG-033", "ENG-133")
def test_a_state_takes_the_bytes_that_its_sizes_say() -> None:
    tiny = tiny_hybrid()
    state = tiny.model.new_state(48)
    assert state.kv.keys.shape == (1, 2, 48, 32), "one layer of four has rows"
    assert state.bytes_per_token == 2 * 1 * 2 * 32 * 4
    assert state.bytes_per_anchor == 3 * 4 * (4 * 16 * 16 + 3 * (2 * 2 * 16 + 4 * 16))
    assert State.bytes_for(tiny.model.config, 48) == state.kv.nbytes + 2 * state.bytes_per_anchor


@pytest.mark.spec("ENG-006")
def test_the_27b_by_its_config_alone() -> None:
    """Its sizes, and what the spec says a token and an anchor of it take."""
    config = hybrid_config(
        248320,
        tied=False,
        hidden_size=5120,
        intermediate_size=17408,
        num_hidden_layers=64,
        num_attention_heads=24,
        num_key_value_heads=4,
        head_dim=256,
        linear_num_key_heads=16,
        linear_num_value_heads=48,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        max_position_embeddings=262144,
    )
    spec = hybrid_spec(config)
    assert [at for at, kind in enumerate(spec.layer_types) if kind == "full_attention"] == list(range(3, 64, 4))
    one = hybrid_spec(config | {"num_hidden_layers": 1, "layer_types": ["linear_attention"]})
    assert State.bytes_for(one, 0) == 2 * (48 * 128 * 128 * 4 + 3 * 10240 * 4)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"linear_num_key_heads": 3}, "linear_num_key_heads"),
        ({"linear_key_head_dim": 0}, "linear_key_head_dim"),
        ({"attn_output_gate": False}, "output gate"),
        ({"attention_bias": True}, "bias"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.2}}, "cannot be turned"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "yarn"),
        ({"layer_types": ["full_attention"] * 3}, "3 layers of 4"),
        ({"layer_types": ["sliding_attention"] * 4}, "sliding_attention"),
    ],
)
def test_what_is_not_served_is_named(overrides: dict[str, Any], message: str) -> None:
    config = hybrid_config() | overrides
    canonical = {name.removeprefix("model."): tensor for name, tensor in hybrid_tensors(hybrid_config()).items()}
    with pytest.raises(CheckpointError, match=message):
        load_qwen3_5(hybrid_spec(config), MemoryWeights(canonical), quiet)


@pytest.mark.parametrize("tied", [True, False])
def test_progress_counts_every_tensor_once(tied: bool) -> None:
    config = hybrid_config(tied=tied)
    canonical = {name.removeprefix("model."): tensor for name, tensor in hybrid_tensors(config).items()}
    calls: list[tuple[int, int]] = []
    load_qwen3_5(hybrid_spec(config), MemoryWeights(canonical), lambda *call: calls.append(call))
    assert calls == [(done, len(canonical)) for done in range(1, len(canonical) + 1)]


AGREE: dict[CpuWeights, float] = {"fp32": 1e-4, "bf16": 0.1, "int8": 0.15, "int4": 0.15}
"""How far logits of one prefill and of single rows may lie apart, as a share of the logits' standard deviation."""


@pytest.mark.spec("ENG-016", "ENG-028")
@pytest.mark.parametrize("kind", CPU_WEIGHTS)
def test_every_kind_of_cpu_weights_serves(kind: CpuWeights) -> None:
    tiny = tiny_hybrid(2, cpu_weights=kind, hidden_size=128, intermediate_size=128, linear_value_head_dim=32)
    [prompt] = prompts(1, 40)
    reference = tiny_hybrid(2, hidden_size=128, intermediate_size=128, linear_value_head_dim=32).model
    with torch.inference_mode():
        whole, state = logits_of(tiny.model, prompt), tiny.model.new_state(40)
        rows = [tiny.model.forward(one, at, state) for at, one in enumerate(prompt.split(1))]
        assert (whole - tiny.model.logits(torch.cat(rows))).abs().max() <= AGREE[kind] * whole.std()
        exact = logits_of(reference, prompt)
        assert (whole - exact).pow(2).mean().sqrt() < (0.5 if kind == "int4" else 0.1) * exact.std()
    assert sum(tiny.model.formats.values()) == 3 * 5 + 4 + 1, "the gates' matrix of a recurrent layer is apart"
