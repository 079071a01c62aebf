"""Which model package serves which declared architecture (ENG-002). Only this file names packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.errors import CheckpointError
from tandem.engine.models.llama import declared_fit, load_llama
from tandem.engine.models.model import Load, LoadDraftLayer, LoadDraftLayerOnDevice, LoadOnDevice
from tandem.engine.models.qwen3_5 import load_mtp, load_mtp_device, load_qwen3_5, load_qwen3_5_device

__all__ = [
    "DEVICE_DRAFT_LAYERS",
    "DEVICE_PACKAGES",
    "DRAFT_LAYERS",
    "PACKAGES",
    "device_draft_layer_of",
    "device_package_of",
    "draft_layer_of",
    "fit_of",
    "package_of",
]

PACKAGES: Mapping[str, Load] = MappingProxyType({"llama": load_llama, "qwen3_5": load_qwen3_5})
DEVICE_PACKAGES: Mapping[str, LoadOnDevice] = MappingProxyType({"qwen3_5": load_qwen3_5_device})
DRAFT_LAYERS: Mapping[str, LoadDraftLayer] = MappingProxyType({"qwen3_5": load_mtp})
DEVICE_DRAFT_LAYERS: Mapping[str, LoadDraftLayerOnDevice] = MappingProxyType({"qwen3_5": load_mtp_device})
FITS: Mapping[str, Callable[[ModelConfig], Mapping[str, object]]] = MappingProxyType({"llama": declared_fit})


def package_of(architecture: str) -> Load:
    """The package that serves `architecture`; `CheckpointError` names an unknown one and those there are."""
    try:
        return PACKAGES[architecture]
    except KeyError:
        known = ", ".join(sorted(PACKAGES))
        raise CheckpointError(f"architecture {architecture!r} is not supported; supported are: {known}") from None


def device_package_of(architecture: str) -> LoadOnDevice | None:
    """What loads models of `architecture` for a device with kernels; None where they are served on the CPU alone."""
    return DEVICE_PACKAGES.get(architecture)


def draft_layer_of(architecture: str) -> LoadDraftLayer | None:
    """What loads the drafting layer of a checkpoint of `architecture`; None where no package has such a layer."""
    return DRAFT_LAYERS.get(architecture)


def device_draft_layer_of(architecture: str) -> LoadDraftLayerOnDevice | None:
    """The same beside a model on a device."""
    return DEVICE_DRAFT_LAYERS.get(architecture)


def fit_of(config: ModelConfig, *, thinks: bool = True) -> Mapping[str, object]:
    """What the package of a checkpoint declares to the conductor (FIT-004); empty where it declares nothing.

    One that never `thinks` is not told how hard to: it would write about that (FIT-009).
    """
    declare = FITS.get(config.architecture)
    declared = {} if declare is None else declare(config)
    return declared if thinks else {**declared, "effort_note": False}
