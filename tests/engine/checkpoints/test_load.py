"""Opening checkpoints of either format, and finding the one `--model` means."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tandem.engine.checkpoints import embedded
from tandem.engine.checkpoints.load import open_checkpoint, resolve_model
from tandem.engine.errors import CheckpointError
from tandem.engine.load import load_engine
from tandem.engine.text.model import Conversation
from tests.embedded import embedded_checkpoint
from tests.tiny import TOOL_CHATML, build_llama
from tests.tiny_gguf import build_gguf


def edit(path: Path, **changes: Any) -> None:
    value = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: item for key, item in value.items() if item is not None}))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return build_llama(tmp_path / "tiny-llama")


@pytest.mark.spec("ENG-001", "ENG-002")
def test_config_of_a_directory(directory: Path) -> None:
    config = open_checkpoint(directory).config
    assert (config.architecture, config.name) == ("llama", "tiny-llama")
    assert (config.hidden_size, config.head_dim, config.num_key_value_heads) == (64, 16, 2)
    assert (config.rope_theta, config.rope_scaling, config.rms_norm_eps) == (10000.0, {}, 1e-5)
    assert config.tie_word_embeddings


@pytest.mark.spec("ENG-001", "ENG-019")
def test_a_config_under_text_config_gives_the_same_model(directory: Path, tmp_path: Path) -> None:
    nested = build_llama(tmp_path / "nested")
    sizes = json.loads((nested / "config.json").read_text())
    del sizes["architectures"]
    outer = {"architectures": ["LlamaForCausalLM"], "model_type": "wrapper", "text_config": sizes}
    (nested / "config.json").write_text(json.dumps(outer))
    path = nested / "model.safetensors"
    save_file({n.replace("model.", "model.language_model.", 1): t for n, t in load_file(path).items()}, path)
    one, other = open_checkpoint(directory), open_checkpoint(nested)
    assert other.config == replace(one.config, name="nested")
    assert set(one.weights.names()) == set(other.weights.names())


@pytest.mark.spec("ENG-001")
@pytest.mark.parametrize(
    ("changes", "theta", "scaling"),
    [
        ({"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, 5e5, {}),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, 1e4, {"rope_type": "linear", "factor": 2.0}),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 1e4, {"rope_type": "llama3", "factor": 8.0}),
    ],
)
def test_rotary_settings(directory: Path, changes: dict[str, Any], theta: float, scaling: dict[str, Any]) -> None:
    edit(directory / "config.json", **changes)
    config = open_checkpoint(directory).config
    assert (config.rope_theta, config.rope_scaling) == (theta, scaling)


@pytest.mark.spec("ENG-014", "ENG-092")
def test_generation_config(directory: Path) -> None:
    edit(directory / "generation_config.json", temperature=0.6, top_p=0.95, top_k=20, eos_token_id=[0])
    checkpoint = open_checkpoint(directory)
    sampling = checkpoint.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.6, 0.95, 20)
    assert checkpoint.config.end_ids == {0, 2}
    assert checkpoint.text.end_ids == {0, 2}
    assert load_engine(directory).card.sampling == {"temperature": 0.6, "top_p": 0.95, "top_k": 20}
    (directory / "generation_config.json").unlink()
    without = open_checkpoint(directory)
    assert without.sampling.temperature is None
    assert without.config.end_ids == {2}


@pytest.mark.spec("ENG-092")
def test_end_ids_of_tokenizer_and_template(directory: Path) -> None:
    edit(directory / "config.json", eos_token_id=None)
    (directory / "generation_config.json").unlink()
    edit(directory / "tokenizer_config.json", eos_token={"content": "<|endoftext|>"})
    assert open_checkpoint(directory).text.end_ids == {0, 2}
    edit(directory / "tokenizer_config.json", chat_template="{{ 'no markers' }}")
    assert open_checkpoint(directory).text.end_ids == {0}


@pytest.mark.spec("ENG-002")
def test_an_unknown_architecture_is_named(directory: Path) -> None:
    edit(directory / "config.json", architectures=["MambaForCausalLM"])
    with pytest.raises(CheckpointError, match=r"architecture MambaForCausalLM is not served; served are: llama"):
        open_checkpoint(directory)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": None}, "config.json: has no hidden_size"),
        ({"hidden_act": "gelu"}, "hidden_act gelu is not served"),
        (
            {"quantization_config": {"quant_method": "fp8"}},
            "quantised as fp8 with weight_block_size None are not served",
        ),
        ({"num_hidden_layers": "two"}, "config.json: invalid literal"),
    ],
)
def test_config_errors(directory: Path, changes: dict[str, Any], message: str) -> None:
    edit(directory / "config.json", **changes)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(directory)


@pytest.mark.spec("ENG-011")
def test_an_untied_checkpoint_without_head_is_refused(directory: Path) -> None:
    edit(directory / "config.json", tie_word_embeddings=False)
    with pytest.raises(CheckpointError, match=r"has no lm_head.weight"):
        open_checkpoint(directory)


def test_files_that_cannot_be_read(directory: Path) -> None:
    (directory / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer.json: cannot be read"):
        open_checkpoint(directory)
    (directory / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"config.json: holds no JSON object"):
        open_checkpoint(directory)


def test_report(directory: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(build_llama(tmp_path / "sharded", shards=2, dtype=torch.bfloat16))
    report = checkpoint.report
    assert report["files"] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert report["formats"] == {"BF16": 20}
    sizes = report["bytes"]
    assert isinstance(sizes, dict)
    assert sizes["mlp"] == 2 * 3 * 96 * 64 * 2
    assert set(sizes) == {"embedding", "attention", "mlp", "norm"}


def test_weights_key_follows_the_files(directory: Path) -> None:
    first = open_checkpoint(directory).weights_key
    assert open_checkpoint(directory).weights_key == first
    path = directory / "model.safetensors"
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert open_checkpoint(directory).weights_key != first


@pytest.mark.spec("ENG-012")
def test_both_formats_give_the_same_ids(directory: Path, tmp_path: Path) -> None:
    of_directory = open_checkpoint(directory).text
    of_file = open_checkpoint(build_gguf(tmp_path / "tiny.gguf")).text
    conversation = Conversation(messages=[{"role": "user", "content": "Zwölf <|im_end|> 12"}])
    assert of_directory.render(conversation) == of_file.render(conversation)
    assert of_directory.end_ids == {0, 2}
    assert of_file.end_ids == {2}
    assert of_directory.sha256 == open_checkpoint(directory).text.sha256
    assert len(of_directory.sha256) == len(of_file.sha256) == 64


def test_where_the_template_may_stand(directory: Path) -> None:
    turn = Conversation(messages=[{"role": "user", "content": "a"}], tools=[{"function": {"name": "zap"}}])
    listed = [{"name": "rag", "template": "x"}, {"name": "default", "template": TOOL_CHATML}]
    edit(directory / "tokenizer_config.json", chat_template=listed)
    with_list = open_checkpoint(directory).text.render(turn)
    edit(directory / "tokenizer_config.json", chat_template=None)
    (directory / "chat_template.jinja").write_text(TOOL_CHATML)
    assert open_checkpoint(directory).text.render(turn) == with_list


def test_vocabularies_that_are_not_byte_level(tmp_path: Path) -> None:
    path = build_gguf(tmp_path / "spm.gguf", metadata={"tokenizer.ggml.model": "llama"})
    with pytest.raises(CheckpointError, match=r"tokenizer.ggml.model llama is not served"):
        open_checkpoint(path)
    path = build_gguf(tmp_path / "pre.gguf", metadata={"tokenizer.ggml.pre": "gemma9"})
    with pytest.raises(CheckpointError, match=r"tokenizer.ggml.pre gemma9 is not served"):
        open_checkpoint(path)


@pytest.mark.spec("ENG-004")
def test_the_embedded_checkpoint() -> None:
    checkpoint = embedded_checkpoint()
    config = checkpoint.config
    assert (config.num_hidden_layers, config.hidden_size, config.intermediate_size) == (30, 576, 1536)
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (9, 3, 64)
    assert (config.vocab_size, config.max_position_embeddings) == (49152, 8192)
    assert (config.rope_theta, config.rms_norm_eps, config.tie_word_embeddings) == (100000.0, 1e-5, True)
    assert checkpoint.report["formats"] == {"Q4_1": 210, "F32": 61, "Q8_0": 1}
    assert [checkpoint.text.name(token) for token in checkpoint.text.end_ids] == ["<|im_end|>"]
    tensor = checkpoint.weights.tensor("layers.29.self_attn.k_proj.weight", (192, 576))
    assert torch.isfinite(tensor).all()
    assert 0.01 < tensor.std() < 1


def test_resolving_a_model(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_model(str(directory), tmp_path) == directory
    gguf = build_gguf(tmp_path / "tiny.gguf")
    assert resolve_model(gguf, tmp_path) == gguf
    monkeypatch.setattr(embedded, "find_installed", lambda: None)
    with pytest.raises(CheckpointError, match=r"fetch it with: tandem pull smollm2-135m"):
        resolve_model("smollm2-135m", tmp_path)
    stored = embedded.stored_path(tmp_path)
    stored.parent.mkdir()
    stored.touch()
    assert resolve_model("smollm2-135m", tmp_path) == stored
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"empty: is no Hugging Face checkpoint, it has no config\.json"):
        resolve_model(tmp_path / "empty", tmp_path)
    with pytest.raises(CheckpointError, match=r"expected a Hugging Face directory, a \.gguf file, the ORG/NAME of a"):
        resolve_model("qwen", tmp_path)
