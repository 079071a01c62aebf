"""The tokenizer and chat template inside a GGUF file (ENG-012)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.pre_tokenizers import PreTokenizer

from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.gguf import GgufFile
from tandem.engine.errors import CheckpointError
from tandem.engine.text.checkpoint import CheckpointText
from tandem.engine.text.tokenizer import BpeTokenizer

__all__ = ["build_tokenizer", "gguf_text"]

_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5  # of tokenizer.ggml.token_type

_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_TAIL}"
_QWEN2 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_TAIL}"


def _gpt2() -> list[PreTokenizer]:
    return [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]


def _digits() -> list[PreTokenizer]:
    return [pre_tokenizers.Digits(individual_digits=True), *_gpt2()]


def _one_pattern(pattern: str) -> list[PreTokenizer]:
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    return [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


_PRE = {
    "gpt-2": _gpt2,
    "olmo": _gpt2,
    "smollm": _digits,
    "starcoder": _digits,
    "llama-bpe": lambda: _one_pattern(_LLAMA3),
    "llama3": lambda: _one_pattern(_LLAMA3),
    "llama-v3": lambda: _one_pattern(_LLAMA3),
    "qwen2": lambda: _one_pattern(_QWEN2),
    "default": _gpt2,
}
"""How text is cut into words, by `tokenizer.ggml.pre`."""

_WHOLE_WORDS_FIRST = ("llama-bpe", "llama3", "llama-v3")
"""Vocabularies in which a word that is a token is taken whole, without merging."""


def build_tokenizer(
    tokens: Sequence[str], kinds: Sequence[int], merges: Sequence[str], *, pre: str = "default"
) -> Tokenizer:
    """A byte-level BPE with the ids of `tokens`; `kinds` are GGUF's token types, `merges` best first."""
    if pre not in _PRE:
        raise CheckpointError(f"tokenizer.ggml.pre {pre} is not served; served are: {', '.join(_PRE)}")
    vocabulary = {text: token for token, text in enumerate(tokens) if kinds[token] != _UNUSED}
    try:
        pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
        model = models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=pre in _WHOLE_WORDS_FIRST)
    except Exception as error:  # the library raises a bare Exception for a merge outside the vocabulary
        raise CheckpointError(f"tokenizer.ggml.merges: {error}") from error
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(_PRE[pre]())
    tokenizer.decoder = decoders.ByteLevel()
    for token, text in enumerate(tokens):
        if kinds[token] in (_CONTROL, _USER_DEFINED):
            special = kinds[token] == _CONTROL
            added = AddedToken(text, special=special, normalized=False)
            (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([added])
    return tokenizer


def gguf_text(file: GgufFile, config: ModelConfig) -> CheckpointText:
    """Tokenizer and chat template of the file. `CheckpointError` for a vocabulary that is not byte-level BPE."""
    if (model := file.get("tokenizer.ggml.model")) != "gpt2":
        raise CheckpointError(f"{file.path}: tokenizer.ggml.model {model} is not served, only gpt2 (byte-level BPE)")
    tokens: list[str] = file.require("tokenizer.ggml.tokens")
    merges: list[str] = file.require("tokenizer.ggml.merges")
    kinds: list[int] = file.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    pre: str = file.get("tokenizer.ggml.pre", "default")
    content = json.dumps([pre, tokens, kinds, merges], ensure_ascii=False)
    tokenizer = BpeTokenizer(
        build_tokenizer(tokens, kinds, merges, pre=pre), hashlib.sha256(content.encode()).hexdigest()
    )

    def text_of(kind: str) -> str:
        token = file.get(f"tokenizer.ggml.{kind}_token_id")
        return "" if token is None else tokens[token]

    return CheckpointText(
        tokenizer,
        template=file.get("tokenizer.chat_template"),
        end_ids=config.end_ids,
        bos_token=text_of("bos"),
        eos_token=text_of("eos"),
    )
