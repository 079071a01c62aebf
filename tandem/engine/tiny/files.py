"""The files of a tiny Hugging Face directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

__all__ = ["write_json", "write_tensors"]


def write_json(path: Path, value: object) -> None:
    """Write `value` as the publishers do: indented, text as it is."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")


def write_tensors(directory: Path, tensors: Mapping[str, Tensor], shards: int) -> None:
    """One safetensors file, or `shards` of them with an index."""
    metadata = {"format": "pt"}
    if shards == 1:
        save_file(dict(tensors), directory / "model.safetensors", metadata=metadata)
        return
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensor for index, (name, tensor) in enumerate(tensors.items()) if index % shards == shard}
        save_file(part, directory / file, metadata=metadata)
        weight_map.update(dict.fromkeys(part, file))
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    write_json(directory / "model.safetensors.index.json", index)
