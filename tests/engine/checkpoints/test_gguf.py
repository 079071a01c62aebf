"""GGUF files: metadata, block types against their formulas, rotary layout, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFReader, GGUFValueType

from tandem.engine.checkpoints.gguf import GgufFile, GgufWeights
from tandem.engine.errors import CheckpointError
from tests.tiny import llama_config, llama_tensors, tiny_tokenizer
from tests.tiny_gguf import build_gguf

ROWS, COLUMNS = 96, 64
UP = "blk.0.ffn_up.weight"
CANONICAL = "layers.0.mlp.up_proj.weight"


def opened(path: Path) -> GgufWeights:
    file = GgufFile(path)
    return GgufWeights(file, file.config())


def blocks(kind: Kind) -> np.ndarray[Any, Any]:
    """Random blocks of `kind` for the matrix `UP`, with scales a model may have."""
    draw = np.random.default_rng(7)
    count = ROWS * COLUMNS // 32
    scales = draw.uniform(-0.1, 0.1, (count, 2)).astype(np.float16).view(np.uint8)
    bytes_after = {Kind.Q4_0: (2, 16), Kind.Q4_1: (4, 16), Kind.Q8_0: (2, 32)}[kind]
    quants = draw.integers(0, 256, (count, bytes_after[1]), dtype=np.uint8)
    return np.concatenate([scales[:, : bytes_after[0]], quants], axis=1).reshape(ROWS, -1)


def value(kind: Kind, data: np.ndarray[Any, Any], row: int, column: int) -> float:
    """One element by the block's definition: 32 columns a block, nibbles of columns k and k + 16 share a byte."""
    size = {Kind.Q4_0: 18, Kind.Q4_1: 20, Kind.Q8_0: 34}[kind]
    block = data[row, column // 32 * size :][:size].tobytes()
    scale = np.frombuffer(block, np.float16, 1)[0].astype(np.float32)
    at = column % 32
    if kind is Kind.Q8_0:
        return float(scale * np.float32(int.from_bytes(block[2 + at : 3 + at], "little", signed=True)))
    head = 2 if kind is Kind.Q4_0 else 4
    byte = block[head + at % 16]
    code = byte & 15 if at < 16 else byte >> 4
    if kind is Kind.Q4_0:
        return float(scale * np.float32(code - 8))
    return float(scale * np.float32(code) + np.frombuffer(block, np.float16, 2)[1].astype(np.float32))


@pytest.mark.spec("ENG-025")
@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1, Kind.Q8_0], ids=lambda kind: kind.name)
def test_blocks_have_the_values_of_their_definition(kind: Kind, tmp_path: Path) -> None:
    data = blocks(kind)
    weights = opened(build_gguf(tmp_path / "tiny.gguf", raw={UP: (kind, data)}))
    tensor = weights.tensor(CANONICAL, (ROWS, COLUMNS))
    expected = [[value(kind, data, row, column) for column in range(COLUMNS)] for row in range(ROWS)]
    assert torch.equal(tensor, torch.tensor(expected))
    assert weights.stored()[CANONICAL].format == kind.name


@pytest.mark.spec("ENG-025")
@pytest.mark.parametrize(("kind", "dtype"), [(Kind.F16, torch.float16), (Kind.BF16, torch.bfloat16)])
def test_half_floats(kind: Kind, dtype: torch.dtype, tmp_path: Path) -> None:
    weights = opened(build_gguf(tmp_path / "tiny.gguf", kind=kind))
    tensor = weights.tensor(CANONICAL, (ROWS, COLUMNS))
    sent = llama_tensors(llama_config(tiny_tokenizer().get_vocab_size()))["model." + CANONICAL]
    assert torch.equal(tensor, sent.to(dtype).float())


@pytest.mark.spec("ENG-025", "ENG-019")
@pytest.mark.parametrize("tied", [True, False])
def test_fp32_tensors_come_back_in_hugging_face_layout(tied: bool, tmp_path: Path) -> None:
    weights = opened(build_gguf(tmp_path / "tiny.gguf", tied=tied))
    sent = llama_tensors(llama_config(tiny_tokenizer().get_vocab_size(), tied=tied))
    assert set(weights.names()) == {name.removeprefix("model.") for name in sent}
    for name, tensor in sent.items():
        assert torch.equal(weights.tensor(name.removeprefix("model."), tuple(tensor.shape)), tensor), name


@pytest.mark.spec("ENG-025")
def test_another_block_type_is_refused_by_name(tmp_path: Path) -> None:
    path = build_gguf(tmp_path / "tiny.gguf", raw={UP: (Kind.Q5_0, np.zeros((ROWS, 44), np.uint8))})
    with pytest.raises(CheckpointError, match=r"blk\.0\.ffn_up\.weight is Q5_0; served are F32, F16, BF16, Q4_0"):
        opened(path)


