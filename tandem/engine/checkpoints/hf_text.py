"""The tokenizer and chat template of a Hugging Face directory (ENG-012)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.hf_config import read_json
from tandem.engine.errors import CheckpointError
from tandem.engine.text.checkpoint import CheckpointText
from tandem.engine.text.tokenizer import BpeTokenizer

__all__ = ["hf_text"]


def hf_text(directory: Path, config: ModelConfig) -> CheckpointText:
    """`tokenizer.json` with the template of `chat_template.jinja`, else of `tokenizer_config.json`."""
    path = directory / "tokenizer.json"
    try:
        content = path.read_bytes()
        tokenizer = Tokenizer.from_str(content.decode())
    except Exception as error:  # the library raises a bare Exception for a file it cannot parse
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    card_path = directory / "tokenizer_config.json"
    card = read_json(card_path) if card_path.exists() else {}
    return CheckpointText(
        BpeTokenizer(tokenizer, hashlib.sha256(content).hexdigest()),
        template=_template(directory, card),
        end_ids=config.end_ids,
        bos_token=_token(card.get("bos_token")),
        eos_token=_token(card.get("eos_token")),
    )


def _template(directory: Path, card: dict[str, Any]) -> str | None:
    path = directory / "chat_template.jinja"
    if path.exists():
        return path.read_text(encoding="utf-8")
    template = card.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    return template


def _token(value: Any) -> str:
    """A token of the card: a string, or an object with its `content`."""
    if isinstance(value, dict):
        value = value.get("content")
    return value or ""
