"""Safetensors directories: names, shapes, shards, errors that name the tensor."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tandem.engine.checkpoints.layout import DECODER, Layout
from tandem.engine.checkpoints.safetensors import SafetensorsWeights
from tandem.engine.errors import CheckpointError
from tests.tiny import build_llama, llama_config, llama_tensors

HIDDEN = 64


def tensors_of(directory: Path) -> dict[str, torch.Tensor]:
    weights = SafetensorsWeights(directory)
    return {name: weights.tensor(name, weights.stored()[name].shape) for name in weights.names()}


@pytest.fixture
def single(tmp_path: Path) -> Path:
    return build_llama(tmp_path / "single", tied=False)


@pytest.mark.spec("ENG-019")
@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("model.embed_tokens.weight", "embed_tokens.weight"),
        ("model.layers.3.self_attn.q_proj.weight", "layers.3.self_attn.q_proj.weight"),
        ("model.language_model.layers.0.mlp.up_proj.weight", "layers.0.mlp.up_proj.weight"),
        ("language_model.model.norm.weight", "norm.weight"),
        ("language_model.lm_head.weight", "lm_head.weight"),
        ("lm_head.weight", "lm_head.weight"),
        ("model.visual.blocks.0.attn.qkv.weight", None),
        ("mtp.layers.0.mlp.up_proj.weight", None),
        ("model.layers.0.self_attn.rotary_emb.inv_freq", None),
    ],
)
def test_layout(name: str, canonical: str | None) -> None:
    assert DECODER.canonical(name) == canonical


@pytest.mark.spec("ENG-019")
def test_only_the_first_matching_wrapper_is_stripped() -> None:
    assert Layout(wrappers=("a.", "b.")).canonical("a.b.c") == "b.c"


@pytest.mark.spec("ENG-020")
def test_shards_hold_the_same_tensors_as_one_file(single: Path, tmp_path: Path) -> None:
    sharded = build_llama(tmp_path / "sharded", tied=False, shards=3)
    one, many = tensors_of(single), tensors_of(sharded)
    assert one.keys() == many.keys()
    assert all(torch.equal(one[name], many[name]) for name in one)
    config = llama_config(one["embed_tokens.weight"].shape[0], tied=False)
    for name, tensor in llama_tensors(config).items():
        assert torch.equal(one[name.removeprefix("model.")], tensor)


def test_bf16_comes_back_bit_for_bit(tmp_path: Path) -> None:
    directory = build_llama(tmp_path, dtype=torch.bfloat16)
    weights = SafetensorsWeights(directory)
    sent = load_file(directory / "model.safetensors")["model.norm.weight"]
    assert torch.equal(weights.tensor("norm.weight", (HIDDEN,), torch.bfloat16), sent)
    assert torch.equal(weights.tensor("norm.weight", (HIDDEN,)), sent.float())


@pytest.mark.spec("ENG-020")
def test_a_missing_tensor_is_named(single: Path) -> None:
    tensors = load_file(single / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, single / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"layers\.1\.mlp\.up_proj\.weight is missing"):
        SafetensorsWeights(single).tensor("layers.1.mlp.up_proj.weight", (96, HIDDEN))


@pytest.mark.spec("ENG-020")
def test_a_wrong_shape_is_named(single: Path) -> None:
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight has shape \[64\], the config asks for \[32\]"):
        SafetensorsWeights(single).tensor("norm.weight", (32,))


@pytest.mark.spec("ENG-020")
def test_a_tensor_in_two_shards_is_named(tmp_path: Path) -> None:
    sharded = build_llama(tmp_path, shards=2)
    second = sharded / "model-00002-of-00002.safetensors"
    save_file(load_file(second) | {"model.norm.weight": torch.ones(HIDDEN)}, second)
    first = sharded / "model-00001-of-00002.safetensors"
    save_file(load_file(first) | {"model.norm.weight": torch.ones(HIDDEN)}, first)
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight .* is defined twice"):
        SafetensorsWeights(sharded)


@pytest.mark.spec("ENG-020")
def test_a_tensor_under_two_prefixes_is_named(single: Path) -> None:
    path = single / "model.safetensors"
    save_file(load_file(path) | {"model.language_model.norm.weight": torch.ones(HIDDEN)}, path)
    with pytest.raises(CheckpointError, match=r"norm\.weight .* is defined twice"):
        SafetensorsWeights(single)


@pytest.mark.spec("ENG-020")
def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    sharded = build_llama(tmp_path, shards=2)
    (sharded / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00002.safetensors: the index names this file"):
        SafetensorsWeights(sharded)


def test_an_index_that_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}}))
    with pytest.raises(CheckpointError, match=r"has no weight_map"):
        SafetensorsWeights(tmp_path)


def test_a_directory_without_weights(single: Path) -> None:
    (single / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"has neither model.safetensors nor"):
        SafetensorsWeights(single)


def test_a_file_cut_short(single: Path) -> None:
    path = single / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"cannot be read as safetensors"):
        SafetensorsWeights(single)


def test_an_element_type_that_is_not_served(single: Path) -> None:
    path = single / "model.safetensors"
    save_file(load_file(path) | {"model.norm.weight": torch.ones(HIDDEN, dtype=torch.float8_e4m3fn)}, path)
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight is F8_E4M3; served are F32, F16, BF16"):
        SafetensorsWeights(single)


def test_reading_needs_no_index_beside_one_file(single: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.copy(single / "model.safetensors", moved)
    assert tensors_of(moved).keys() == tensors_of(single).keys()
