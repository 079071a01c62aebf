"""The tokenizers of the tiny checkpoints: byte-level BPE trained on a few sentences."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

__all__ = ["QWEN_MARKERS", "QWEN_TAGS", "SPECIALS", "qwen_tokenizer", "tiny_tokenizer"]

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

QWEN_MARKERS = (
    *SPECIALS,
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
"""Tokens of Qwen's tokenizers that no text holds."""
QWEN_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Tokens of theirs that are text: what the model writes with them is delivered."""

_CORPUS = (
    "The quick brown fox jumps over the lazy dog. It's one of the oldest sentences that hold every letter.",
    "A server reads a prompt, decodes a block of tokens and streams the answer to the client that asked for it.",
    "system user assistant tool function name arguments content message messages call calls",
    "def main(argv: list[str]) -> int:\n    for index, value in enumerate(argv):\n        print(index, value)\n",
    '{"name": "read_file", "arguments": {"path": "/tmp/notes.txt", "limit": 100}}',
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Où est la bibliothèque?",
)


def tiny_tokenizer(vocab_size: int = 400) -> Tokenizer:
    """About `vocab_size` tokens; the markers of `SPECIALS` are ids 0, 1 and 2."""
    return _trained(vocab_size, SPECIALS)


def qwen_tokenizer(vocab_size: int = 380) -> Tokenizer:
    """About `vocab_size` tokens of text, and behind them `QWEN_MARKERS` and `QWEN_TAGS`."""
    tokenizer = _trained(vocab_size, ())
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in QWEN_MARKERS])
    tokenizer.add_tokens([AddedToken(name, special=False, normalized=False) for name in QWEN_TAGS])
    return tokenizer


def _trained(vocab_size: int, specials: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[AddedToken(name, special=True, normalized=False) for name in specials],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer
