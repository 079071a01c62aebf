"""Log-probabilities in the two shapes of OpenAI's API: the chat's, and the legacy one of text completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tandem.engine.verbs import TokenLogprob

__all__ = ["TokenNames", "chat_logprobs", "legacy_logprobs"]

FLOOR = -9999.0
"""Stands for minus infinity, which JSON does not have; OpenAI's own number for a token that is very unlikely."""


class TokenNames(Protocol):
    """What log-probabilities say of a token; a `TextModel` is one."""

    def name(self, token: int) -> str:
        """How the token is shown."""

    def piece(self, token: int) -> bytes:
        """The bytes it stands for."""


def chat_logprobs(logprobs: Sequence[TokenLogprob], names: TokenNames) -> list[dict[str, Any]]:
    """The entries of a chat choice's `logprobs.content`."""
    return [
        {
            **_entry(entry.token, entry.logprob, names),
            "top_logprobs": [_entry(token, logprob, names) for token, logprob in entry.top],
        }
        for entry in logprobs
    ]


def legacy_logprobs(logprobs: Sequence[TokenLogprob], text: str, at: int, names: TokenNames) -> dict[str, list[Any]]:
    """The `logprobs` of a piece of completion text that starts `at` characters into it.

    The token itself is always among its `top_logprobs`. Offsets count characters; a token that ends inside one has
    the offset of that character, and the next token too.
    """
    offsets: list[int] = []
    raw = b""
    for entry in logprobs:
        offsets.append(at + min(len(raw.decode("utf-8", "ignore")), len(text)))
        raw += names.piece(entry.token)
    return {
        "tokens": [names.name(entry.token) for entry in logprobs],
        "token_logprobs": [max(entry.logprob, FLOOR) for entry in logprobs],
        "top_logprobs": [_top(entry, names) for entry in logprobs],
        "text_offset": offsets,
    }


def _entry(token: int, logprob: float, names: TokenNames) -> dict[str, Any]:
    return {"token": names.name(token), "logprob": max(logprob, FLOOR), "bytes": list(names.piece(token))}


def _top(entry: TokenLogprob, names: TokenNames) -> dict[str, float]:
    top: dict[str, float] = {}
    # Two parts of characters can have one name; the better one stands.
    for token, logprob in (*entry.top, (entry.token, entry.logprob)):
        top.setdefault(names.name(token), max(logprob, FLOOR))
    return top
