"""Which quantised checkpoints are served, by what their configs declare (ENG-022, ENG-023).

The tensors say themselves how they are stored, so a config is only asked whether it means something else by them.
Served are:

- `quant_method` `fp8` with e4m3 codes and a `weight_block_size` of [128, 128]: `weight` beside `weight_scale_inv`.
- `modelopt`, `quant_algo` `NVFP4`, groups of 16: `weight`, `weight_scale`, `weight_scale_2`.
- `compressed-tensors`, format `nvfp4-pack-quantized`: `weight_packed`, `weight_scale`, and `weight_global_scale`, which
  is one over the scale of the formula.

Scales of activations (`input_scale` and the like) are left out: activations stay in 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tandem.engine.checkpoints.fp8 import BLOCK
from tandem.engine.checkpoints.nvfp4 import GROUP
from tandem.engine.errors import CheckpointError

__all__ = ["require_served_quantisation"]


def require_served_quantisation(declared: Mapping[str, Any], where: str) -> None:
    """`CheckpointError` names what a `quantization_config` declares that is not served; `where` is its file."""
    method = declared.get("quant_method")
    match method:
        case "fp8":
            wrong = _fp8(declared)
        case "modelopt":
            wrong = _modelopt(declared)
        case "compressed-tensors":
            kind = declared.get("format")
            wrong = None if kind == "nvfp4-pack-quantized" else f"{method} {kind}"
        case _:
            wrong = str(method)
    if wrong is not None:
        raise CheckpointError(f"{where}: weights quantised as {wrong} are not served")


def _fp8(declared: Mapping[str, Any]) -> str | None:
    kind, size = declared.get("fmt", "e4m3"), declared.get("weight_block_size")
    if kind != "e4m3":
        return f"fp8 {kind}"
    if size != [BLOCK, BLOCK]:
        return f"fp8 with weight_block_size {size}"
    scales = declared.get("scale_fmt", "float")
    return None if scales in ("float", None) else f"fp8 with scale_fmt {scales}"


def _modelopt(declared: Mapping[str, Any]) -> str | None:
    kind = declared.get("quant_algo")
    if kind != "NVFP4":
        return f"modelopt {kind}"
    weights = [group.get("weights") or {} for group in (declared.get("config_groups") or {}).values()]
    sizes = {declared.get("group_size"), *(each.get("group_size") for each in weights)} - {None, GROUP}
    return f"modelopt NVFP4 with group_size {sizes.pop()}" if sizes else None
