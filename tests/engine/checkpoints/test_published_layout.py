"""A checkpoint laid out like the published 27B one in FP8: names, shards, index, scales, tower and drafting layer.

Its tensors are holes in sparse files, so that 28 GB of them take no room; nothing but headers is read of most.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from tandem.engine.checkpoints.fp8 import Fp8Blocks, block_scales_shape
from tandem.engine.checkpoints.layout import decoder_layout
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.checkpoints.safetensors import FP8, SafetensorsWeights
from tandem.engine.errors import CheckpointError
from tandem.engine.load import load_engine
from tandem.engine.room import Budgets
from tandem.engine.tiny.qwen3_5 import build_qwen3_5, qwen3_5_config, qwen3_5_tensors

Shapes = dict[str, tuple[str, tuple[int, ...]]]
"""Element type and shape by name."""

TEXT: dict[str, Any] = {
    "vocab_size": 248_320,
    "hidden_size": 5120,
    "intermediate_size": 17_408,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "max_position_embeddings": 262_144,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10_000_000,
        "partial_rotary_factor": 0.25,
        "mrope_interleaved": True,
        "mrope_section": [11, 11, 10],
    },
}
VISION = {"depth": 27, "hidden_size": 1152, "num_heads": 16, "intermediate_size": 4304, "out_hidden_size": 5120}
VISION |= {"num_position_embeddings": 2304}
ELEMENT = {"BF16": 2, "F8_E4M3": 1}
SHARD = 5_000_000_000


def reference_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the reference implementation: those of the published files, drafting layer apart."""
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    raw = {key: value for key, value in config.items() if key != "architectures"}
    with torch.device("meta"):
        model = Qwen3_5ForConditionalGeneration(Qwen3_5Config(**raw))
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def test_the_tiny_checkpoint_has_the_reference_names_and_shapes() -> None:
    config = qwen3_5_config(416, vision=True)
    tensors = qwen3_5_tensors(config)
    ours = {name: tuple(tensor.shape) for name, tensor in tensors.items() if not name.startswith("mtp.")}
    assert ours == reference_shapes(config)
    assert sum(name.startswith("mtp.") for name in tensors) == 15


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("published")
    build_qwen3_5(directory, codes="fp8", vision=True)  # tokenizer, template, cards
    for old in directory.glob("model*"):
        old.unlink()
    path = directory / "config.json"
    config = json.loads(path.read_text())
    config["text_config"] |= TEXT
    del config["text_config"]["layer_types"]
    config["vision_config"] |= VISION
    path.write_text(json.dumps(config))
    shapes: Shapes = {name: ("BF16", shape) for name, shape in reference_shapes(config).items()}
    shapes |= {
        name: ("BF16", tuple(tensor.shape))
        for name, tensor in qwen3_5_tensors(qwen3_5_config(416)).items()
        if name.startswith("mtp.")
    }
    shapes = dict(in_blocks(shapes))
    weight_map: dict[str, str] = {}
    for number, names in enumerate(shards(shapes), 1):
        file = f"model.safetensors-{number:05}-of-00007.safetensors"
        sparse(directory / file, {name: shapes[name] for name in names})
        weight_map.update(dict.fromkeys(names, file))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return directory


def in_blocks(shapes: Shapes) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    kept = (".in_proj_a.weight", ".in_proj_b.weight", "embed_tokens.weight", "lm_head.weight", "mtp.fc.weight")
    for name, (kind, shape) in shapes.items():
        if len(shape) == 2 and name.endswith(".weight") and not name.endswith(kept) and ".visual." not in name:
            yield name, ("F8_E4M3", shape)
            yield f"{name}_scale_inv", ("BF16", block_scales_shape((shape[0], shape[1])))
        else:
            yield name, (kind, shape)


def nbytes(entry: tuple[str, tuple[int, ...]]) -> int:
    return ELEMENT[entry[0]] * torch.Size(entry[1]).numel()


def shards(shapes: Shapes) -> Iterator[list[str]]:
    names: list[str] = []
    size = 0
    for name, entry in shapes.items():
        if names and size + nbytes(entry) > SHARD:
            yield names
            names, size = [], 0
        names.append(name)
        size += nbytes(entry)
    yield names


