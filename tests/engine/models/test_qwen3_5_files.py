"""A Qwen3.5 checkpoint on disk, laid out as the released ones are, becomes an engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.hf_config import read_config
from tandem.engine.errors import CheckpointError
from tandem.engine.load import load_engine
from tandem.engine.models.formats import CPU_WEIGHTS, CpuWeights
from tandem.engine.text.model import Conversation
from tandem.engine.tiny.qwen3_5 import build_qwen3_5, qwen3_5_config
from tests.engine.decoding.engines import read, rounds
from tests.engine.models.hybrid import hybrid_config, hybrid_oracle, hybrid_tensors


@pytest.mark.spec("ENG-001", "ENG-002")
def test_the_config_is_the_same_alone_and_nested(tmp_path: Path) -> None:
    raw = qwen3_5_config(400, tied=True)
    alone = config_of(tmp_path / "alone", {"architectures": ["Qwen3_5ForCausalLM"], **raw["text_config"]})
    nested = config_of(tmp_path / "nested", raw)
    assert (nested.architecture, nested.layer_types) == ("qwen3_5", ("linear_attention",) * 3 + ("full_attention",))
    assert (nested.partial_rotary_factor, nested.mrope_section, nested.mrope_interleaved) == (0.25, (2, 1, 1), True)
    assert nested.tie_word_embeddings
    for name in alone.__dataclass_fields__:
        assert name == "name" or getattr(alone, name) == getattr(nested, name), name


@pytest.mark.spec("ENG-001")
def test_what_a_config_leaves_out_has_the_architectures_default(tmp_path: Path) -> None:
    raw = qwen3_5_config(400, num_hidden_layers=8)
    for name in ("full_attention_interval", "layer_types", "rope_parameters"):
        del raw["text_config"][name]
    config = config_of(tmp_path / "tiny", raw)
    assert [at for at, kind in enumerate(config.layer_types) if kind == "full_attention"] == [3, 7]
    assert (config.partial_rotary_factor, config.attn_output_gate) == (0.25, True)


def config_of(directory: Path, raw: dict[str, Any]) -> ModelConfig:
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    return read_config(directory)


@pytest.mark.spec("ENG-006", "ENG-014", "ENG-019", "ENG-167")
@pytest.mark.parametrize("tied", [True, False])
def test_a_directory_becomes_an_engine_that_says_what_the_reference_says(tmp_path: Path, tied: bool) -> None:
    calls: list[tuple[int, int]] = []
    path = build_qwen3_5(tmp_path / "tiny", tied=tied, max_position_embeddings=512)
    engine = load_engine(path, cpu_weights="fp32", progress=lambda done, total: calls.append((done, total)))
    card, report = engine.card, engine.card.weights
    assert (card.architecture, card.max_len, card.anchor_grid) == ("qwen3_5", 512, 1024)
    assert card.sampling == {"temperature": 1.0, "top_k": 20, "top_p": 0.95}
    assert calls[-1] == (calls[-1][1],) * 2
    assert report["template_lacks"] == []
    loaded = report["loaded_bytes"]
    assert isinstance(loaded, dict)
    assert loaded == engine._model.nbytes
    config = hybrid_config(card.vocab_size, tied=tied)
    prompt = engine.text.encode("the quick brown fox jumps over the lazy dog")
    with torch.inference_mode():
        text = hybrid_oracle(config, hybrid_tensors(config)).generate(
            torch.tensor([prompt]), max_new_tokens=24, do_sample=False, eos_token_id=None
        )
    assert rounds(engine, read(engine, prompt), 24) == text[0, len(prompt) :].tolist()


@pytest.mark.spec("ENG-016")
@pytest.mark.parametrize("kind", [None, *CPU_WEIGHTS])
def test_a_bf16_checkpoint_is_served_in_every_kind_of_cpu_weights(tmp_path: Path, kind: CpuWeights | None) -> None:
    path = build_qwen3_5(tmp_path / "tiny", hidden_size=128)
    engine = load_engine(path, cpu_weights=kind)
    assert engine.card.weights["dtype"] == kind or kind is None
    assert engine.card.weights["self_check"] == "ok"
    assert len(rounds(engine, read(engine, engine.text.encode("a server reads")), 4)) == 4


@pytest.mark.spec("ENG-013", "ENG-185")
def test_its_template_opens_the_thinking_block_and_carries_tools(tmp_path: Path) -> None:
    text = load_engine(build_qwen3_5(tmp_path / "tiny")).text
    turns = [{"role": "user", "content": "hi"}]
    assert text.render(Conversation(messages=turns)).thinking == "open"
    off: dict[str, Any] = {"enable_thinking": False}
    assert text.render(Conversation(messages=turns, template_kwargs=off)).thinking == "off"
    assert text.markers.keys() >= {"<think>", "</think>", "<tool_call>", "</tool_call>"}


@pytest.mark.spec("ENG-020")
def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    path = build_qwen3_5(tmp_path / "tiny", layer_types=["linear_attention"] * 4, shards=1)
    other = build_qwen3_5(tmp_path / "other", layer_types=["full_attention"] * 4, shards=1)
    (other / "model.safetensors").replace(path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"layers\.0\.linear_attn"):
        load_engine(path)
