"""The one typed record of a model's sizes (ENG-001); no other module reads a raw config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ModelConfig", "SamplingCard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes and constants of a decoder. Field names follow Hugging Face's `config.json`."""

    architecture: str
    """Registry key, such as `llama`."""
    name: str
    """The checkpoint's own name, for `base_model`."""
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: Mapping[str, object] = field(default_factory=dict)
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    end_ids: frozenset[int] = frozenset()
    """End ids that config and generation config name; the tokenizer may add more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingCard:
    """The sampling that the checkpoint's authors recommend (ENG-014); None where they name none."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None

    @property
    def offered(self) -> dict[str, float]:
        """What is named, by the names of the sampling rules."""
        named = {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k}
        return {name: value for name, value in named.items() if value is not None}