@pytest.mark.spec("ENG-001")
def test_config_from_metadata(tmp_path: Path) -> None:
    config = GgufFile(build_gguf(tmp_path / "tiny.gguf", metadata={"tokenizer.ggml.eot_token_id": 0})).config()
    assert (config.architecture, config.name) == ("llama", "tiny")
    assert (config.hidden_size, config.intermediate_size, config.num_hidden_layers) == (64, 96, 2)
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (4, 2, 16)
    assert (config.rms_norm_eps, config.rope_theta, config.rope_scaling) == (1e-5, 10000.0, {})
    assert (config.max_position_embeddings, config.vocab_size) == (512, tiny_tokenizer().get_vocab_size())
    assert config.tie_word_embeddings
    assert config.end_ids == {2, 0}


def test_rope_scaling(tmp_path: Path) -> None:
    factors = np.linspace(1, 8, 8, dtype=np.float32)
    path = build_gguf(tmp_path / "a.gguf", raw={"rope_freqs.weight": (Kind.F32, factors)})
    config = GgufFile(path).config()
    assert config.rope_scaling == {"rope_type": "frequency_factors", "factors": tuple(factors.tolist())}
    assert "rope_freqs.weight" not in set(opened(path).names())
    linear: dict[str, str | int] = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4}
    scaling = GgufFile(build_gguf(tmp_path / "b.gguf", metadata=linear)).config().rope_scaling
    assert scaling == {"rope_type": "linear", "factor": 4}


@pytest.mark.spec("ENG-020")
def test_tensor_errors_name_the_tensor(tmp_path: Path) -> None:
    weights = opened(build_gguf(tmp_path / "tiny.gguf"))
    with pytest.raises(CheckpointError, match=r"tensor lm_head.weight is missing"):
        weights.tensor("lm_head.weight", (400, 64))
    with pytest.raises(CheckpointError, match=r"output_norm\.weight has shape \[64\], the config asks for \[65\]"):
        weights.tensor("norm.weight", (65,))
    path = build_gguf(tmp_path / "odd.gguf", raw={"blk.0.ssm_a.weight": (Kind.F32, np.zeros(4, np.float32))})
    with pytest.raises(CheckpointError, match=r"blk.0.ssm_a.weight is not one of a llama decoder"):
        opened(path)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"llama.expert_count": 8}, "has 8 routed experts"),
        ({"llama.rope.dimension_count": 8}, "rotates 8 of 16 dimensions"),
    ],
)
def test_what_the_decoder_lacks_is_refused(metadata: dict[str, int], message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        GgufFile(build_gguf(tmp_path / "tiny.gguf", metadata=metadata)).config()


@pytest.mark.spec("ENG-002")
def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    path = build_gguf(tmp_path / "tiny.gguf")
    path.write_bytes(path.read_bytes().replace(b"llama", b"mamba"))
    with pytest.raises(CheckpointError, match=r"tiny.gguf: architecture mamba is not served; served are: llama"):
        GgufFile(path).config()


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    path = build_gguf(tmp_path / "tiny.gguf", left_out=("llama.embedding_length",))
    with pytest.raises(CheckpointError, match=r"has no llama.embedding_length"):
        GgufFile(path).config()


@pytest.mark.spec("ENG-025")
def test_files_that_are_not_gguf_v3(tmp_path: Path) -> None:
    path = build_gguf(tmp_path / "tiny.gguf")
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + (2).to_bytes(4, "little") + whole[8:])
    with pytest.raises(CheckpointError, match=r"is GGUF version 2, served is version 3"):
        GgufFile(path)
    for content in (b"", b"not a model", whole[: len(whole) // 2], whole[:200]):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"cannot be read as GGUF"):
            GgufFile(path)
    with pytest.raises(CheckpointError, match=r"cannot be read as GGUF"):
        GgufFile(tmp_path / "absent.gguf")


@pytest.mark.spec("ENG-025")
def test_arrays_are_those_of_the_packages_own_reader(tmp_path: Path) -> None:
    path = build_gguf(tmp_path / "tiny.gguf")
    file, theirs = GgufFile(path), GGUFReader(path)
    arrays = [name for name, field in theirs.fields.items() if field.types[0] == GGUFValueType.ARRAY]
    assert {theirs.fields[name].types[-1].name for name in arrays} >= {"STRING", "INT32"}
    for name, field in theirs.fields.items():
        assert file.get(name) == field.contents(), name
    assert file.data_offset == theirs.data_offset


@pytest.mark.spec("ENG-025")
@pytest.mark.parametrize("name", ["tokenizer.ggml.tokens", "tokenizer.ggml.token_type"])
@pytest.mark.parametrize("count", [1 << 20, 1 << 62])
def test_an_array_that_ends_behind_the_file_is_refused(name: str, count: int, tmp_path: Path) -> None:
    path = build_gguf(tmp_path / "tiny.gguf")
    raw = bytearray(path.read_bytes())
    at = raw.index(name.encode()) + len(name) + 8
    raw[at : at + 8] = count.to_bytes(8, "little")
    path.write_bytes(raw)
    with pytest.raises(CheckpointError, match="ends behind the file"):
        GgufFile(path)
