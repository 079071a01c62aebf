"""Digests of messages: whether a history that a client sends is the one it sent before (SES-004, NOTE-008, SMP-001).

A digest covers a message's role, content and calls, in a form that survives the way through a client: the reasoning
does not count, whether it stands in its own field or in `<think>` tags, nor do white space around a text, ids of calls
and the order of a call's arguments. The digest at a message is that of all messages up to it but system ones.

A history is sent again and again, so digests are kept by the hash that Python gives a message's strings, which is
random per process and 64 bits long; the texts themselves are not kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

__all__ = ["DigestCache", "Digests"]

KEPT = 50_000
"""Messages whose digest is kept; past that all are forgotten, which costs one slow request for each conversation."""
SIZE = 16
HEADLESS = ("system", "developer")

_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
Form: TypeAlias = tuple[Any, ...]


class DigestCache:
    """Digests of messages that were seen. Any thread may use it: what two threads lose to each other is made again."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._digests: dict[tuple[int, int], bytes] = {}

    def of(self, message: Mapping[str, Any], images: Sequence[str] = ()) -> bytes:
        """The digest of one message by itself."""
        form = _form(message, images)
        key = (hash(form), len(form))
        digest = self._digests.get(key)
        if digest is None:
            hasher = blake2b(digest_size=SIZE)
            for piece in _pieces(_returned(form)):
                hasher.update(b"%d:" % len(piece) + piece)
            digest = hasher.digest()
            if len(self._digests) >= self._kept:
                self._digests.clear()
            self._digests[key] = digest
        return digest

    def digests(self, messages: Sequence[Mapping[str, Any]], *, has_tools: bool, images: Sequence[str] = ()) -> Digests:
        """Those of a whole conversation."""
        head = next((at for at, message in enumerate(messages) if message["role"] not in HEADLESS), len(messages))
        chain: list[str | None] = [None] * head
        places: list[str] = []
        digest, place = b"", b"head" if head or has_tools else b"none"
        for message in messages[head:]:
            if message["role"] in HEADLESS:
                chain.append(None)
                own = b"system"
            else:
                own = self.of(message, images)
                digest = blake2b(digest + own, digest_size=SIZE).digest()
                chain.append(digest.hex())
            place = blake2b(place + own, digest_size=SIZE).digest()
            places.append(place.hex())
        return Digests(tuple(chain), tuple(places))

    def after(self, before: str | None, message: Mapping[str, Any]) -> str:
        """The digest of a conversation that goes on with `message`."""
        return blake2b(bytes.fromhex(before or "") + self.of(message), digest_size=SIZE).hexdigest()


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
    content = message.get("content")
    calls = message.get("tool_calls")
    if not calls and isinstance(content, str):
        return message["role"], content
    if isinstance(content, list):
        content = tuple(
            ("image", images[part["index"]] if part["index"] < len(images) else "")
            if part["type"] == "image"
            else ("text", part["text"])
            for part in content
        )
    if not calls:
        return message["role"], content or ""
    functions = (call.get("function") or {} for call in calls)
    return message["role"], content or "", tuple((f.get("name"), _text(f.get("arguments"))) for f in functions)


def _returned(form: Form) -> Form:
    """The same in the form that survives the way through a client."""
    role, content, *calls = form
    if isinstance(content, str):
        content = (_THOUGHT.sub("", content, count=1) if role == "assistant" else content).strip()
    return role, content, *(tuple((name, _canonical(arguments)) for name, arguments in each) for each in calls)


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments or "{}"), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments


def _pieces(form: Any) -> Iterator[bytes]:
    if isinstance(form, tuple):
        yield b"("
        for each in form:
            yield from _pieces(each)
        yield b")"
    else:
        yield ("" if form is None else str(form)).encode("utf-8", "surrogatepass")