def sparse(path: Path, shapes: Shapes) -> None:
    """A safetensors file whose header is written and whose tensors are a hole."""
    header, at = {}, 0
    for name, entry in shapes.items():
        header[name] = {"dtype": entry[0], "shape": entry[1], "data_offsets": [at, at + nbytes(entry)]}
        at += nbytes(entry)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)


@pytest.mark.spec("ENG-006", "ENG-019", "ENG-020", "ENG-022")
def test_the_published_layout_opens(published: Path) -> None:
    checkpoint = open_checkpoint(published)
    config, stored = checkpoint.config, checkpoint.weights.stored()
    assert (config.layers_of("full_attention"), config.layers_of("linear_attention")) == (16, 48)
    assert not config.tie_word_embeddings
    names = list(stored)
    assert {name.split(".")[0] for name in names} == {"embed_tokens", "layers", "norm", "lm_head"}
    # Of each layer two norms and three matrices of the MLP; of attention six tensors, of a recurrence nine.
    assert len(names) == 64 * 5 + 16 * 6 + 48 * 9 + 3
    coded = [name for name, each in stored.items() if each.format == FP8]
    assert len(coded) == 64 * 3 + 16 * 4 + 48 * 3
    odd = stored["layers.0.linear_attn.in_proj_qkv.weight"]
    assert (odd.format, odd.shape) == (FP8, (10_240, 5120))
    groups = checkpoint.report["bytes"]
    assert isinstance(groups, dict)
    assert {"embedding", "head", "attention", "recurrent", "mlp", "norm"} == groups.keys()
    assert 29e9 < sum(groups.values()) < 30e9
    assert checkpoint.report["skipped"].keys() == {"tower", "mtp"}  # type: ignore[attr-defined]
    assert len(checkpoint.files) == 7


@pytest.mark.spec("ENG-019")
def test_tower_and_drafting_layer_are_there_where_they_are_served(published: Path) -> None:
    weights = SafetensorsWeights(published, decoder_layout(vision=True, mtp=True))
    names = list(weights.names())
    assert sum(name.startswith("visual.") for name in names) == 333
    assert sum(name.startswith("mtp.") for name in names) == 15
    assert weights.stored()["mtp.layers.0.mlp.up_proj.weight"].format == FP8
    assert not weights.skipped()


@pytest.mark.spec("ENG-022", "ENG-031")
def test_rows_of_a_large_matrix_come_without_the_rest(published: Path) -> None:
    weights = SafetensorsWeights(published)
    name, shape = "layers.63.mlp.gate_proj.weight", (17_408, 5120)
    assert not weights.rows(name, shape, 17_300, 17_408).any()
    coded = weights.coded(name)
    assert isinstance(coded, Fp8Blocks)
    assert coded.scales.shape == (136, 40)
    with pytest.raises(CheckpointError, match=r"gate_proj\.weight has shape \[17408, 5120\], the config asks for"):
        weights.rows(name, (17_408, 5000), 0, 64)


@pytest.mark.spec("ENG-031")
def test_what_it_takes_is_known_before_the_first_tensor(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    sizes = [each.shape for each in SafetensorsWeights(published).stored().values() if len(each.shape) == 2]
    ends = 2 * TEXT["vocab_size"] * TEXT["hidden_size"]
    layers = sum(rows * columns for rows, columns in sizes) - ends
    monkeypatch.setattr("tandem.engine.load.available", lambda: 14 << 30)
    # 4 bits and 4 bytes a group of 32, the embedding and the head in 8 bits.
    taken = {
        "fp32": 4 * (layers + ends),
        "bf16": 2 * (layers + ends),
        "int8": layers + ends,
        "int4": layers * 0.625 + ends,
    }
    seen = SafetensorsWeights(published, decoder_layout(vision=True)).stored()
    tower = sum(math.prod(each.shape) for name, each in seen.items() if name.startswith("visual."))
    for (kind, size), vision in product(taken.items(), (False, True)):
        whole = size + vision * tower * (4 if kind == "fp32" else 2)
        with pytest.raises(CheckpointError, match=rf"does not fit: weights in {kind}") as refusal:
            load_engine(
                published,
                cpu_weights=kind,
                max_len=4096,
                budgets=Budgets(margin=0),
                vision=vision,
                progress=lambda *call: calls.append(call),
            )
        said = re.search(r"in \w+ of ([\d.]+) GiB", str(refusal.value))
        assert said is not None
        assert float(said[1]) == pytest.approx(whole / 2**30, rel=0.005)
    assert not calls
