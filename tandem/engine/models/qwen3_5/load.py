"""From a checkpoint's tensors to a `Qwen35Model`, and to the layer beside it that drafts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.rows import Picked, Rows, Stack
from tandem.engine.checkpoints.weights import Asked, Weights
from tandem.engine.errors import CheckpointError
from tandem.engine.models.formats import CpuMatrix, CpuWeights, dense, matrix, stacked, table
from tandem.engine.models.model import Model, Progress, SharingModel
from tandem.engine.models.qwen3_5.attention import GatedAttention
from tandem.engine.models.qwen3_5.delta import GatedDelta
from tandem.engine.models.qwen3_5.model import Layer, Qwen35Model
from tandem.engine.models.qwen3_5.mtp import MtpLayer
from tandem.engine.models.qwen3_5.mtp_parts import MTP_TENSORS, read_parts
from tandem.engine.models.reader import Reader
from tandem.engine.models.rotary import paired

__all__ = ["load_mtp", "load_qwen3_5", "require_served"]

_DELTA_TENSORS, _ATTENTION_TENSORS, _LAYER_TENSORS = 9, 6, 5


def load_qwen3_5(
    config: ModelConfig, weights: Weights, progress: Progress, cpu_weights: CpuWeights = "fp32"
) -> Qwen35Model:
    """Read every tensor and turn it into `cpu_weights` before the next one is read, a matrix a few rows at a time.

    What reads the same input is stacked into one matrix: queries, keys, values and gates; gate and up.
    """
    require_served(config)
    delta, full = config.layers_of("linear_attention"), config.layers_of("full_attention")
    tensors = _LAYER_TENSORS * (delta + full) + _DELTA_TENSORS * delta + _ATTENTION_TENSORS * full
    total = tensors + 2 + (not config.tie_word_embeddings)
    reader = _Reader(config, weights, progress, cpu_weights, total)
    vocab = (config.vocab_size, config.hidden_size)
    embedding = table(reader.rows("embed_tokens.weight", *vocab), None, cpu_weights)
    kinds = config.layer_types or ("full_attention",) * config.num_hidden_layers
    layers = [reader.layer(f"layers.{at}.", linear=kind == "linear_attention") for at, kind in enumerate(kinds)]
    norm = reader.centred("norm.weight", config.hidden_size)
    tied = config.tie_word_embeddings
    head = embedding if tied else table(reader.rows("lm_head.weight", *vocab), None, cpu_weights)
    return Qwen35Model(config, embedding=embedding, layers=layers, norm=norm, head=head)


def load_mtp(model: Model, weights: Weights, progress: Progress, cpu_weights: CpuWeights = "fp32") -> MtpLayer:
    """Read the layer `mtp.` of the checkpoint that `model` was loaded from. `CheckpointError` names what of it is
    missing, and what no code here computes: further layers, an embedding of its own.
    """
    if not isinstance(model, SharingModel):
        raise TypeError(f"{type(model).__name__} shares no embedding")
    config = model.config
    asked = Asked(weights)
    reader = _Reader(config, asked, progress, cpu_weights, MTP_TENSORS)
    layer = MtpLayer(model, read_parts(reader, config.hidden_size))
    require_no_more(asked, config)
    return layer


def require_no_more(asked: Asked, config: ModelConfig) -> None:
    """`CheckpointError` names a tensor of a drafting layer that nobody has asked for."""
    if strange := sorted(name for name in asked.left() if name.startswith("mtp.")):
        raise CheckpointError(f"{config.name}: the drafting layer has {strange[0]}, which is not served")


def require_served(config: ModelConfig) -> None:
    """`CheckpointError` names sizes that do not fit each other, or a variant that no code here computes."""
    groups = [("num_attention_heads", "num_key_value_heads")]
    if config.layers_of("linear_attention"):
        groups.append(("linear_num_value_heads", "linear_num_key_heads"))
        for name in ("linear_num_key_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim"):
            if getattr(config, name) < 1:
                raise CheckpointError(f"{name} is missing, and {config.name} has linear attention layers")
    for many, few in groups:
        if getattr(config, many) % getattr(config, few):
            raise CheckpointError(
                f"{many} ({getattr(config, many)}) is not a multiple of {few} ({getattr(config, few)})"
            )
    if not config.attn_output_gate:
        raise CheckpointError(f"{config.name}: attention without an output gate is not served")
    if config.attention_bias or config.mlp_bias:
        raise CheckpointError(f"{config.name}: projections with a bias are not served")
    turned = config.head_dim * config.partial_rotary_factor
    if turned % 2:
        raise CheckpointError(f"{config.name}: {turned:g} of {config.head_dim} features of a head cannot be turned")
    sections = config.mrope_section
    if config.vision is not None and not (
        config.mrope_interleaved and len(sections) == 3 and 2 * sum(sections) == turned
    ):
        raise CheckpointError(
            f"{config.name}: rotary sections {list(sections)} do not interleave to {turned / 2:g} pairs"
        )


class _Reader(Reader):
    def __init__(
        self, config: ModelConfig, weights: Weights, progress: Progress, cpu_weights: CpuWeights, total: int
    ) -> None:
        super().__init__(weights, progress, total)
        self._config = config
        self._kind = cpu_weights

    def centred(self, name: str, size: int) -> Tensor:
        """The weight of a norm that is stored as its distance from one."""
        return self.tensor(name, size) + 1.0

    def layer(self, at: str, *, linear: bool) -> Layer:
        """The layer whose names begin with `at`."""
        hidden, inner = self._config.hidden_size, self._config.intermediate_size
        return Layer(
            mixer_norm=self.centred(f"{at}input_layernorm.weight", hidden),
            mixer=self._delta(f"{at}linear_attn.") if linear else self._attention(f"{at}self_attn."),
            mlp_norm=self.centred(f"{at}post_attention_layernorm.weight", hidden),
            gate_up=self._stacked([self._rows(f"{at}mlp.{name}_proj", inner, hidden) for name in ("gate", "up")]),
            down=self.matrix(f"{at}mlp.down_proj", hidden, inner),
        )

    def _delta(self, at: str) -> GatedDelta:
        config = self._config
        hidden, heads = config.hidden_size, config.linear_num_value_heads
        values = heads * config.linear_value_head_dim
        channels = 2 * config.linear_num_key_heads * config.linear_key_head_dim + values
        conv = self.tensor(f"{at}conv1d.weight", channels, 1, config.linear_conv_kernel_dim)
        return GatedDelta(
            project=self._stacked(
                [self._rows(f"{at}in_proj_{name}", rows, hidden) for name, rows in (("qkv", channels), ("z", values))]
            ),
            # A few rows that decide what is kept for the rest of the sequence: never in codes of 8 or 4 bits.
            gates=dense(Stack([self._rows(f"{at}in_proj_{name}", heads, hidden) for name in "ba"]), None, self._kind),
            conv=conv[:, 0].t().contiguous().t(),
            decay=-self.tensor(f"{at}A_log", heads).exp(),
            step_bias=self.tensor(f"{at}dt_bias", heads),
            norm=self.tensor(f"{at}norm.weight", config.linear_value_head_dim),
            out=self.matrix(f"{at}out_proj", hidden, values),
            key_heads=config.linear_num_key_heads,
            eps=config.rms_norm_eps,
        )

    def _attention(self, at: str) -> GatedAttention:
        config = self._config
        hidden, size = config.hidden_size, config.head_dim
        queries, keys = config.num_attention_heads, config.num_key_value_heads
        # Each head's query and gate stand side by side.
        both = self._rows(f"{at}q_proj", 2 * queries * size, hidden)
        query, gate = torch.arange(2 * queries * size).view(queries, 2, size).unbind(1)
        key, value = (self._rows(f"{at}{name}_proj", keys * size, hidden) for name in "kv")
        parts = (
            Picked(both, self._turned(query).flatten()),
            Picked(key, self._turned(torch.arange(keys * size).view(keys, size)).flatten()),
            value,
            Picked(both, gate.flatten()),
        )
        norms = [
            self._turned(self.centred(f"{at}{name}_norm.weight", size)[None]).expand(heads, size)
            for name, heads in (("q", queries), ("k", keys))
        ]
        return GatedAttention(
            project=self._stacked(parts),
            norms=torch.cat(norms),
            out=self.matrix(f"{at}o_proj", hidden, queries * size),
            kv_heads=keys,
            eps=config.rms_norm_eps,
        )

    def _turned(self, heads: Tensor) -> Tensor:
        """Features (heads, head_dim) with the part of each head that is turned in pairs, the rest as it is."""
        turned = int(self._config.head_dim * self._config.partial_rotary_factor)
        pairs = paired(heads[:, :turned].flatten(), heads.shape[0]).view(-1, turned)
        return torch.cat((pairs, heads[:, turned:]), dim=1)

    def _rows(self, name: str, rows: int, columns: int) -> Rows:
        return self.rows(f"{name}.weight", rows, columns)

    def matrix(self, name: str, rows: int, columns: int) -> CpuMatrix:
        return matrix(self._rows(name, rows, columns), None, self._kind)

    def _stacked(self, parts: Sequence[Rows]) -> CpuMatrix:
        return stacked([(part, None) for part in parts], self._kind)
