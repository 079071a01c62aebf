"""GGUF v3 files of the `llama` architecture: metadata, tensors, and the vocabulary behind them (ENG-025).

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The `gguf` package reads and dequantises.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, ReaderTensor
from gguf.quants import dequantize

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.registry import architecture_of
from tandem.engine.checkpoints.weights import Catalogue, Coded, Stored
from tandem.engine.errors import CheckpointError

__all__ = ["BLOCK_TYPES", "GgufFile", "GgufWeights"]

_VERSION = 3
BLOCK_TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0")

_TOP = {"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head"}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_NAME = re.compile(r"(?:blk\.(?P<layer>\d+)\.)?(?P<module>\w+)\.(?P<kind>weight|bias)")
_ROPE_FACTORS = "rope_freqs.weight"


class _Reader(GGUFReader):  # type: ignore[misc]  # the package has no types
    """The package's reader, and arrays read as a whole: a vocabulary's 100,000 strings cost it a second or two.

    It slices a plain array: slicing a memmap half a million times costs seconds.
    """

    data: Any

    def _get(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self.data, np.memmap):
            self.data = np.asarray(self.data)
        return super()._get(*args, **kwargs)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
        """Size, parts, indices of the values among them, and types, as the package has them."""
        if raw_type != GGUFValueType.ARRAY or self.byte_order != "I":
            return super()._get_field_parts(orig_offs, raw_type)
        kind = GGUFValueType(int(self._get(orig_offs, np.uint32)[0]))
        count, start = int(self._get(orig_offs + 4, np.uint64)[0]), orig_offs + 12
        types = [GGUFValueType.ARRAY, kind]
        if kind == GGUFValueType.STRING:
            stop, strings = _strings(memoryview(self.data), start, count)
            return stop - orig_offs, strings, list(range(count)), types
        if (scalar := self.gguf_scalar_to_np.get(kind)) is None:
            return super()._get_field_parts(orig_offs, raw_type)
        if count * np.dtype(scalar).itemsize > self.data.size - start:
            raise ValueError(f"an array of {count} values ends behind the file")
        values = self._get(start, scalar, count)
        return 12 + values.nbytes, [values], [0], types


def _strings(data: memoryview, at: int, count: int) -> tuple[int, list[memoryview]]:
    """Where `count` strings end that begin at `at`, and the bytes of each."""
    strings = []
    for _ in range(count):
        size = int.from_bytes(data[at : at + 8], sys.byteorder)
        at += 8 + size
        if at > len(data):
            raise ValueError("a string ends behind the file")
        strings.append(data[at - size : at])
    return at, strings


class GgufFile:
    """An open file: its metadata by key, and its tensors."""

    def __init__(self, path: Path) -> None:
        """`CheckpointError` names a file that is no GGUF v3 file or is cut short."""
        self.path = path
        try:
            self._reader = _Reader(path)
        except Exception as error:  # the package raises whatever the bytes lead it into
            raise CheckpointError(f"{path}: cannot be read as GGUF: {error}") from error
        if (version := self.get("GGUF.version")) != _VERSION:
            raise CheckpointError(f"{path}: is GGUF version {version}, served is version {_VERSION}")

    @property
    def tensors(self) -> list[ReaderTensor]:
        """The package's tensor records, in the file's order."""
        return self._reader.tensors  # type: ignore[no-any-return]

    @property
    def data_offset(self) -> int:
        """Where the tensors start: the bytes before it are all that opening the file reads."""
        return int(self._reader.data_offset)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a metadata key as Python has it."""
        field = self._reader.fields.get(key)
        return default if field is None else field.contents()

    def require(self, key: str) -> Any:
        """Like `get`, but `CheckpointError` names a key that is missing."""
        value = self.get(key)
        if value is None:
            raise CheckpointError(f"{self.path}: has no {key}")
        return value

    def config(self) -> ModelConfig:
        """The sizes in the metadata, and the end ids it names."""
        declared = self.require("general.architecture")
        architecture = architecture_of(declared, str(self.path))
        heads = int(self.require(f"{declared}.attention.head_count"))
        hidden = int(self.require(f"{declared}.embedding_length"))
        head_dim = int(self.get(f"{declared}.attention.key_length", hidden // heads))
        if (rotated := self.get(f"{declared}.rope.dimension_count", head_dim)) != head_dim:
            raise CheckpointError(f"{self.path}: rotates {rotated} of {head_dim} dimensions, which is not served")
        if experts := self.get(f"{declared}.expert_count"):
            raise CheckpointError(f"{self.path}: has {experts} routed experts, which are not served")
        names = {tensor.name for tensor in self.tensors}
        return ModelConfig(
            architecture=architecture,
            name=self.path.stem,
            vocab_size=len(self.require("tokenizer.ggml.tokens")),
            hidden_size=hidden,
            intermediate_size=int(self.require(f"{declared}.feed_forward_length")),
            num_hidden_layers=int(self.require(f"{declared}.block_count")),
            num_attention_heads=heads,
            num_key_value_heads=int(self.get(f"{declared}.attention.head_count_kv", heads)),
            head_dim=head_dim,
            max_position_embeddings=int(self.require(f"{declared}.context_length")),
            # Stored as fp32; seven digits bring back the decimal that was meant.
            rms_norm_eps=float(f"{self.require(f'{declared}.attention.layer_norm_rms_epsilon'):.7g}"),
            rope_theta=float(self.get(f"{declared}.rope.freq_base", 10000.0)),
            rope_scaling=self._rope_scaling(declared),
            tie_word_embeddings="output.weight" not in names,
            attention_bias="blk.0.attn_q.bias" in names,
            mlp_bias="blk.0.ffn_up.bias" in names,
            end_ids=self._end_ids(),
        )

    def _end_ids(self) -> frozenset[int]:
        ids = (self.get(f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot", "eom"))
        return frozenset(int(token) for token in ids if token is not None)

    def _rope_scaling(self, declared: str) -> dict[str, object]:
        """Scaling by kind; per-frequency divisors, which a file may hold as a tensor, as `frequency_factors`."""
        for tensor in self.tensors:
            if tensor.name == _ROPE_FACTORS:
                return {"rope_type": "frequency_factors", "factors": tuple(tensor.data.tolist())}
        kind = self.get(f"{declared}.rope.scaling.type", "none")
        if kind == "none":
            return {}
        scaling: dict[str, object] = {"rope_type": kind, "factor": self.get(f"{declared}.rope.scaling.factor")}
        if original := self.get(f"{declared}.rope.scaling.original_context_length"):
            scaling["original_max_position_embeddings"] = original
        return scaling


class GgufWeights(Catalogue):
    """`Weights` over a memory-mapped file; blocks are dequantised as a tensor is asked for."""

    def __init__(self, file: GgufFile, config: ModelConfig) -> None:
        """`CheckpointError` names a tensor of a type or name that is not served."""
        super().__init__(file.path)
        self.files = [file.path]
        self._config = config
        self._tensors: dict[str, ReaderTensor] = {}
        for tensor in file.tensors:
            self._add(tensor, str(file.path))

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The tensor on the CPU, in memory of its own."""
        self._found(name, shape)
        record = self._tensors[name]
        values = dequantize(record.data, record.tensor_type).astype(np.float32, copy=False).reshape(shape)
        if heads := self._paired_heads(name):
            values = _halves(values, heads)
        return torch.from_numpy(np.array(values)).to(dtype)

    def rows(self, name: str, shape: tuple[int, int], start: int, stop: int) -> torch.Tensor:
        """Rows `start` to below `stop` in fp32."""
        self._found(name, shape)
        record, order = self._tensors[name], None
        if heads := self._paired_heads(name):
            order = _halves(np.arange(shape[0]), heads)[start:stop]
            start, stop = int(order.min()), int(order.max()) + 1
        values = dequantize(record.data[start:stop], record.tensor_type).astype(np.float32, copy=False)
        return torch.from_numpy(np.array(values if order is None else values[order - start]))

    def coded(self, name: str) -> Coded | None:
        """None: no kernel reads these blocks as they are."""
        return None

    def close(self) -> None:
        """Let go of the file."""
        self._tensors.clear()

    def _paired_heads(self, name: str) -> int:
        """The heads of a projection whose rows lie in rotary pairs, 0 of any other tensor."""
        if ".q_proj." in name:
            return self._config.num_attention_heads
        return self._config.num_key_value_heads if ".k_proj." in name else 0

    def _add(self, tensor: ReaderTensor, file: str) -> None:
        if tensor.name == _ROPE_FACTORS:
            return
        canonical = _canonical(tensor.name)
        if canonical is None:
            raise CheckpointError(f"{file}: tensor {tensor.name} is not one of a llama decoder")
        kind = GGMLQuantizationType(tensor.tensor_type).name
        if kind not in BLOCK_TYPES:
            raise CheckpointError(f"{file}: tensor {tensor.name} is {kind}; served are {', '.join(BLOCK_TYPES)}")
        shape = tuple(int(size) for size in reversed(tensor.shape))
        self._tensors[canonical] = tensor
        self._stored[canonical] = Stored(tensor.name, file, kind, shape, int(tensor.n_bytes))


def _canonical(name: str) -> str | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    module = (_BLOCK if match["layer"] else _TOP).get(match["module"])
    if module is None:
        return None
    prefix = f"layers.{match['layer']}." if match["layer"] else ""
    return f"{prefix}{module}.{match['kind']}"


def _halves(values: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Rows of a head from rotary pairs (0, 1), (2, 3) … , as llama GGUF files have them, to two halves."""
    rows = values.shape[0] // heads
    pairs = values.reshape(heads, rows // 2, 2, *values.shape[1:])
    return pairs.swapaxes(1, 2).reshape(values.shape)
