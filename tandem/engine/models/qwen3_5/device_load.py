"""From a checkpoint's tensors to a `DeviceQwen35` and its drafting layer: codes as they are stored, all else as
activations are.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.weights import Asked, CodedWeights
from tandem.engine.errors import CheckpointError
from tandem.engine.kernels.choice import Choose, Chosen, choose
from tandem.engine.models.device_matrix import Beside, Dense, DeviceMatrix, Kept, beside, moved
from tandem.engine.models.model import DeviceModel, Progress
from tandem.engine.models.placement import Placement
from tandem.engine.models.qwen3_5.device import DeviceQwen35
from tandem.engine.models.qwen3_5.device_layers import DeviceAttention, DeviceDelta, DeviceLayer, Ops
from tandem.engine.models.qwen3_5.device_mtp import DeviceMtp
from tandem.engine.models.qwen3_5.load import require_no_more, require_served
from tandem.engine.models.qwen3_5.mtp_parts import MTP_TENSORS, read_parts
from tandem.engine.models.reader import Reader

__all__ = ["load_mtp_device", "load_qwen3_5_device"]

_DELTA_TENSORS, _ATTENTION_TENSORS, _LAYER_TENSORS = 9, 6, 5


def load_qwen3_5_device(
    config: ModelConfig,
    weights: CodedWeights,
    progress: Progress,
    placement: Placement,
    *,
    choose: Choose = choose,
    static: bool = True,
) -> DeviceQwen35:
    """Read every tensor and put it on the device before the next one is read.

    What reads the same input is joined into one matrix where its format allows that. `choose` says what serves each
    operation; `static` as for the model.
    """
    require_served(config)
    chosen = Chosen(placement.device, choose)
    delta, full = config.layers_of("linear_attention"), config.layers_of("full_attention")
    tensors = _LAYER_TENSORS * (delta + full) + _DELTA_TENSORS * delta + _ATTENTION_TENSORS * full
    total = tensors + 2 + (not config.tie_word_embeddings)
    reader = _Reader(config, weights, progress, placement, chosen, total)
    vocab = (config.vocab_size, config.hidden_size)
    embedding = reader.values("embed_tokens.weight", *vocab)
    kinds = config.layer_types or ("full_attention",) * config.num_hidden_layers
    layers = [reader.layer(f"layers.{index}.", linear=kind == "linear_attention") for index, kind in enumerate(kinds)]
    norm = reader.centred("norm.weight", config.hidden_size)
    head = Dense(embedding) if config.tie_word_embeddings else reader.kept("lm_head", *vocab)
    return DeviceQwen35(
        config,
        placement,
        embedding=embedding,
        layers=layers,
        norm=norm,
        head=DeviceMatrix(head, chosen),
        ops=reader.ops,
        kernels=chosen.report(),
        static=static,
    )


def load_mtp_device(
    model: DeviceModel, weights: CodedWeights, progress: Progress, *, choose: Choose = choose
) -> DeviceMtp:
    """Read the layer `mtp.` of the checkpoint that `model` was loaded from, as `load_mtp` does for the CPU."""
    if not isinstance(model, DeviceQwen35):
        raise TypeError(f"{type(model).__name__} is no decoder of this package")
    config, asked, chosen = model.config, Asked(weights), Chosen(model.placement.device, choose)
    reader = _Reader(config, asked, progress, model.placement, chosen, MTP_TENSORS)
    layer = DeviceMtp(model, read_parts(reader, config.hidden_size))
    require_no_more(asked, config)
    return layer


class _Reader(Reader):
    def __init__(
        self,
        config: ModelConfig,
        weights: CodedWeights,
        progress: Progress,
        placement: Placement,
        chosen: Chosen,
        total: int,
    ) -> None:
        super().__init__(weights, progress, total)
        self._config = config
        self._codes = weights
        self._placement = placement
        self._chosen = chosen
        self.ops = Ops.of(config, chosen)

    def small(self, name: str, *shape: int) -> Tensor:
        """A tensor that is no matrix, in fp32."""
        return self.tensor(name, *shape).to(self._placement.device)

    def centred(self, name: str, size: int) -> Tensor:
        """The weight of a norm that is stored as its distance from one."""
        return self.small(name, size) + 1.0

    def values(self, name: str, rows: int, columns: int) -> Tensor:
        """A matrix as numbers in the type of activations, whatever it is stored as."""
        tensor = self._weights.tensor(name, (rows, columns), self._placement.dtype)
        self._step()
        return tensor.to(self._placement.device)

    def kept(self, name: str, rows: int, columns: int) -> Kept:
        """A matrix as it is stored, or its numbers where it is not stored in codes."""
        coded = self._codes.coded(f"{name}.weight")
        if coded is None:
            return Dense(self.values(f"{name}.weight", rows, columns))
        if coded.shape != (rows, columns):
            raise CheckpointError(
                f"tensor {name}.weight has shape {list(coded.shape)}, the config asks for {[rows, columns]}"
            )
        self._step()
        return moved(coded, self._placement.device)

    def layer(self, at: str, *, linear: bool) -> DeviceLayer:
        hidden, inner = self._config.hidden_size, self._config.intermediate_size
        return DeviceLayer(
            mixer_norm=self.centred(f"{at}input_layernorm.weight", hidden),
            mixer=self._delta(f"{at}linear_attn.") if linear else self._attention(f"{at}self_attn."),
            mlp_norm=self.centred(f"{at}post_attention_layernorm.weight", hidden),
            gate_up=self._beside(at + "mlp.", (("gate_proj", inner), ("up_proj", inner))),
            down=self.matrix(f"{at}mlp.down_proj", hidden, inner),
        )

    def _delta(self, at: str) -> DeviceDelta:
        config = self._config
        hidden, heads = config.hidden_size, config.linear_num_value_heads
        values = heads * config.linear_value_head_dim
        channels = 2 * config.linear_num_key_heads * config.linear_key_head_dim + values
        conv = self.small(f"{at}conv1d.weight", channels, 1, config.linear_conv_kernel_dim)[:, 0]
        return DeviceDelta(
            project=self._beside(at, (("in_proj_qkv", channels), ("in_proj_z", values))),
            gates=self._beside(at, (("in_proj_b", heads), ("in_proj_a", heads))),
            conv=conv.to(self._placement.dtype).t().contiguous().t(),
            decay=-self.small(f"{at}A_log", heads).exp(),
            step_bias=self.small(f"{at}dt_bias", heads),
            norm=self.small(f"{at}norm.weight", config.linear_value_head_dim),
            out=self.matrix(f"{at}out_proj", hidden, values),
            key_heads=config.linear_num_key_heads,
            eps=config.rms_norm_eps,
            ops=self.ops,
        )

    def _attention(self, at: str) -> DeviceAttention:
        config = self._config
        size, queries, keys = config.head_dim, config.num_attention_heads, config.num_key_value_heads
        parts = (("q_proj", 2 * queries * size), ("k_proj", keys * size), ("v_proj", keys * size))
        return DeviceAttention(
            project=self._beside(at, parts),
            query_norm=self.centred(f"{at}q_norm.weight", size),
            key_norm=self.centred(f"{at}k_norm.weight", size),
            out=self.matrix(f"{at}o_proj", config.hidden_size, queries * size),
            kv_heads=keys,
            eps=config.rms_norm_eps,
            ops=self.ops,
        )

    def matrix(self, name: str, rows: int, columns: int) -> DeviceMatrix:
        return DeviceMatrix(self.kept(name, rows, columns), self._chosen)

    def _beside(self, at: str, parts: Sequence[tuple[str, int]]) -> DeviceMatrix | Beside:
        """Matrices over the hidden states, outputs side by side."""
        kept = [self.kept(f"{at}{name}", rows, self._config.hidden_size) for name, rows in parts]
        return beside(kept, self._chosen)
