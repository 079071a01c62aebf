"""What `tandem models make-tiny` makes, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from tandem.engine.errors import CheckpointError
from tandem.engine.tiny.gguf import build_gguf
from tandem.engine.tiny.llama import build_llama
from tandem.engine.tiny.qwen3_5 import build_qwen3_5
from tandem.engine.tiny.templates import TOOL_CHATML

__all__ = ["DEFAULT_HIDDEN", "KINDS", "Kind", "make_tiny"]

DEFAULT_HIDDEN = 64
_HIDDEN_UNIT = 32
_WINDOW = 4096


class Kind(Protocol):
    """Writes one kind of checkpoint into a directory that is there, and returns what to serve."""

    def __call__(self, directory: Path, *, seed: int, **overrides: Any) -> Path: ...


def _llama(directory: Path, *, seed: int, **overrides: Any) -> Path:
    return build_llama(directory, seed=seed, template=TOOL_CHATML, **_llama_sizes(overrides))


def _gguf(directory: Path, *, seed: int, **overrides: Any) -> Path:
    path = directory / "tiny-llama-F32.gguf"
    return build_gguf(path, seed=seed, template=TOOL_CHATML, **_llama_sizes(overrides))


def _llama_sizes(overrides: Mapping[str, Any]) -> dict[str, Any]:
    hidden = overrides.get("hidden_size", DEFAULT_HIDDEN)
    return {
        "max_position_embeddings": _WINDOW,
        "intermediate_size": 3 * hidden // 2,
        "num_attention_heads": hidden // 16,
        "num_key_value_heads": hidden // 32,
        **overrides,
    }


KINDS: Mapping[str, tuple[str, Kind]] = MappingProxyType(
    {
        "llama": ("a Llama decoder", _llama),
        "llama-gguf": ("the same as a GGUF file", _gguf),
        "qwen3_5": ("a hybrid decoder of the Qwen3.5 family in BF16", build_qwen3_5),
        "qwen3_5-fp8": ("the same with its projections in FP8 blocks", partial(build_qwen3_5, codes="fp8")),
        "qwen3_5-nvfp4": ("the same with its projections in NVFP4", partial(build_qwen3_5, codes="nvfp4")),
        "qwen3_5-vision": ("the BF16 one with a vision tower", partial(build_qwen3_5, vision=True)),
    }
)
"""What each kind is, in words, and its builder."""


def make_tiny(
    kind: str,
    directory: Path,
    *,
    seed: int = 0,
    layers: int | None = None,
    hidden: int | None = None,
) -> Path:
    """Make a checkpoint of `kind` in `directory`, which is empty or not there yet; returns what to serve.

    `CheckpointError` says what is wrong with the directory or a size.
    """
    build = KINDS[kind][1]
    if hidden is not None and (hidden < _HIDDEN_UNIT or hidden % _HIDDEN_UNIT):
        raise CheckpointError(f"hidden {hidden}: must be a multiple of {_HIDDEN_UNIT}, which the heads divide")
    if layers is not None and layers < 1:
        raise CheckpointError(f"layers {layers}: must be at least 1")
    sizes = {"num_hidden_layers": layers, "hidden_size": hidden}
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise CheckpointError(f"{directory}: is there and is no empty directory; nothing was written")
        directory.mkdir(parents=True, exist_ok=True)
        return build(directory, seed=seed, **{name: size for name, size in sizes.items() if size is not None})
    except OSError as error:
        raise CheckpointError(f"{directory}: {error.strerror or error}") from error
