"""From a checkpoint's tensors to a `LlamaModel`."""

from __future__ import annotations

import torch
from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.rows import Picked, Rows
from tandem.engine.checkpoints.weights import Weights
from tandem.engine.errors import CheckpointError
from tandem.engine.models.formats import CpuWeights, Part, matrix, stacked, table
from tandem.engine.models.llama.model import Layer, LlamaModel
from tandem.engine.models.model import Progress
from tandem.engine.models.reader import Reader
from tandem.engine.models.rotary import paired

__all__ = ["load_llama"]


def load_llama(
    config: ModelConfig, weights: Weights, progress: Progress, cpu_weights: CpuWeights = "fp32"
) -> LlamaModel:
    """Read every tensor and turn it into `cpu_weights` before the next one is read, a matrix a few rows at a time.

    Queries, keys and values, and gate and up, are stacked into one matrix each.
    """
    if config.num_attention_heads % config.num_key_value_heads:
        raise CheckpointError(
            f"num_attention_heads ({config.num_attention_heads}) is not a multiple of "
            f"num_key_value_heads ({config.num_key_value_heads})"
        )
    reader = _Reader(config, weights, progress, cpu_weights)
    vocab = (config.vocab_size, config.hidden_size)
    embedding = table(reader.rows("embed_tokens.weight", *vocab), None, cpu_weights)
    layers = [reader.layer(index) for index in range(config.num_hidden_layers)]
    norm = reader.tensor("norm.weight", config.hidden_size)
    tied = config.tie_word_embeddings
    head = embedding if tied else table(reader.rows("lm_head.weight", *vocab), None, cpu_weights)
    return LlamaModel(config, embedding=embedding, layers=layers, norm=norm, head=head)


class _Reader(Reader):
    def __init__(self, config: ModelConfig, weights: Weights, progress: Progress, cpu_weights: CpuWeights) -> None:
        biases = 4 * config.attention_bias + 3 * config.mlp_bias
        total = config.num_hidden_layers * (9 + biases) + 2 + (not config.tie_word_embeddings)
        super().__init__(weights, progress, total)
        self._config = config
        self._kind = cpu_weights

    def layer(self, index: int) -> Layer:
        config, at, kind = self._config, f"layers.{index}.", self._kind
        hidden, inner = config.hidden_size, config.intermediate_size
        width = config.num_attention_heads * config.head_dim
        gate, up = (self._mlp(f"{at}mlp.{name}", inner, hidden) for name in ("gate_proj", "up_proj"))
        return Layer(
            attention_norm=self.tensor(f"{at}input_layernorm.weight", hidden),
            qkv=stacked(self._attention(at), kind),
            out=matrix(*self._linear(f"{at}self_attn.o_proj", hidden, width, bias=config.attention_bias), kind),
            mlp_norm=self.tensor(f"{at}post_attention_layernorm.weight", hidden),
            gate_up=stacked((gate, up), kind),
            down=matrix(*self._mlp(f"{at}mlp.down_proj", hidden, inner), kind),
        )

    def _attention(self, at: str) -> list[Part]:
        config = self._config
        queries, keys = config.num_attention_heads, config.num_key_value_heads
        parts: list[Part] = []
        for name, heads in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
            weight, bias = self._linear(
                f"{at}self_attn.{name}", heads * config.head_dim, config.hidden_size, bias=config.attention_bias
            )
            if name != "v_proj":
                order = paired(torch.arange(weight.shape[0]), heads)
                weight, bias = Picked(weight, order), bias if bias is None else paired(bias, heads)
            parts.append((weight, bias))
        return parts

    def _mlp(self, name: str, rows: int, columns: int) -> Part:
        return self._linear(name, rows, columns, bias=self._config.mlp_bias)

    def _linear(self, name: str, rows: int, columns: int, *, bias: bool) -> tuple[Rows, Tensor | None]:
        weight = self.rows(f"{name}.weight", rows, columns)
        return weight, self.tensor(f"{name}.bias", rows) if bias else None
