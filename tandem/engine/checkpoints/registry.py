"""Which model package serves which declared architecture (ENG-002). Names of models stand here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tandem.engine.errors import CheckpointError

__all__ = ["ARCHITECTURES", "architecture_of", "defaults_of"]

ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "llama": "llama",
    "Qwen3_5ForCausalLM": "qwen3_5",
    "Qwen3_5ForConditionalGeneration": "qwen3_5",
    "qwen3_5": "qwen3_5",
    "qwen3_5_text": "qwen3_5",
}
"""`architectures` of a config.json and `general.architecture` of a GGUF file, to the name of a model package."""

_DEFAULTS: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {"qwen3_5": {"full_attention_interval": 4, "partial_rotary_factor": 0.25, "attn_output_gate": True}}
)


def architecture_of(declared: str, where: str) -> str:
    """The model package for `declared`; `CheckpointError` names an unknown one and the file, `where`."""
    try:
        return ARCHITECTURES[declared]
    except KeyError:
        known = ", ".join(sorted(set(ARCHITECTURES.values())))
        raise CheckpointError(f"{where}: architecture {declared} is not served; served are: {known}") from None


def defaults_of(architecture: str) -> Mapping[str, object]:
    """What a `config.json` of the package means where it leaves a key out, by that key."""
    return _DEFAULTS.get(architecture, {})
