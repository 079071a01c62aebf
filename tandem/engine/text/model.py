"""What stands between text and token ids: the Protocol that checkpoints' tokenizers and the fake's implement."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tandem.engine.text.images import NO_IMAGES, LoadedImages
from tandem.engine.text.prompt import Prompt

__all__ = ["Conversation", "TextModel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A chat as the client sent it, validated but not rearranged.

    A message is a dict with `role` (`system`, `user`, `assistant`, `tool`), `content` (str) and, where the client sent
    them, `reasoning_content` (str), `tool_calls` (OpenAI form, `arguments` a JSON string), `tool_call_id`, `name`.
    The content of a message with images, which is no system one, is a list of `{"type": "text", "text": …}` and
    `{"type": "image", "index": i}`. `today` is the date that `strftime_now` gives in the template (ENG-180).
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    template_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments, of the server's own; left out where the template refuses them."""
    today: datetime.date | None = None
    images: LoadedImages = NO_IMAGES
    """The images that the messages still name."""


class TextModel(Protocol):
    """Tokenizer and chat template of one model. Thread-safe: rendering runs in worker threads (SCH-113)."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def end_ids(self) -> frozenset[int]:
        """Ids that end a generation and are never delivered as text (ENG-092)."""

    @property
    def sha256(self) -> str:
        """Fingerprint of the tokenizer (ENG-012)."""

    @property
    def turn_ends(self) -> frozenset[int]:
        """Ids with which the template ends a turn, of any role: a note goes right before one (NOTE-001). Empty where
        the template has none.
        """

    @property
    def markers(self) -> Mapping[str, int]:
        """Ids of the tokens that only a template or the model writes, by their text: `<think>`, `<tool_call>` …"""

    @property
    def is_open_vocabulary(self) -> bool:
        """Ids 0 to 255 are the bytes, and any other but a marker may get its text while the server runs."""

    @property
    def knows_thinking(self) -> bool:
        """Template or vocabulary has the reasoning's opener: a model without it never thinks."""

    def is_token(self, token: int) -> bool:
        """Whether the id is in the vocabulary."""

    def encode(self, text: str) -> list[int]:
        """Ids of `text` as plain text: no special token ever comes of it (ENG-178)."""

    def encode_own(self, text: str) -> list[int]:
        """Ids of the server's own text: unlike in `encode`, a marker spelled in it becomes its token."""

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for; empty for a special token that is not delivered (ENG-092)."""

    def name(self, token: int) -> str:
        """How a token is shown in log-probabilities: its text, special tokens by their own name."""

    def render(self, conversation: Conversation) -> Prompt:
        """The prompt of a new assistant turn. Raises `BadInput` naming the field at fault (API-025)."""

    def read(self, prompt: str | Sequence[int]) -> Prompt:
        """The prompt of a text completion: text or ids as sent, no template (API-047)."""
