"""How clients cut a stream into parts, and what of it they send back with their next request (STA-011).

Ported from what these clients do, each rule in one place: the AI SDK ends a reasoning part at any content and at any
`tool_calls`, and keeps one text part; opencode trims each part's end, and the parts of a kind are joined without
anything. Open WebUI begins a part whenever the kind changes, strips each, joins those of the answer by line breaks and
drops reasoning. Hermes cuts the tags out of the content. A plain SDK adds up what comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["CLIENTS", "Chunks"]

Chunks: TypeAlias = Sequence[Mapping[str, Any]]
Part: TypeAlias = tuple[str, str]


def deltas(chunks: Chunks) -> Iterable[Mapping[str, Any]]:
    for chunk in chunks:
        for choice in chunk["choices"]:
            yield choice["delta"]


def opencode_parts(chunks: Chunks) -> list[Part]:
    """Parts in the order in which they were begun."""
    texts: list[list[str]] = []
    reasoning: list[str] | None = None
    answer: list[str] | None = None
    kinds: list[str] = []
    for delta in deltas(chunks):
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            if reasoning is None:
                reasoning = []
                texts.append(reasoning)
                kinds.append("reasoning")
            reasoning.append(thought)
        if text := delta.get("content"):
            reasoning = None
            if answer is None:
                answer = []
                texts.append(answer)
                kinds.append("text")
            answer.append(text)
        if delta.get("tool_calls") is not None:
            reasoning = None
    return [(kind, "".join(text).rstrip()) for kind, text in zip(kinds, texts, strict=True)]


def opencode(chunks: Chunks) -> dict[str, Any]:
    parts = opencode_parts(chunks)
    return _message(
        "".join(text for kind, text in parts if kind == "text"),
        "".join(text for kind, text in parts if kind == "reasoning"),
    )


def open_webui(chunks: Chunks) -> dict[str, Any]:
    parts: list[tuple[str, list[str]]] = []
    for delta in deltas(chunks):
        for name in ("reasoning_content", "content"):
            if text := delta.get(name):
                if not parts or parts[-1][0] != name:
                    parts.append((name, []))
                parts[-1][1].append(text)
    texts = ["".join(text).strip() for name, text in parts if name == "content"]
    return _message("\n".join(text for text in texts if text), "")


def hermes(chunks: Chunks) -> dict[str, Any]:
    text = "".join(delta.get("content") or "" for delta in deltas(chunks))
    return _message(re.sub(r"<think>.*?</think>\s*", "", text, flags=re.DOTALL).strip(), "")


def plain(chunks: Chunks) -> dict[str, Any]:
    return _message(
        "".join(delta.get("content") or "" for delta in deltas(chunks)),
        "".join(delta.get("reasoning_content") or "" for delta in deltas(chunks)),
    )


def _message(content: str, reasoning: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": content,
        **({"reasoning_content": reasoning} if reasoning else {}),
    }


CLIENTS: Mapping[str, Callable[[Chunks], dict[str, Any]]] = {
    "opencode": opencode,
    "open-webui": open_webui,
    "hermes": hermes,
    "openai-sdk": plain,
}
