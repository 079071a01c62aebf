"""Which model package serves which declared architecture (ENG-002). Only this file names packages."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tandem.engine.errors import CheckpointError
from tandem.engine.models.llama import load_llama
from tandem.engine.models.model import Load
from tandem.engine.models.qwen3_5 import load_qwen3_5

__all__ = ["PACKAGES", "package_of"]

PACKAGES: Mapping[str, Load] = MappingProxyType({"llama": load_llama, "qwen3_5": load_qwen3_5})


def package_of(architecture: str) -> Load:
    """The package that serves `architecture`; `CheckpointError` names an unknown one and those there are."""
    try:
        return PACKAGES[architecture]
    except KeyError:
        known = ", ".join(sorted(PACKAGES))
        raise CheckpointError(f"architecture {architecture!r} is not supported; supported are: {known}") from None
