"""A rejected call block with what it lacks at its end (MON-094). Pure.

Only what closes a call is added, and only behind a value that is whole: who cannot know whether a text has ended does
not end it. What comes of it is read by the codec that had rejected it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tandem.engine.text.reading.calls import CallCodec, Text, pythonic_calls, xml_calls
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart

__all__ = ["LONGEST", "Repaired", "repaired"]

LONGEST: Final = 262_144
"""Characters of a block that is repaired."""
OPEN, CLOSE, FUNCTION = "<tool_call>", "</tool_call>", "</function>"
LIST_OPEN, LIST_CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*("?)|([{\[])|([}\]])', re.S)
PAIRS: Final = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True)
class Repaired:
    """A call that the block holds after all."""

    name: str
    arguments: str


def repaired(text: str, tools: Sequence[Mapping[str, Any]]) -> tuple[Repaired, ...]:
    """The calls of a block, nothing but closing marks added to it; empty where that is not enough or not certain."""
    block = text.strip()
    if len(block) > LONGEST:
        return ()
    if block.startswith((LIST_OPEN, "[")):
        whole = _list(block)
        codec = pythonic_calls
    else:
        whole = _tagged(block)
        codec = xml_calls
    if whole is None:
        return ()
    return _read(codec(tools, live=False, new_id=str), whole)


def _tagged(block: str) -> str | None:
    body = block.removesuffix(CLOSE).rstrip()
    opened = body.startswith(OPEN)
    inner = body.removeprefix(OPEN).lstrip()
    if opened and inner.startswith("{"):
        closed = _balanced(inner)
        return None if closed is None else f"{OPEN}\n{closed}\n{CLOSE}"
    if body.rfind("<parameter=") > body.rfind("</parameter>"):
        return None
    if not body.endswith(FUNCTION):
        body = f"{body}\n{FUNCTION}"
    return f"{body}\n{CLOSE}" if opened else body


def _list(block: str) -> str | None:
    body = block.removeprefix(LIST_OPEN).removesuffix(LIST_CLOSE).strip()
    if not body.endswith((")", "]")):
        return None
    body = body if body.endswith("]") else f"{body}]"
    return f"{LIST_OPEN}{body}{LIST_CLOSE}"


def _balanced(text: str) -> str | None:
    """JSON with the brackets that are open at its end closed; None inside a string or a number, or where they cross."""
    if text[-1:] not in ('"', "}", "]"):
        return None
    stack: list[str] = []
    for match in TOKEN.finditer(text):
        if match[2]:
            stack.append(PAIRS[match[2]])
        elif match[3]:
            if not stack or stack.pop() != match[3]:
                return None
        elif not match[1]:
            return None
    return text + "".join(reversed(stack))


def _read(codec: CallCodec, text: str) -> tuple[Repaired, ...]:
    """The calls, if the codec finds nothing else."""
    calls: list[Repaired] = []
    name, pieces = "", list[str]()
    for piece in (*codec.feed(text), *codec.end()):
        match piece:
            case CallStart():
                name, pieces = piece.name, []
            case CallArguments():
                pieces.append(piece.text)
            case CallEnd():
                calls.append(Repaired(name, "".join(pieces)))
            case Text() if piece.why is not None or piece.text.strip():
                return ()
            case Text():
                pass
    return tuple(calls)
