"""The Llama decoder against `transformers` on random tiny models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tandem.engine.errors import CheckpointError
from tandem.engine.models.llama import load_llama
from tests.engine.models.memory import VOCAB, MemoryWeights, oracle_of, quiet, tiny_llama, tiny_spec
from tests.tiny import llama_config, llama_tensors

VARIANTS: dict[str, dict[str, Any]] = {
    "tied": {},
    "separate head": {"tied": False},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "no groups": {"num_key_value_heads": 4},
    "one kv head": {"num_key_value_heads": 1},
    "wide heads": {"head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": 500000.0},
    "linear rope": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "llama3 rope": {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
}
LOGITS_ATOL = 1e-4


def prompts(count: int, length: int, seed: int = 7) -> Tensor:
    return torch.randint(VOCAB, (count, length), generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def greedy(model: Any, prompt: Tensor, count: int) -> list[int]:
    """Greedy ids of our layers alone: one prefill, then a row at a time."""
    cache = model.new_state(prompt.shape[0] + count)
    hidden, at, out = model.forward(prompt, 0, cache), prompt.shape[0], []
    for _ in range(count):
        out.append(int(model.logits(hidden[-1:]).argmax()))
        hidden, at = model.forward(torch.tensor(out[-1:]), at, cache), at + 1
    return out


@pytest.mark.spec("ENG-005")
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_logits_and_greedy_text_equal_the_reference(variant: dict[str, Any]) -> None:
    tiny = tiny_llama(3, **variant)
    oracle = oracle_of(tiny.config, tiny.tensors)
    batch = prompts(20, 37)
    with torch.inference_mode():
        theirs = oracle(batch).logits
        for prompt, expected in zip(batch, theirs, strict=True):
            ours = tiny.model.logits(tiny.model.forward(prompt, 0, tiny.model.new_state(64)))
            assert (ours - expected).abs().max() < LOGITS_ATOL
        texts = oracle.generate(
            batch,
            attention_mask=torch.ones_like(batch),
            max_new_tokens=64,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    for prompt, text in zip(batch, texts, strict=True):
        assert greedy(tiny.model, prompt, 64) == text[37:].tolist()


@pytest.mark.spec("ENG-035")
def test_chunks_give_the_logits_of_one_pass_and_of_single_rows() -> None:
    tiny = tiny_llama(1)
    [prompt] = prompts(1, 50)
    with torch.inference_mode():
        whole = tiny.model.forward(prompt, 0, tiny.model.new_state(64))
        for size in (1, 7, 32):
            cache = tiny.model.new_state(64)
            parts = [tiny.model.forward(part, at * size, cache) for at, part in enumerate(prompt.split(size))]
            assert (torch.cat(parts) - whole).abs().max() < 1e-4


@pytest.mark.spec("ENG-011")
@pytest.mark.parametrize("tied", [True, False])
def test_head_gives_fp32_logits_at_every_row_count(tied: bool) -> None:
    tiny = tiny_llama(2, tied=tied)
    weight = tiny.tensors["model.embed_tokens.weight" if tied else "lm_head.weight"]
    hidden = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))
    for rows in (1, 2, 3, 8, 32):
        logits = tiny.model.logits(hidden[:rows])
        assert logits.shape == (rows, VOCAB)
        assert logits.dtype == torch.float32
        assert torch.allclose(logits, hidden[:rows] @ weight.T, atol=1e-5)


@pytest.mark.spec("ENG-011")
def test_a_checkpoint_without_a_head_is_refused_unless_tied() -> None:
    config = llama_config(VOCAB, tied=True)
    canonical = {name.removeprefix("model."): tensor for name, tensor in llama_tensors(config).items()}
    load_llama(tiny_spec(config), MemoryWeights(canonical), quiet)
    with pytest.raises(CheckpointError, match=r"lm_head\.weight"):
        load_llama(tiny_spec(config | {"tie_word_embeddings": False}), MemoryWeights(canonical), quiet)


@pytest.mark.spec("ENG-033")
def test_cache_holds_the_full_window() -> None:
    cache = tiny_llama().model.new_state(48).kv
    assert cache.keys.shape == cache.values.shape == (2, 2, 48, 16)
    assert cache.bytes_per_token == 2 * 2 * 2 * 16 * 4
    assert cache.nbytes == 48 * cache.bytes_per_token


def test_copied_rows_come_back() -> None:
    cache = tiny_llama().model.new_state(8).kv
    cache.keys.normal_()
    cache.values.normal_()
    kept = cache.keys.clone()
    rows = cache.copy(5)
    cache.keys.zero_()
    cache.load(rows)
    assert torch.equal(cache.keys[:, :, :5], kept[:, :, :5])
    assert not cache.keys[:, :, 5:].any()


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ({"rope_type": "yarn", "factor": 2.0}, "yarn"),
        ({"rope_type": "linear"}, "factor"),
        ({"type": "llama3", "factor": 8.0}, "original_max_position_embeddings"),
    ],
)
def test_unusable_rope_scaling_is_named(scaling: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        tiny_llama(rope_scaling=scaling)


def test_heads_that_do_not_group_are_refused() -> None:
    with pytest.raises(CheckpointError, match="num_key_value_heads"):
        tiny_llama(num_key_value_heads=3)


@pytest.mark.parametrize("overrides", [{}, {"tied": False, "attention_bias": True, "mlp_bias": True}])
def test_progress_counts_every_tensor_once(overrides: dict[str, Any]) -> None:
    config = llama_config(VOCAB, **overrides)
    canonical = {name.removeprefix("model."): tensor for name, tensor in llama_tensors(config).items()}
    calls: list[tuple[int, int]] = []
    load_llama(tiny_spec(config), MemoryWeights(canonical), lambda *call: calls.append(call))
    assert calls == [(done, len(canonical)) for done in range(1, len(canonical) + 1)]
