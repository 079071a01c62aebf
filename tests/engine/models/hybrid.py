"""Random tiny Qwen3.5 decoders in memory, and the `transformers` model of the same weights as the oracle."""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.hf_config import read_config
from tandem.engine.models.formats import CpuWeights
from tandem.engine.models.qwen3_5 import Qwen35Model, load_qwen3_5
from tests.engine.models.memory import VOCAB, MemoryWeights, quiet
from tests.tiny import SPECIALS, TOOL_CHATML, tiny_tokenizer

__all__ = [
    "THINKING_CHATML",
    "TinyHybrid",
    "build_hybrid",
    "hybrid_config",
    "hybrid_oracle",
    "hybrid_spec",
    "hybrid_tensors",
    "tiny_hybrid",
]

THINKING_CHATML = TOOL_CHATML.replace(
    """    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}""",
    """    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<think>\\n' }}
    {%- endif %}""",
)
"""As Qwen3.5's own: the generation prompt opens the thinking block, or closes it where thinking is off."""


@dataclass(frozen=True, slots=True)
class TinyHybrid:
    """One random model, as ours and as the raw config and tensors (Hugging Face's names) it was made from."""

    model: Qwen35Model
    config: dict[str, Any]
    tensors: dict[str, Tensor]

    def oracle(self) -> Any:
        return hybrid_oracle(self.config, self.tensors)


def hybrid_config(vocab_size: int = VOCAB, *, tied: bool = True, **overrides: Any) -> dict[str, Any]:
    """The text-only `config.json` of a tiny Qwen3.5: four layers, the last of full attention."""
    config: dict[str, Any] = {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "vocab_size": vocab_size,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": tied,
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1],
            "mrope_interleaved": True,
        },
        "eos_token_id": 2,
        "dtype": "float32",
    }
    return config | overrides


def hybrid_spec(config: dict[str, Any]) -> ModelConfig:
    """The typed record of a raw config, read as a file is."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return replace(read_config(Path(folder)), name="tiny")


def hybrid_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Random tensors (fp32) under Hugging Face's names, of a size that keeps logits apart."""
    draw = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=draw) / math.sqrt(columns)

    def mixed(keys: int, values: int, width: int) -> dict[str, Tensor]:
        """Projection and convolution of a layer. Keys are near to queries: a row that reads next to nothing has its
        roundings magnified by the norm behind it.
        """
        query, own, value = matrix(keys, hidden), matrix(keys, hidden), matrix(values, hidden)
        turns, others = matrix(keys, width), matrix(values, width)
        return {
            "in_proj_qkv": torch.cat((query, 0.9 * query + 0.4 * own, value)),
            "conv1d": torch.cat((turns, turns, others))[:, None],
        }

    def vector(size: int, middle: float = 0.0) -> Tensor:
        return middle + 0.1 * torch.randn(size, generator=draw)

    spec = hybrid_spec(config)
    hidden, inner, size = spec.hidden_size, spec.intermediate_size, spec.head_dim
    keys = spec.linear_num_key_heads * spec.linear_key_head_dim
    values = spec.linear_num_value_heads * spec.linear_value_head_dim
    # With embeddings as large as the layers' outputs a tied random model says its last token for ever.
    tensors = {"model.embed_tokens.weight": 0.2 * torch.randn(spec.vocab_size, hidden, generator=draw)}
    for layer, kind in enumerate(spec.layer_types):
        at = f"model.layers.{layer}."
        tensors[at + "input_layernorm.weight"] = vector(hidden)
        tensors[at + "post_attention_layernorm.weight"] = vector(hidden)
        if kind == "linear_attention":
            heads = spec.linear_num_value_heads
            tensors |= {
                **{
                    f"{at}linear_attn.{name}.weight": tensor
                    for name, tensor in mixed(keys, values, spec.linear_conv_kernel_dim).items()
                },
                at + "linear_attn.in_proj_z.weight": matrix(values, hidden),
                at + "linear_attn.in_proj_b.weight": matrix(heads, hidden),
                at + "linear_attn.in_proj_a.weight": matrix(heads, hidden),
                at + "linear_attn.A_log": torch.empty(heads).uniform_(0.01, 4.0, generator=draw).log(),
                at + "linear_attn.dt_bias": vector(heads, -1.0),
                at + "linear_attn.norm.weight": vector(spec.linear_value_head_dim, 1.0),
                at + "linear_attn.out_proj.weight": matrix(hidden, values),
            }
        else:
            queries, kv = spec.num_attention_heads * size, spec.num_key_value_heads * size
            tensors |= {
                at + "self_attn.q_proj.weight": matrix(2 * queries, hidden),
                at + "self_attn.k_proj.weight": matrix(kv, hidden),
                at + "self_attn.v_proj.weight": matrix(kv, hidden),
                at + "self_attn.q_norm.weight": vector(size),
                at + "self_attn.k_norm.weight": vector(size),
                at + "self_attn.o_proj.weight": matrix(hidden, queries),
            }
        tensors |= {
            at + "mlp.gate_proj.weight": matrix(inner, hidden),
            at + "mlp.up_proj.weight": matrix(inner, hidden),
            at + "mlp.down_proj.weight": matrix(hidden, inner),
        }
    tensors["model.norm.weight"] = vector(hidden)
    if not spec.tie_word_embeddings:
        tensors["lm_head.weight"] = matrix(spec.vocab_size, hidden)
    return tensors


