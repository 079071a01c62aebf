"""The text side of a checkpoint: its tokenizer and its chat template behind the `TextModel` Protocol."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

from tandem.engine.errors import BadInput
from tandem.engine.text.conversation import arrange
from tandem.engine.text.model import Conversation
from tandem.engine.text.plain import Guard
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.support import probe
from tandem.engine.text.template import CHATML, ROLE_LINES, ChatTemplate, TemplateFailed
from tandem.engine.text.tokenizer import BpeTokenizer

__all__ = ["CheckpointText", "turn_ends"]

_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|end_of_turn|>")


def turn_ends(tokenizer: BpeTokenizer, template: str) -> frozenset[int]:
    """Ids of the markers with which `template` ends an assistant's turn, by the names in use."""
    ids = (tokenizer.id_of(text) for text in _TURN_ENDS if text in template)
    return frozenset(token for token in ids if token is not None)


class CheckpointText:
    """`TextModel` of a real model. Immutable after construction, so any thread may use it.

    `support` says what the template carries; the caller says once at the start what is missing (ENG-013).
    """

    def __init__(
        self,
        tokenizer: BpeTokenizer,
        *,
        template: str | None,
        end_ids: Iterable[int] = (),
        bos_token: str = "",
        eos_token: str = "",
    ) -> None:
        """`end_ids`: those of the configs. Without `template` a plain form of the known markers is used."""
        if template is None:
            template = CHATML if tokenizer.id_of("<|im_end|>") is not None else ROLE_LINES
        self._tokenizer = tokenizer
        self._template = ChatTemplate(template, bos_token=bos_token, eos_token=eos_token)
        self._guard = Guard(marker.text for marker in tokenizer.markers)
        self.support = probe(self._template)
        eos = tokenizer.id_of(eos_token)
        own = frozenset() if eos is None else frozenset((eos,))
        self._end_ids = frozenset(end_ids) | own | turn_ends(tokenizer, template)

    @property
    def sha256(self) -> str:
        """Fingerprint of the tokenizer (ENG-012)."""
        return self._tokenizer.sha256

    @property
    def vocab_size(self) -> int:
        """One more than the highest id of the tokenizer; a model's matrices may be padded beyond it."""
        return self._tokenizer.vocab_size

    @property
    def end_ids(self) -> frozenset[int]:
        """Ids that end a generation (ENG-092)."""
        return self._end_ids

    def is_token(self, token: int) -> bool:
        """Whether the id is in the vocabulary."""
        return self._tokenizer.is_token(token)

    def encode(self, text: str) -> list[int]:
        """Ids of `text` as plain text (ENG-178)."""
        return self._tokenizer.encode(text)

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for; empty for end ids and special tokens."""
        return b"" if token in self._end_ids else self._tokenizer.piece(token)

    def name(self, token: int) -> str:
        """A token as log-probabilities show it."""
        return self._tokenizer.name(token)

    def id_of(self, marker: str) -> int | None:
        """The id of the marker spelled `marker`, None where the tokenizer has none."""
        return self._tokenizer.id_of(marker)

    def render(self, conversation: Conversation) -> Prompt:
        """The prompt of a new assistant turn. `BadInput` names the field the template cannot take (API-025)."""
        return Prompt.of_client(self._encode(conversation))

    def read(self, prompt: str | Sequence[int]) -> Prompt:
        """The prompt of a text completion. `BadInput` for an id outside the vocabulary (API-046)."""
        if isinstance(prompt, str):
            try:
                return Prompt.of_client(self._tokenizer.encode(prompt))
            except BadInput as error:
                raise BadInput("prompt", str(error)) from None
        for token in prompt:
            if not self.is_token(token):
                raise BadInput("prompt", f"token id {token} is not in the model's vocabulary")
        return Prompt.of_client(prompt)

    def _encode(self, conversation: Conversation) -> list[int]:
        try:
            messages = arrange(conversation.messages, self.support)
            given: list[Any] = [messages, list(conversation.tools), dict(conversation.template_kwargs)]
            sentinel = self._guard.sentinel(given, self._template.source)
            given = self._guard.protect(given, sentinel)
        except (RecursionError, ValueError) as error:
            raise BadInput("messages", f"the conversation cannot be rendered: {type(error).__name__}") from None
        turns, tools, kwargs = given
        text = self._render(turns, tools, kwargs, conversation.today)
        try:
            return self._tokenizer.encode_marked(text, sentinel)
        except BadInput as error:
            raise BadInput("messages", str(error)) from None

    def _render(
        self, messages: list[Any], tools: list[Any], kwargs: dict[str, Any], today: datetime.date | None
    ) -> str:
        """Text with sentinels. A failure is tried again without kwargs, then tools, to tell which field is at fault."""

        def attempt(tools: list[Any], kwargs: dict[str, Any]) -> str:
            given = {**self.support.reasoning_kwargs, **kwargs}
            return self._template.render(messages, tools=tools, kwargs=given, today=today)

        def fails(tools: list[Any], kwargs: dict[str, Any]) -> bool:
            try:
                attempt(tools, kwargs)
            except TemplateFailed:
                return True
            return False

        try:
            return attempt(tools, kwargs)
        except TemplateFailed as error:
            if kwargs and not fails(tools, {}):
                raise BadInput("chat_template_kwargs", f"the model's chat template refuses it: {error}") from None
            if tools and not fails([], kwargs):
                raise BadInput("tools", f"the model's chat template refuses them: {error}") from None
            raise BadInput("messages", f"the model's chat template refuses them: {error}") from None
