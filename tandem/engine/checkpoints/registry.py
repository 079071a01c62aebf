"""Which model package serves which declared architecture (ENG-002). Names of models stand here and nowhere else."""

from __future__ import annotations

from tandem.engine.errors import CheckpointError

__all__ = ["ARCHITECTURES", "architecture_of"]

ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "llama": "llama",
}
"""`architectures` of a config.json and `general.architecture` of a GGUF file, to the name of a model package."""


def architecture_of(declared: str, where: str) -> str:
    """The model package for `declared`; `CheckpointError` names an unknown one and the file, `where`."""
    try:
        return ARCHITECTURES[declared]
    except KeyError:
        known = ", ".join(sorted(set(ARCHITECTURES.values())))
        raise CheckpointError(f"{where}: architecture {declared} is not served; served are: {known}") from None
