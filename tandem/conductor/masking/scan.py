"""The secrets that a conversation's tool results hold (MEM-008, MEM-009). Pure, and linear in the text.

Results come again with every request, so what each holds is kept by the hash that Python gives its text: random per
process, 64 bits long, beside the length. The texts are not kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from tandem.conductor.masking.kinds import KINDS, LEAST, LONG_BODY, NAME, PLACEHOLDERS, SHAPES, KindName, Needs, Shape

__all__ = ["Secret", "SecretCache", "secrets_of"]

KEPT = 50_000
"""Results of which the secrets are kept; past that all are forgotten, which costs one slow request a conversation."""
MOST = 2_000
"""Secrets of one conversation, those of the newest results first."""
MOST_CHARS = 100_000
"""Of all of them: the machine that looks for them has a state for each character."""
KEPT_CHARS = 5_000_000
"""Of all results' secrets that are kept."""
LONGEST = 8_192
APART = "\n" * 9
"""More white space than a shape reaches across."""

_PEM_LINE = re.compile(r"[A-Za-z0-9+/=]{16,}")
_BREAK = re.compile(r"\\[nr]|\s")
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_TRAIL = ".,:;!?"
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that an answer must not repeat."""

    kind: KindName
    value: str
    keeps: str = ""
    """Its beginning that stays."""

    def __repr__(self) -> str:
        """Without the value, which no log and no traceback may show (MEM-013)."""
        return f"Secret(kind={self.kind!r}, {len(self.value)} characters)"


def secrets_of(text: str) -> tuple[Secret, ...]:
    """The secrets that one tool result holds, in its text or in the JSON strings it is made of."""
    leaves = _leaves(text)
    # A key reaches to its end or to that of its text, so a text that may hold one is searched by itself.
    keys, others = [text], list[str]()
    for _, value in leaves:
        (keys if "PRIVATE KEY" in value else others).append(value)
    found = [secret for each in (*keys, APART.join(others)) for secret in _matches(each)]
    return _unique([*found, *(Secret("assigned_secret", value) for name, value in leaves if _is_member(name, value))])


class SecretCache:
    """The secrets of results that were seen. Any thread may use it: what two lose to each other is made again."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._secrets: dict[tuple[int, int], tuple[Secret, ...]] = {}
        self._chars = 0

    def of(self, messages: Iterable[Mapping[str, Any]]) -> tuple[Secret, ...]:
        """Those of all tool results among the messages."""
        found: list[Secret] = []
        for text in reversed(_results(messages)):
            found += self._of(text)
        return _bounded(_unique(found))

    def _of(self, text: str) -> tuple[Secret, ...]:
        key = _key(text)
        secrets = self._secrets.get(key)
        if secrets is None:
            secrets = _bounded(secrets_of(text))
            self._chars += sum(len(secret.value) for secret in secrets)
            if len(self._secrets) >= self._kept or self._chars > KEPT_CHARS:
                self._secrets.clear()
                self._chars = 0
            self._secrets[key] = secrets
        return secrets


def _key(text: str) -> tuple[int, int]:
    return hash(text), len(text)


def _results(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """The texts of the tool results, oldest first."""
    texts: list[str] = []
    for message in messages:
        if message.get("role") != "tool":
            continue
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
        elif isinstance(content, Sequence):
            texts += [part["text"] for part in content if part.get("type") == "text"]
    return texts


def _bounded(secrets: Sequence[Secret]) -> tuple[Secret, ...]:
    """The first `MOST` of them, as long as all together are no longer than `MOST_CHARS`."""
    ends = accumulate(len(secret.value) for secret in secrets)
    return tuple(secret for secret, end in zip(secrets[:MOST], ends, strict=False) if end <= MOST_CHARS)


def _unique(secrets: Iterable[Secret]) -> tuple[Secret, ...]:
    """One of each value: that of the kind which comes first in the table."""
    first: dict[str, Secret] = {}
    for secret in secrets:
        other = first.get(secret.value)
        if other is None or KINDS.index(secret.kind) < KINDS.index(other.kind):
            first[secret.value] = secret
    return tuple(first.values())


def _matches(text: str) -> Iterator[Secret]:
    lower = text.lower()
    if len(lower) != len(text):  # a few letters grow in lower case, and the places must stay
        lower = text.translate(_ASCII_LOWER)
    for shape in SHAPES:
        for match in shape.pattern.finditer(text if shape.cased else lower):
            if shape.kind == "private_key":
                lines = _PEM_LINE.findall(_BREAK.sub(" ", text[slice(*match.span("value"))]))
                yield from (Secret(shape.kind, line) for line in lines if _holds(line, "letter"))
            elif (secret := _secret(shape, match, text)) is not None:
                yield secret


def _secret(shape: Shape, match: re.Match[str], text: str) -> Secret | None:
    """What the match holds, if it is a span."""
    groups = match.re.groupindex
    is_bare = "bare" in groups and match["bare"] is not None
    value = text[slice(*match.span("bare" if is_bare else "value" if "value" in groups else 0))]
    is_short = is_bare or ("body" in groups and len(match["body"]) < LONG_BODY)
    if is_bare:
        value = value.rstrip(_TRAIL)
        if value.startswith("$") or _PATH.fullmatch(value):
            return None  # a variable's name, not its value
    kind = shape.short if is_short and shape.short else shape.kind
    if not _is_span(value, "letter and digit" if is_short else shape.needs):
        return None
    return Secret(kind, value, shape.keeps)


def _is_span(value: str, needs: Needs) -> bool:
    return LEAST <= len(value) <= LONGEST and value.lower() not in PLACEHOLDERS and _holds(value, needs)


def _holds(value: str, needs: Needs) -> bool:
    match needs:
        case "letter":
            return any(map(str.isalpha, value))
        case "letter and digit":
            return any(map(str.isalpha, value)) and any(map(str.isdigit, value))
        case "digits":
            return value.isdigit()


def _is_member(name: str, value: str) -> bool:
    """Whether a JSON member is a secret by its name."""
    is_run = len(value) >= 6 and not any(map(str.isspace, value))
    return is_run and NAME.search(name.lower()) is not None and _is_span(value, "letter")


def _leaves(text: str) -> list[tuple[str, str]]:
    """The strings of a JSON text and the names of their members; none of a text without an escape, which shows them."""
    if "\\" not in text or text.lstrip()[:1] not in ("{", "[", '"'):
        return []
    try:
        todo: list[tuple[str, Any]] = [("", json.loads(text))]
    except (ValueError, RecursionError):
        return []
    leaves: list[tuple[str, str]] = []
    while todo:
        name, value = todo.pop()
        if isinstance(value, str):
            leaves.append((name, value))
        elif isinstance(value, dict):
            todo += value.items()
        elif isinstance(value, list):
            todo += [(name, each) for each in value]
    return leaves
