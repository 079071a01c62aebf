"""Digests of messages: whether a history that a client sends is the one it sent before (SES-004, NOTE-008, SMP-001).

A digest covers a message's role, content and calls, in a form that survives the way through a client: the reasoning
does not count, whether it stands in its own field or in `<think>` tags, nor do white space around a text, ids of calls
and the order of a call's arguments. The digest at a message is that of all messages up to it but system ones.

A history is sent again and again, so what a message adds to the digest before it is kept by the hash that Python gives
the message's strings, which is random per process and 64 bits long; the texts themselves are not kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

__all__ = ["DigestCache", "Digests"]

KEPT = 50_000
"""Links kept; past that all are forgotten, which costs one slow request for each conversation."""
SIZE = 16
HEADLESS = ("system", "developer")

OPENER, CLOSER = "<think>", "</think>"
Form: TypeAlias = tuple[Any, ...]
SYSTEM: Form = ("system", "")
"""Of any system message behind the head."""


class DigestCache:
    """Digests of histories that were seen. Any thread may use it: what two threads lose to each other is made again."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._links: dict[tuple[str, int], tuple[str | None, str]] = {}
        """What a message adds: (place before it, hash of it) to (chain, place) behind it."""

    def digests(self, messages: Sequence[Mapping[str, Any]], *, has_tools: bool, images: Sequence[str] = ()) -> Digests:
        """Those of a whole conversation."""
        head = next((at for at, message in enumerate(messages) if message["role"] not in HEADLESS), len(messages))
        chain: list[str | None] = [None] * head
        places: list[str] = []
        # Tools alone have a turn at the head too; of more than one system message each may have its own.
        digest, place = "", f"head {max(head, int(has_tools))}"
        links = self._links
        for message in messages[head:]:
            form = _form(message, images)
            link = links.get((place, hash(form))) or self._linked(digest, place, form)
            if link[0] is not None:
                digest = link[0]
            chain.append(link[0])
            place = link[1]
            places.append(place)
        return Digests(tuple(chain), tuple(places))

    def after(self, before: str | None, message: Mapping[str, Any]) -> str:
        """The digest of a conversation that goes on with `message`."""
        return _joined(before or "", _digest(_form(message, ())))

    def _linked(self, digest: str, place: str, form: Form) -> tuple[str | None, str]:
        own = _digest(form)
        link = None if form is SYSTEM else _joined(digest, own), _joined(place, own)
        if len(self._links) >= self._kept:
            self._links.clear()
        self._links[place, hash(form)] = link
        return link


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests of one conversation."""

    chain: tuple[str | None, ...] = ()
    """Of each message, that of the conversation up to it; None for a system message, which counts nowhere."""
    places: tuple[str, ...] = ()
    """Of each message behind the head, that by which a note in it is known again. A system message counts as one
    without its text, and so does the turn that a head, system text or tools, has: they move turn-end ids.
    """

    def before(self, index: int) -> str | None:
        """Of all messages before the one at `index`."""
        return next((digest for digest in reversed(self.chain[:index]) if digest is not None), None)

    @property
    def newest(self) -> str | None:
        return self.before(len(self.chain))

    @property
    def place(self) -> str | None:
        """Of a note that this turn adds."""
        return self.places[-1] if self.places else None


def _form(message: Mapping[str, Any], images: Sequence[str]) -> Form:
    """What of a message counts, as it was sent: strings in tuples."""
    role, content, calls = message["role"], message.get("content") or "", message.get("tool_calls")
    if role in HEADLESS:
        return SYSTEM
    if isinstance(content, list):
        content = tuple([_part(part, images) for part in content])
    if not calls:
        return role, content
    return role, content, *[_call(call.get("function") or {}) for call in calls]


def _call(function: Mapping[str, Any]) -> Form:
    arguments = function.get("arguments")
    return function.get("name"), arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _part(part: Mapping[str, Any], images: Sequence[str]) -> Form:
    if part["type"] != "image":
        return "text", part["text"]
    return "image", images[part["index"]] if part["index"] < len(images) else ""


def _returned(form: Form) -> Form:
    """The same in the form that survives the way through a client."""
    role, content, *calls = form
    if isinstance(content, str):
        content = (_without_thought(content) if role == "assistant" else content).strip()
    return role, content, *((name, _canonical(arguments)) for name, arguments in calls)


def _without_thought(text: str) -> str:
    """The text without its first thinking block and the white space before it; in linear time, whatever it holds."""
    start = text.find(OPENER)
    end = text.find(CLOSER, start) if start >= 0 else -1
    return text if end < 0 else text[:start].rstrip() + text[end + len(CLOSER) :]


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments or "{}"), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments


def _joined(before: str, own: bytes) -> str:
    return blake2b(before.encode() + own, digest_size=SIZE).hexdigest()


def _digest(form: Form) -> bytes:
    return blake2b(b"".join(_pieces(_returned(form))), digest_size=SIZE).digest()


def _pieces(form: Any) -> Iterator[bytes]:
    """Every text behind its length, so that no text can be taken for the brackets."""
    if isinstance(form, tuple):
        yield b"("
        for each in form:
            yield from _pieces(each)
        yield b")"
    else:
        text = ("" if form is None else str(form)).encode("utf-8", "surrogatepass")
        yield b"%d:" % len(text) + text
