"""Where a model and its sequences lie, and in what types it computes there (ENG-016).

On the CPU everything beside the matrices is in fp32. On a CUDA device activations, keys and values are in bf16, as the
reference computes them. What recurrent layers remember is in fp32 everywhere, but for their convolutions' inputs, which
are activations.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import torch

from tandem.engine.errors import CheckpointError

__all__ = ["CPU", "CUDA", "Device", "Placement", "absence", "placed"]

Device: TypeAlias = Literal["auto", "cpu", "cuda"]
"""The values of `--device`."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A device, and the types of activations and of keys and values on it."""

    device: torch.device
    dtype: torch.dtype
    kv: torch.dtype


CPU: Final = Placement(torch.device("cpu"), torch.float32, torch.float32)
CUDA: Final = Placement(torch.device("cuda"), torch.bfloat16, torch.bfloat16)


def absence() -> str:
    """Why no model can be served on a CUDA device here; empty where one can."""
    if not torch.cuda.is_available():
        return "there is no CUDA device that torch can use"
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed (pip install 'tandem-llm[gpu]')"
    return ""


def placed(device: Device, architecture: str, *, served: bool, lacking: str) -> Placement:
    """Where a model of `architecture` goes that has a package for CUDA if `served`; `lacking` is an `absence`.

    `CheckpointError` where CUDA is asked for and is not to be had.
    """
    reason = lacking or ("" if served else f"models of the architecture {architecture} run on the CPU alone")
    if device == "cuda" and reason:
        raise CheckpointError(f"--device cuda: {reason}; --device cpu serves it")
    return CPU if device == "cpu" or reason else CUDA
