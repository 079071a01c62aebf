"""A strict reader of server-sent events: fails on anything that any client in use might read differently."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["comments_of", "content_of", "events", "objects"]


def events(raw: bytes) -> list[str]:
    """Payloads of the `data:` lines. Each event is one such line or one comment, ended by a blank line."""
    text = raw.decode("utf-8")
    assert text == "" or text.endswith("\n\n")
    payloads = []
    for block in text.split("\n\n")[:-1]:
        assert block.splitlines() == [block], "an event is one line for every line splitter"
        if block.startswith(": "):
            continue
        assert block.startswith("data: ")
        payload = block.removeprefix("data: ")
        assert payload, "an event without data breaks SDKs"
        payloads.append(payload)
    return payloads


def comments_of(raw: bytes) -> list[str]:
    return [block[2:] for block in raw.decode().split("\n\n") if block.startswith(": ")]


def objects(raw: bytes) -> list[dict[str, Any]]:
    """The chunks of a whole stream, which ends with `[DONE]`."""
    *chunks, done = events(raw)
    assert done == "[DONE]"
    return [json.loads(chunk, parse_constant=_refuse) for chunk in chunks]


def content_of(chunks: list[dict[str, Any]], name: str = "content") -> str:
    return "".join(chunk["choices"][0]["delta"].get(name) or "" for chunk in chunks if chunk["choices"])


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")
