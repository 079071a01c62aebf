"""A checkpoint in memory, and the `transformers` model of the same weights as the oracle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.errors import CheckpointError
from tandem.engine.models.llama import LlamaModel, load_llama
from tests.tiny import llama_config, llama_tensors

__all__ = ["VOCAB", "MemoryWeights", "TinyLlama", "oracle_of", "quiet", "tiny_llama", "tiny_spec"]

VOCAB = 400


@dataclass(frozen=True, slots=True)
class MemoryWeights:
    """`Weights` over a dict of canonical names."""

    tensors: dict[str, Tensor]

    def names(self) -> Iterable[str]:
        return self.tensors

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        tensor = self.tensors.get(name)
        if tensor is None or tensor.shape != shape:
            raise CheckpointError(f"tensor {name} of shape {list(shape)} is missing")
        return tensor.to(dtype)

    def rows(self, name: str, shape: tuple[int, int], start: int, stop: int) -> Tensor:
        return self.tensor(name, shape)[start:stop]


@dataclass(frozen=True, slots=True)
class TinyLlama:
    """One random model, as ours and as the raw config and tensors (Hugging Face's names) it was made from."""

    model: LlamaModel
    config: dict[str, Any]
    tensors: dict[str, Tensor]

    def oracle(self) -> Any:
        return oracle_of(self.config, self.tensors)


def quiet(done: int, total: int) -> None:
    """A progress callback that says nothing."""


def tiny_spec(config: dict[str, Any]) -> ModelConfig:
    """The typed record of a raw tiny config."""
    names = ModelConfig.__dataclass_fields__
    known = {name: config[name] for name in names if name in config}
    return replace(
        ModelConfig(architecture="llama", name="tiny", **known), rope_scaling=dict(config.get("rope_scaling") or {})
    )


def tiny_llama(seed: int = 0, *, tied: bool = True, **overrides: Any) -> TinyLlama:
    """A seeded random Llama, loaded through `load_llama`."""
    config = llama_config(VOCAB, tied=tied, **overrides)
    tensors = llama_tensors(config, seed)
    # With embeddings as large as the layers' outputs a tied random model says its last token for ever.
    tensors["model.embed_tokens.weight"] *= 0.2
    canonical = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    return TinyLlama(load_llama(tiny_spec(config), MemoryWeights(canonical), quiet), config, tensors)


def oracle_of(config: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    """`transformers.LlamaForCausalLM` in fp32 on the same weights."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.initialization import no_init_weights

    with no_init_weights():
        oracle = LlamaForCausalLM(LlamaConfig(**config)).eval()
    missing, unexpected = oracle.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    oracle.tie_weights()
    return oracle
