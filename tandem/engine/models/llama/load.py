"""From a checkpoint's tensors to a `LlamaModel`."""

from __future__ import annotations

from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.weights import Weights
from tandem.engine.errors import CheckpointError
from tandem.engine.models.llama.model import Layer, LlamaModel
from tandem.engine.models.matrix import DenseMatrix
from tandem.engine.models.model import Progress

__all__ = ["load_llama"]


def load_llama(config: ModelConfig, weights: Weights, progress: Progress) -> LlamaModel:
    """Read every tensor in fp32. Queries, keys and values, and gate and up, are stacked into one matrix each."""
    if config.num_attention_heads % config.num_key_value_heads:
        raise CheckpointError(
            f"num_attention_heads ({config.num_attention_heads}) is not a multiple of "
            f"num_key_value_heads ({config.num_key_value_heads})"
        )
    reader = _Reader(config, weights, progress)
    embedding = reader.tensor("embed_tokens.weight", config.vocab_size, config.hidden_size)
    layers = [reader.layer(index) for index in range(config.num_hidden_layers)]
    norm = reader.tensor("norm.weight", config.hidden_size)
    tied = config.tie_word_embeddings
    head = embedding if tied else reader.tensor("lm_head.weight", config.vocab_size, config.hidden_size)
    return LlamaModel(config, embedding=embedding, layers=layers, norm=norm, head=DenseMatrix(head))


class _Reader:
    """Reads tensors by name and reports progress."""

    def __init__(self, config: ModelConfig, weights: Weights, progress: Progress) -> None:
        self._config = config
        self._weights = weights
        self._progress = progress
        biases = 4 * config.attention_bias + 3 * config.mlp_bias
        self._total = config.num_hidden_layers * (9 + biases) + 2 + (not config.tie_word_embeddings)
        self._done = 0

    def tensor(self, name: str, *shape: int) -> Tensor:
        tensor = self._weights.tensor(name, shape)
        self._done += 1
        self._progress(self._done, self._total)
        return tensor

    def layer(self, index: int) -> Layer:
        config, at = self._config, f"layers.{index}."
        hidden, inner = config.hidden_size, config.intermediate_size
        queries, keys = (n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads))

        def attention(name: str, rows: int, columns: int) -> tuple[Tensor, Tensor | None]:
            return self._linear(f"{at}self_attn.{name}", rows, columns, bias=config.attention_bias)

        def mlp(name: str, rows: int, columns: int) -> tuple[Tensor, Tensor | None]:
            return self._linear(f"{at}mlp.{name}", rows, columns, bias=config.mlp_bias)

        return Layer(
            attention_norm=self.tensor(f"{at}input_layernorm.weight", hidden),
            qkv=DenseMatrix.stacked(
                [
                    attention(name, rows, hidden)
                    for name, rows in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys))
                ]
            ),
            out=DenseMatrix(*attention("o_proj", hidden, queries)),
            mlp_norm=self.tensor(f"{at}post_attention_layernorm.weight", hidden),
            gate_up=DenseMatrix.stacked([mlp("gate_proj", inner, hidden), mlp("up_proj", inner, hidden)]),
            down=DenseMatrix(*mlp("down_proj", hidden, inner)),
        )

    def _linear(self, name: str, rows: int, columns: int, *, bias: bool) -> tuple[Tensor, Tensor | None]:
        weight = self.tensor(f"{name}.weight", rows, columns)
        return weight, self.tensor(f"{name}.bias", rows) if bias else None
