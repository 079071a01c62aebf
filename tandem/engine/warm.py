"""What a load gives an engine's caches: the name of what they hold, and the memory they may take (ENG-117, ENG-124)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import torch

from tandem.engine.caches.budget import Limits, WorkspaceEstimate
from tandem.engine.caches.device_memory import DeviceMemory
from tandem.engine.caches.fingerprint import Fingerprint, config_hash
from tandem.engine.caches.policy import Policy
from tandem.engine.caches.process_memory import ProcessMemory, memory_limit
from tandem.engine.caches.settings import NO_CACHES, CacheSettings
from tandem.engine.caches.sides import Side
from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.load import Checkpoint
from tandem.engine.memory import GIB, available, cuda_board
from tandem.engine.models.formats import kernel_of
from tandem.engine.models.model import DeviceModel, Model
from tandem.engine.models.placement import Placement
from tandem.engine.models.state import State

__all__ = ["COLD", "Warm", "estimate_of", "fingerprint_of", "kernels_of", "policy_of", "warm_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """All that a `TorchEngine` is given for its caches."""

    caches: CacheSettings = NO_CACHES
    fingerprint: str = ""
    policy: Policy | None = None
    suffix: Side | None = None


COLD: Final = Warm()


def warm_of(
    checkpoint: Checkpoint,
    placement: Placement,
    caches: CacheSettings,
    *,
    window: int,
    grid: int,
    cpu_weights: str,
    kernels: Mapping[str, str],
    others: int,
    suffix: Side | None,
) -> Warm:
    """For the engine of a checkpoint whose weights are in memory; `others` as for `policy_of`."""
    named = ", ".join(f"{name} {kernel}" for name, kernel in sorted(kernels.items()))
    return Warm(
        caches=caches,
        fingerprint=fingerprint_of(checkpoint, placement, cpu_weights, grid, named),
        policy=policy_of(checkpoint.config, placement, window, grid, caches, others),
        suffix=suffix,
    )


def fingerprint_of(checkpoint: Checkpoint, placement: Placement, cpu_weights: str, grid: int, kernels: str) -> str:
    """Of all that moves a bit of a row. Threads do: a product that is split elsewhere is summed elsewhere."""
    on_cpu = placement.device.type == "cpu"
    runtime = [f"torch {torch.__version__}", str(placement.device), kernels]
    if on_cpu:
        runtime += [f"{torch.get_num_threads()} threads", torch.backends.cpu.get_cpu_capability()]
        runtime.append(f"layers {kernel_of('layers')}")
    else:
        runtime.append(torch.cuda.get_device_name())
    return Fingerprint(
        weights=checkpoint.weights_key,
        tokenizer=checkpoint.text.sha256,
        config=config_hash(checkpoint.config),
        grid=grid,
        numbers=cpu_weights if on_cpu else f"stored, rows {placement.kv}",
        runtime=", ".join(runtime),
    ).digest


def policy_of(
    config: ModelConfig, placement: Placement, window: int, grid: int, caches: CacheSettings, others: int
) -> Policy:
    """The gate of an engine that is loaded but for its buffers; `others` are budgets beside those of `caches`.

    On a device the peak is the ceiling and a prefill's workspace. On the CPU everything in the process counts, images
    that are being read too, so there the peak is what the process may take at all.
    """
    if not caches.gate:
        return Policy()
    estimate, given = estimate_of(config, placement, grid), (caches.mem_ceiling, caches.mem_peak)
    growth = State.bytes_for(config, window, placement) + caches.total + others
    workspace = estimate.of(window)
    if placement.device.type == "cpu":
        memory = ProcessMemory()
        most = memory_limit()
        ceiling = memory.reserved() + growth + workspace
        if most is not None:
            ceiling = min(ceiling, most)
        limits = Limits.of(ceiling, ceiling + workspace if most is None else most, *given)
        return Policy(estimate, replace(limits, most=most), memory)
    device = DeviceMemory()
    ceiling, free = device.reserved() + growth, available(board=cuda_board())
    most = ceiling + workspace if free is None else min(ceiling + workspace, device.reserved() + free)
    return Policy(estimate, Limits.of(min(ceiling, most), most, *given), device, device.measured)


def estimate_of(config: ModelConfig, placement: Placement, grid: int) -> WorkspaceEstimate:
    """A pass keeps some activations of each of its rows; a model of 27B never takes less than 1.15 GiB (ENG-130)."""
    per_row = placement.dtype.itemsize * (16 * config.hidden_size + 4 * config.intermediate_size)
    least = round(1.15 * GIB * config.hidden_size / 5120)
    return WorkspaceEstimate(grid, per_row=per_row, least=least)


def kernels_of(model: Model) -> dict[str, str]:
    """What multiplies and what else serves, for the load report (ENG-031)."""
    if isinstance(model, DeviceModel):
        return dict(model.kernels)
    return {kind: kernel_of(kind) for kind in model.formats}
