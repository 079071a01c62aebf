"""The one typed record of a model's sizes (ENG-001); no other module reads a raw config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["LayerType", "ModelConfig", "SamplingCard", "VisionConfig"]

LayerType: TypeAlias = Literal["full_attention", "linear_attention"]
"""What mixes a layer's rows: attention over all of them, or a recurrence with a state of fixed size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionConfig:
    """A vision tower, and how images are cut for it (ENG-098, ENG-175). Names follow the checkpoint's two files."""

    depth: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    out_hidden_size: int
    """The decoder's hidden size: what the tower makes takes the place of embeddings."""
    num_position_embeddings: int
    """A square of learned positions, spread over every image."""
    in_channels: int
    patch_size: int
    spatial_merge_size: int
    temporal_patch_size: int
    """Frames to a patch; an image is that many equal ones."""
    rope_theta: float
    image_token_id: int
    """What the template writes for an image."""
    min_pixels: int
    max_pixels: int
    image_mean: tuple[float, ...]
    image_std: tuple[float, ...]
    rescale_factor: float

    @property
    def patch_numbers(self) -> int:
        """Numbers in a patch."""
        return self.in_channels * self.temporal_patch_size * self.patch_size**2

    @property
    def merged(self) -> int:
        """Patches in a merged patch, which is a prompt row."""
        return self.spatial_merge_size**2


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
    partial_rotary_factor: float = 1.0
    """The share of each head that is turned, from its beginning on."""
    mrope_section: tuple[int, ...] = ()
    """Pairs of a head by rotary axis (time, height, width); empty where a position is one number."""
    mrope_interleaved: bool = False
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    attn_output_gate: bool = False
    """Whether attention's result is gated, by as many features more in its query projection."""
    layer_types: tuple[LayerType, ...] = ()
    """One a layer; empty where all are full attention."""
    linear_num_key_heads: int = 0
    linear_num_value_heads: int = 0
    linear_key_head_dim: int = 0
    linear_value_head_dim: int = 0
    linear_conv_kernel_dim: int = 0
    vision: VisionConfig | None = None
    """The tower beside the decoder, where there is one that can be served."""
    end_ids: frozenset[int] = frozenset()
    """End ids that config and generation config name; the tokenizer may add more."""

    def layers_of(self, kind: LayerType) -> int:
        """How many layers are of `kind`."""
        if not self.layer_types:
            return self.num_hidden_layers if kind == "full_attention" else 0
        return self.layer_types.count(kind)


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
