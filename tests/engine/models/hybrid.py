"""Random tiny Qwen3.5 decoders in memory, and the `transformers` model of the same weights as the oracle."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.hf_config import read_config
from tandem.engine.models.formats import CpuWeights
from tandem.engine.models.qwen3_5 import Qwen35Model, load_qwen3_5
from tandem.engine.tiny.qwen3_5 import qwen3_5_config, qwen3_5_tensors
from tests.engine.models.memory import VOCAB, MemoryWeights, quiet

__all__ = [
    "TinyHybrid",
    "hybrid_config",
    "hybrid_oracle",
    "hybrid_spec",
    "hybrid_tensors",
    "tiny_hybrid",
]


@dataclass(frozen=True, slots=True)
class TinyHybrid:
    """One random model, as ours and as the raw config and tensors (Hugging Face's names) it was made from."""

    model: Qwen35Model
    config: dict[str, Any]
    tensors: dict[str, Tensor]

    def oracle(self) -> Any:
        return hybrid_oracle(self.config, self.tensors)


def hybrid_config(vocab_size: int = VOCAB, *, tied: bool = True, **overrides: Any) -> dict[str, Any]:
    """The `config.json` of a tiny Qwen3.5 that is text alone: four layers, the last of full attention."""
    nested = qwen3_5_config(vocab_size, tied=tied, **{"max_position_embeddings": 512, **overrides})
    return {"architectures": ["Qwen3_5ForCausalLM"], **nested["text_config"], "dtype": "float32"}


def hybrid_spec(config: dict[str, Any]) -> ModelConfig:
    """The typed record of a raw config, read as a file is."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return replace(read_config(Path(folder)), name="tiny")


def hybrid_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Random tensors of a decoder alone, in fp32, under the names of a text-only checkpoint."""
    tensors = qwen3_5_tensors({"text_config": config}, seed)
    decoder = {name: tensor.float() for name, tensor in tensors.items() if not name.startswith("mtp.")}
    return {name.replace("model.language_model.", "model.", 1): tensor for name, tensor in decoder.items()}


def tiny_hybrid(seed: int = 0, *, tied: bool = True, cpu_weights: CpuWeights = "fp32", **overrides: Any) -> TinyHybrid:
    """A seeded random Qwen3.5, loaded through `load_qwen3_5`."""
    config = hybrid_config(tied=tied, **overrides)
    tensors = hybrid_tensors(config, seed)
    canonical = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    model = load_qwen3_5(hybrid_spec(config), MemoryWeights(canonical), quiet, cpu_weights)
    return TinyHybrid(model, config, tensors)


def hybrid_oracle(config: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    """`transformers.Qwen3_5ForCausalLM` in fp32 on the same weights."""
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig
    from transformers.initialization import no_init_weights

    with no_init_weights():
        oracle = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**config)).eval()
    missing, unexpected = oracle.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    oracle.tie_weights()
    return oracle
