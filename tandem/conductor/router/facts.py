"""Everything that is known of a request before anything is planned for it.

The request's task gathers it from headers and body; what decides reads nothing else, so that the same facts, session
and documents always make the same plan.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tandem.conductor.router.client_kind import ClientKind
from tandem.engine.text.model import Conversation

__all__ = ["AskedThinking", "Facts", "UNKNOWN_CLIENT"]

UNKNOWN_CLIENT = "anon"
"""The client id of all who send no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedThinking:
    """What the client says of thinking, its many fields already read into one (API, section 13; EFF-012 to EFF-017)."""

    enabled: bool | None = None
    """On, off, or None where it says neither."""
    switch: str | None = None
    """The field that turned it off or on."""
    number: int | None = None
    """Reasoning tokens; 0 is no cap; None where no number was sent."""
    word: str | None = None
    """In lower case: `none`, `off`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`; None where none was sent."""

    @property
    def has_tokens(self) -> bool:
        """A positive number of reasoning tokens (SES-012)."""
        return bool(self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One request, as the planner takes it."""

    kind: ClientKind
    conversation: Conversation
    """Messages and tools as sent; its date is not read."""
    today: datetime.date
    now: float = 0.0
    """Seconds since 1970, for what the session forgets after a day."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Lower-case names. Read: `x-tandem`, `x-tandem-profile`, `x-tandem-regenerate` and those that name a session."""
    session_ids: Sequence[str | None] = ()
    """The body's `conversation_id` and `session_id`, in this order."""
    images: Sequence[str] = ()
    """URLs of the images that messages name by index."""
    client: str = UNKNOWN_CLIENT
    """Who sends, by its key's hash."""
    tool_choice: Literal["auto", "none", "required", "named"] = "auto"
    thinking: AskedThinking = AskedThinking()
    limit: int | None = None
    """Output tokens the client asked for."""
    sampling: frozenset[str] = frozenset()
    """Of `temperature`, `top_p`, `top_k`, `min_p`, `seed` those the client sent (SMP-003)."""
    seed: int = 0
    """Drawn for this request: a turn that the plan samples is drawn with it (SMP-002)."""
    ngram: int = 0
    """The client's own `no_repeat_ngram_size` (SMP-009)."""
    is_text: bool = False
    """A text completion: no messages, so nothing is planned but what the mode asks."""

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        return self.conversation.messages

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        return self.conversation.tools

    @property
    def offers_tools(self) -> bool:
        """At least one function tool that the model may call (PRF-007)."""
        return bool(self.tools) and self.tool_choice != "none"
