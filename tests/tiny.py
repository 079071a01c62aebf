"""Builder of seeded random tiny checkpoints on disk (ENG-017): a Hugging Face directory of a Llama decoder.

Hidden 64, 2 layers, 4 query and 2 KV heads of 16, a byte-level BPE of about 400 tokens with ChatML's markers. The
weights are random, the tokenizer and the chat template are real ones, so a test file runs in seconds.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

__all__ = ["CHATML", "SPECIALS", "TOOL_CHATML", "build_llama", "llama_config", "llama_tensors", "tiny_tokenizer"]

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML without tools and without reasoning."""

TOOL_CHATML = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- '# Tools\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson + '\\n' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if message.reasoning_content %}
            {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {%- if call.function.arguments is string %}
                {{- call.function.arguments }}
            {%- else %}
                {{- call.function.arguments | tojson }}
            {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- elif message.role == 'user' or not loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
"""ChatML with tools, calls in JSON form and reasoning, as Qwen's templates are."""

_CORPUS = (
    "The quick brown fox jumps over the lazy dog. It's one of the oldest sentences that hold every letter.",
    "A server reads a prompt, decodes a block of tokens and streams the answer to the client that asked for it.",
    "system user assistant tool function name arguments content message messages call calls",
    "def main(argv: list[str]) -> int:\n    for index, value in enumerate(argv):\n        print(index, value)\n",
    '{"name": "read_file", "arguments": {"path": "/tmp/notes.txt", "limit": 100}}',
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Où est la bibliothèque?",
)


def tiny_tokenizer(vocab_size: int = 400) -> Tokenizer:
    """A byte-level BPE trained on a few sentences; the markers of `SPECIALS` are ids 0, 1 and 2."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[AddedToken(name, special=True, normalized=False) for name in SPECIALS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer


def llama_config(vocab_size: int, *, tied: bool = True, **overrides: Any) -> dict[str, Any]:
    """The `config.json` of a tiny Llama; `overrides` replace or add keys."""
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocab_size,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "dtype": "float32",
    }
    return config | overrides


def llama_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Random tensors (fp32) under Hugging Face's names, of a size that keeps logits apart."""
    draw = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=draw) / math.sqrt(columns)

    def norm() -> torch.Tensor:
        return 1.0 + 0.1 * torch.randn(hidden, generator=draw)

    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    tensors = {"model.embed_tokens.weight": torch.randn(config["vocab_size"], hidden, generator=draw)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors[at + "input_layernorm.weight"] = norm()
        tensors[at + "post_attention_layernorm.weight"] = norm()
        projections = {"q_proj": (queries, hidden), "k_proj": (keys, hidden), "v_proj": (keys, hidden)}
        for name, shape in {**projections, "o_proj": (hidden, queries)}.items():
            tensors[f"{at}self_attn.{name}.weight"] = matrix(*shape)
            if config["attention_bias"]:
                tensors[f"{at}self_attn.{name}.bias"] = 0.1 * torch.randn(shape[0], generator=draw)
        for name, shape in {
            "gate_proj": (inner, hidden),
            "up_proj": (inner, hidden),
            "down_proj": (hidden, inner),
        }.items():
            tensors[f"{at}mlp.{name}.weight"] = matrix(*shape)
            if config["mlp_bias"]:
                tensors[f"{at}mlp.{name}.bias"] = 0.1 * torch.randn(shape[0], generator=draw)
    tensors["model.norm.weight"] = norm()
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = matrix(config["vocab_size"], hidden)
    return tensors


def build_llama(
    directory: Path,
    *,
    seed: int = 0,
    tied: bool = True,
    shards: int = 1,
    dtype: torch.dtype = torch.float32,
    template: str | None = CHATML,
    **overrides: Any,
) -> Path:
    """Write a tiny Llama checkpoint into `directory` (made where missing) and return it.

    `shards` above 1 splits the tensors over files with an index. `template` None leaves the chat template out.
    `overrides` go into `config.json`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = tiny_tokenizer()
    tokenizer.save(str(directory / "tokenizer.json"))
    card: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIALS[0],
        "eos_token": SPECIALS[2],
        "pad_token": SPECIALS[0],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 512,
    }
    if template is not None:
        card["chat_template"] = template
    _write_json(directory / "tokenizer_config.json", card)
    config = llama_config(tokenizer.get_vocab_size(), tied=tied, **overrides)
    _write_json(directory / "config.json", config | {"dtype": str(dtype).removeprefix("torch.")})
    _write_json(directory / "generation_config.json", {"bos_token_id": 0, "eos_token_id": [2, 0]})
    tensors = {name: tensor.to(dtype).contiguous() for name, tensor in llama_tensors(config, seed).items()}
    _write_tensors(directory, tensors, shards)
    return directory


def _write_tensors(directory: Path, tensors: dict[str, torch.Tensor], shards: int) -> None:
    if shards == 1:
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensor for index, (name, tensor) in enumerate(tensors.items()) if index % shards == shard}
        save_file(part, directory / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    total = sum(tensor.nbytes for tensor in tensors.values())
    _write_json(
        directory / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map}
    )


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")
