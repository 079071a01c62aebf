"""A tiny hybrid decoder of the Qwen3.5 family, laid out as the published ones are.

Hidden 64, 4 layers of which the last is full attention (4 query and 2 KV heads of 32), the others Gated DeltaNet (2 key
and 4 value heads of 16), a drafting layer, and a tower of 2 blocks where one is asked for. Names, dtypes, shards, index
and the forms of the quantised ones follow the published checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from tandem.engine.checkpoints.fp8 import BLOCK, Fp8Blocks
from tandem.engine.checkpoints.nvfp4 import GROUP, Nvfp4
from tandem.engine.tiny.files import write_json, write_tensors
from tandem.engine.tiny.qwen3_5_tensors import TOWER, qwen3_5_tensors
from tandem.engine.tiny.templates import THINKING_XML
from tandem.engine.tiny.vocabulary import qwen_tokenizer

__all__ = ["Codes", "build_qwen3_5", "in_codes", "qwen3_5_config", "qwen3_5_tensors"]

Codes: TypeAlias = Literal["fp8", "nvfp4"]

_CODED = (
    *(f"self_attn.{name}_proj.weight" for name in "qkvo"),
    *(f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
    *(f"linear_attn.{name}.weight" for name in ("in_proj_qkv", "in_proj_z", "out_proj")),
)
"""What the published quantised checkpoints have in codes, of the decoder's layers and the drafting layer."""
_PADDED = 32
"""The vocabulary is padded to its multiples."""


def qwen3_5_config(vocab_size: int, *, vision: bool = False, tied: bool = False, **overrides: Any) -> dict[str, Any]:
    """The `config.json`; `overrides` replace or add keys of `text_config`."""
    text: dict[str, Any] = {
        "model_type": "qwen3_5_text",
        "vocab_size": vocab_size,
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "head_dim": 32,
        "full_attention_interval": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "attn_output_gate": True,
        "tie_word_embeddings": tied,
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [2, 1, 1],
        },
        "dtype": "bfloat16",
    } | overrides
    hidden = text["hidden_size"]
    derived = {
        "intermediate_size": 3 * hidden // 2,
        "num_attention_heads": hidden // 16,
        "num_key_value_heads": hidden // 32,
        "linear_num_key_heads": hidden // 32,
        "linear_num_value_heads": hidden // 16,
        "layer_types": _layer_types(text["num_hidden_layers"], text["full_attention_interval"]),
    }
    config: dict[str, Any] = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "tie_word_embeddings": tied,
        "text_config": derived | text,
    }
    if vision:
        config["vision_config"] = {
            "model_type": "qwen3_5_vision",
            "depth": 2,
            "hidden_size": 64,
            "num_heads": 4,
            "intermediate_size": 96,
            "hidden_act": "gelu_pytorch_tanh",
            "in_channels": 3,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": hidden,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [],
        }
    return config


def in_codes(tensors: Mapping[str, Tensor], codes: Codes) -> dict[str, Tensor]:
    """The same checkpoint with its projections in codes."""
    coded: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not name.endswith(_CODED) or name.startswith(TOWER):
            coded[name] = tensor
        elif codes == "fp8":
            blocks = Fp8Blocks.of(tensor.float())
            coded |= {name: blocks.codes, f"{name}_scale_inv": blocks.scales}
        else:
            four = Nvfp4.of(tensor.float())
            coded |= {name: four.codes, f"{name}_scale": four.scales, f"{name}_scale_2": four.scale}
            coded[name.removesuffix("weight") + "input_scale"] = torch.ones(())
    return coded


def build_qwen3_5(
    directory: Path,
    *,
    seed: int = 0,
    codes: Codes | None = None,
    vision: bool = False,
    tied: bool = False,
    shards: int = 2,
    **overrides: Any,
) -> Path:
    """Write the checkpoint into `directory` (made where missing) and return it; `overrides` go into `text_config`."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = qwen_tokenizer()
    tokenizer.save(str(directory / "tokenizer.json"))
    ids = {name: tokenizer.token_to_id(name) for name in tokenizer.get_vocab()}
    end, pad = ids["<|im_end|>"], ids["<|endoftext|>"]
    vocab = -(-tokenizer.get_vocab_size() // _PADDED) * _PADDED
    config = qwen3_5_config(vocab, vision=vision, tied=tied, eos_token_id=pad, **overrides)
    config |= {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }
    tensors = qwen3_5_tensors(config, seed)
    if codes is not None:
        config["quantization_config"] = _quantisation(codes, tensors)
        tensors = in_codes(tensors, codes)
    write_json(directory / "config.json", config)
    write_json(directory / "generation_config.json", _GENERATION | {"eos_token_id": [end, pad], "pad_token_id": pad})
    write_json(directory / "tokenizer_config.json", _CARD)
    (directory / "chat_template.jinja").write_text(THINKING_XML, encoding="utf-8")
    if vision:
        write_json(directory / "preprocessor_config.json", _PREPROCESSOR)
    write_tensors(directory, {name: tensor.contiguous() for name, tensor in tensors.items()}, shards)
    return directory


_GENERATION = {"do_sample": True, "temperature": 1.0, "top_p": 0.95, "top_k": 20}
_CARD = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": None,
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "clean_up_tokenization_spaces": False,
    "model_max_length": 4096,
}
_PREPROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessorFast",
    "processor_class": "Qwen3VLProcessor",
    "patch_size": 16,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "size": {"shortest_edge": 64 * 64, "longest_edge": 512 * 512},
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}


def _layer_types(layers: int, interval: int) -> list[str]:
    return ["linear_attention" if at % interval else "full_attention" for at in range(1, layers + 1)]


def _quantisation(codes: Codes, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    plain = sorted(
        name.removesuffix(".weight")
        for name, tensor in tensors.items()
        if tensor.dim() == 2 and name.endswith(".weight") and not name.endswith(_CODED)
    )
    if codes == "fp8":
        return {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [BLOCK, BLOCK],
            "modules_to_not_convert": plain,
        }
    group = {"num_bits": 4, "type": "float", "group_size": GROUP, "dynamic": False}
    return {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "config_groups": {"group_0": {"weights": group, "input_activations": group, "targets": ["Linear"]}},
        "ignore": plain,
    }