def tiny_hybrid(seed: int = 0, *, tied: bool = True, cpu_weights: CpuWeights = "fp32", **overrides: Any) -> TinyHybrid:
    """A seeded random Qwen3.5, loaded through `load_qwen3_5`."""
    config = hybrid_config(tied=tied, **overrides)
    tensors = hybrid_tensors(config, seed)
    canonical = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    model = load_qwen3_5(hybrid_spec(config), MemoryWeights(canonical), quiet, cpu_weights)
    return TinyHybrid(model, config, tensors)


def hybrid_oracle(config: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    """`transformers.Qwen3_5ForCausalLM` in fp32 on the same weights."""
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig
    from transformers.initialization import no_init_weights

    with no_init_weights():
        oracle = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**config)).eval()
    missing, unexpected = oracle.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    oracle.tie_weights()
    return oracle


def build_hybrid(
    directory: Path, *, seed: int = 0, nested: bool = True, dtype: torch.dtype = torch.float32, **overrides: Any
) -> Path:
    """Write a tiny Qwen3.5 checkpoint into `directory`, laid out as the released ones are, and return it.

    `nested`: sizes under `text_config`, tensors under `model.language_model.`, an MTP layer and a tower beside them.
    Its template opens the thinking block.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<think>", "</think>", "<tool_call>", "</tool_call>"])
    tokenizer.save(str(directory / "tokenizer.json"))
    card = {"bos_token": None, "eos_token": SPECIALS[2], "pad_token": SPECIALS[0]}
    (directory / "tokenizer_config.json").write_text(json.dumps(card), encoding="utf-8")
    (directory / "chat_template.jinja").write_text(THINKING_CHATML, encoding="utf-8")
    config = hybrid_config(tokenizer.get_vocab_size(), **overrides)
    tensors = hybrid_tensors(config, seed)
    if nested:
        text = {key: value for key, value in config.items() if key not in ("architectures", "tie_word_embeddings")}
        config = {
            "architectures": ["Qwen3_5ForConditionalGeneration"],
            "model_type": "qwen3_5",
            "text_config": text,
            "vision_config": {"depth": 1, "hidden_size": 8, "model_type": "qwen3_5"},
            "image_token_id": 5,
            "tie_word_embeddings": config["tie_word_embeddings"],
        }
        tensors = {name.replace("model.", "model.language_model.", 1): tensor for name, tensor in tensors.items()}
        tensors["model.visual.blocks.0.attn.qkv.weight"] = torch.zeros(24, 8)
        tensors["mtp.layers.0.self_attn.q_proj.weight"] = torch.zeros(8, 8)
        tensors["mtp.fc.weight"] = torch.zeros(8, 16)
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    generation = {"eos_token_id": [2, 0], "temperature": 1.0, "top_k": 20, "top_p": 0.95}
    (directory / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    save_file(
        {name: tensor.to(dtype).contiguous() for name, tensor in tensors.items()}, directory / "model.safetensors"
    )
    return directory
