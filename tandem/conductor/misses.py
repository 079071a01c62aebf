"""The last prompts of conversations, and why a follow-up did not resume behind its own (ENG-177).

A client that changes what it sent before has everything behind the change read again. The explainer tells it where the
two prompts part and by which text, without a word of it.

`Misses` is for whoever finishes requests; its calls never await. It keeps conversations in memory only, the newest
ones within a budget, and gives them to nobody: what leaves it are places and counts.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tandem.engine.caches.misses import Parting, client_keys, parting
from tandem.engine.errors import BadInput
from tandem.engine.shared import shared_length
from tandem.engine.text.clocks import without_moving
from tandem.engine.text.differing import Difference, explain
from tandem.engine.text.model import Conversation, TextModel
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.side import side_shape

__all__ = ["Last", "Miss", "Misses", "Turn", "find_miss"]

KEPT = 64
KEPT_BYTES = 32 * 2**20
"""Of what is kept, counted as 36 bytes a token and 1 a character."""
TOKEN_BYTES = 36
"""An id in a tuple: a reference and an object."""
LOOKED_AT = 4_000
"""Characters of each message of an opening by which it is known again."""
HASHED = "h:"
"""How a session's key begins that no client has named (SES-001)."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A request whose prompt was read."""

    client: str
    """Who asked: prompts of one client are never compared with those of another."""
    session: str
    conversation: Conversation
    """Without its images: their pixels are large, and the rows of each have one key."""
    prompt: Prompt
    resumed: int
    """Rows that a cache supplied."""
    prefill_s: float
    reasoned: bool
    """There was reasoning in its answer."""


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a follow-up was read again, as the journal has it: no text."""

    where: Difference
    parting: Parting
    seconds: float
    """The share of the prefill that went to tokens read again."""

    @property
    def words(self) -> str:
        """One line of it."""
        where, again = self.where, self.parting
        place = ["in the template"] if where.field is None and where.message is None else []
        place += [f"message {where.message}"] if where.message is not None else []
        place += [where.field] if where.field is not None else []
        place += [f"byte {where.byte}"] if where.byte is not None else []
        kind = where.text.replace("_", " ")
        return f"parts at token {again.position}: {', '.join(place)}, {kind}; {again.read_again} tokens read again"


@dataclass(frozen=True, slots=True)
class Last:
    """What is kept of a turn."""

    conversation: Conversation
    keys: tuple[int, ...]
    opening: str
    reasoned: bool
    size: int


class Misses:
    """The last turn of each of the newest conversations."""

    def __init__(self, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept, self._kept_bytes = kept, kept_bytes
        self._last: OrderedDict[tuple[str, str], Last] = OrderedDict()
        self._bytes = 0

    def swap(self, turn: Turn) -> Last | None:
        """Keep `turn` as its conversation's last, and give what was the last before.

        A conversation is known by its session. Where that is a hash of its opening, which a clock in the system
        message changes, it is known by the opening without what moves. Side requests (SES-009) belong to none.
        """
        messages = turn.conversation.messages
        if side_shape(messages, has_tools=bool(turn.conversation.tools)) is not None:
            return None
        opening = _opening(messages)
        key = self._key_of(turn, opening)
        before = None if key is None else self._take(key)
        self._put((turn.client, turn.session), _kept(turn, opening))
        return before

    def _key_of(self, turn: Turn, opening: str) -> tuple[str, str] | None:
        exact = (turn.client, turn.session)
        if exact in self._last:
            return exact
        if not turn.session.startswith(HASHED):
            return None
        alike = (
            key
            for key, last in reversed(self._last.items())
            if key[0] == turn.client and key[1].startswith(HASHED) and last.opening == opening
        )
        return next(alike, None)

    def _take(self, key: tuple[str, str]) -> Last:
        last = self._last.pop(key)
        self._bytes -= last.size
        return last

    def _put(self, key: tuple[str, str], last: Last) -> None:
        self._last[key] = last
        self._bytes += last.size
        while len(self._last) > self._kept or self._bytes > self._kept_bytes:
            self._take(next(iter(self._last)))


def find_miss(last: Last, turn: Turn, text: TextModel) -> Miss | None:
    """None where `turn` resumed as far as the conversation's `last` turn let it. May render prompts again."""
    parted = parting(last.keys, turn.prompt, turn.resumed)
    if parted is None:
        return None
    keys = client_keys(turn.prompt)

    def common(conversation: Conversation) -> int | None:
        try:
            return shared_length(client_keys(text.render(conversation)), keys)
        except BadInput:
            return None

    where = explain(last.conversation, turn.conversation, parted.position, common, reasoned=last.reasoned)
    read = len(turn.prompt.ids) - turn.resumed
    return Miss(where, parted, turn.prefill_s * parted.read_again / read if read > 0 else 0.0)


def _kept(turn: Turn, opening: str) -> Last:
    conversation, keys = turn.conversation, client_keys(turn.prompt)
    size = TOKEN_BYTES * len(keys) + _characters(conversation.messages) + _characters(conversation.tools)
    return Last(conversation, keys, opening, turn.reasoned, size)


def _opening(messages: Sequence[Mapping[str, Any]]) -> str:
    """A digest of the messages through the first of the user, without clocks and reminders."""
    shown = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        shown.append(without_moving(content[:LOOKED_AT]))
        if message["role"] == "user":
            break
    return hashlib.sha256("\0".join(shown).encode("utf-8", "surrogatepass")).hexdigest()


def _characters(value: Any) -> int:
    """Of all strings in a value of JSON."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_characters, value)) + sum(map(_characters, value.values()))
    return sum(map(_characters, value)) if isinstance(value, (list, tuple)) else 0
