"""What the `config.json` of a block drafter says (ENG-047, ENG-054); docs/models.md describes the directory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.engine.errors import CheckpointError

__all__ = ["ARCHITECTURE", "BlockConfig", "read_block_config"]

ARCHITECTURE: Final = "TandemBlockDrafter"
_WHOLE: Final = (
    "hidden_size",
    "vocab_size",
    "block_width",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "bigram_rank",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockConfig:
    """Its sizes, and what it reads of a target: hidden width, layers, vocabulary, tokenizer."""

    name: str
    hidden_size: int
    vocab_size: int
    tokenizer_sha256: str
    tapped_layers: tuple[int, ...]
    block_width: int
    """Slots of a wide block; a narrow one has 7."""
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    bigram_rank: int
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-6


def read_block_config(path: Path) -> BlockConfig:
    """`CheckpointError` names the file and the key that is missing or wrong."""
    file = path / "config.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"--block-drafter {path}: no config.json that can be read") from error
    if not isinstance(found, dict) or found.get("architectures") != [ARCHITECTURE]:
        raise CheckpointError(f"--block-drafter {file}: architectures is not [{ARCHITECTURE!r}]")
    for name in _WHOLE:
        if type(found.get(name)) is not int or found[name] < 1:
            raise CheckpointError(f"--block-drafter {file}: {name} is not a whole number above 0")
    taps, sha = found.get("tapped_layers"), found.get("tokenizer_sha256")
    if not isinstance(taps, list) or not taps or any(type(at) is not int or at < 0 for at in taps):
        raise CheckpointError(f"--block-drafter {file}: tapped_layers is no list of layers")
    if sorted(set(taps)) != taps:
        raise CheckpointError(f"--block-drafter {file}: tapped_layers do not rise")
    if not isinstance(sha, str):
        raise CheckpointError(f"--block-drafter {file}: tokenizer_sha256 is missing")
    config = BlockConfig(
        name=path.name,
        tapped_layers=tuple(taps),
        tokenizer_sha256=sha,
        rope_theta=float(found.get("rope_theta", 10_000.0)),
        rms_norm_eps=float(found.get("rms_norm_eps", 1e-6)),
        **{name: found[name] for name in _WHOLE},
    )
    if config.num_attention_heads % config.num_key_value_heads or config.head_dim % 2:
        raise CheckpointError(f"--block-drafter {file}: heads that do not divide, or a head_dim that is odd")
    return config
