"""The text side of a checkpoint: its tokenizer and its chat template behind the `TextModel` Protocol."""

from __future__ import annotations

import copy
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tandem.engine.errors import BadInput
from tandem.engine.text.conversation import arrange
from tandem.engine.text.images import ImageReader, PromptImage
from tandem.engine.text.model import Conversation
from tandem.engine.text.plain import Guard
from tandem.engine.text.prompt import Prompt, Thinking, turn_end_rows
from tandem.engine.text.reading.splitter import CLOSER, OPENER
from tandem.engine.text.support import probe
from tandem.engine.text.template import CHATML, ROLE_LINES, ChatTemplate, TemplateFailed
from tandem.engine.text.tokenizer import BpeTokenizer

__all__ = ["CheckpointText", "turn_ends"]

_LONGEST_OPENING = 1_000
"""Characters within which a generation prompt must fit to be looked at."""

_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|end_of_turn|>")


def turn_ends(tokenizer: BpeTokenizer, template: str) -> frozenset[int]:
    """Ids of the markers with which `template` ends a turn, by the names in use."""
    ids = (tokenizer.id_of(text) for text in _TURN_ENDS if text in template)
    return frozenset(token for token in ids if token is not None)


class CheckpointText:
    """`TextModel` of a real model. Immutable after construction, so any thread may use it.

    `support` says what the template carries; the caller says once at the start what is missing (ENG-013).
    """

    is_open_vocabulary = False

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
        self._markers = MappingProxyType({marker.text: marker.id for marker in tokenizer.markers})
        # What follows the last whole marker is the template's own: a client's text holds none.
        others = (re.escape(text) for text in self._markers if len(text) > 1 and text not in (OPENER, CLOSER))
        self._last_marker = re.compile(f".*(?:{'|'.join(others) or '(?!)'})", re.DOTALL)
        self.knows_thinking = OPENER in self._markers or OPENER in template
        self.support = probe(self._template)
        eos = tokenizer.id_of(eos_token)
        own = frozenset() if eos is None else frozenset((eos,))
        self._turn_ends = turn_ends(tokenizer, template)
        self._end_ids = frozenset(end_ids) | own | self._turn_ends
        self._images: tuple[ImageReader, int] | None = None

    def seeing(self, reader: ImageReader, placeholder: int) -> CheckpointText:
        """The same text side for a model that sees: `placeholder` is the id that the template writes for an image."""
        seeing = copy.copy(self)
        seeing._images = reader, placeholder
        return seeing

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

    @property
    def turn_ends(self) -> frozenset[int]:
        """Ids with which the template ends a turn (NOTE-001)."""
        return self._turn_ends

    @property
    def markers(self) -> Mapping[str, int]:
        """Ids of the tokens that only a template or the model writes, by their text."""
        return self._markers

    def is_token(self, token: int) -> bool:
        """Whether the id is in the vocabulary."""
        return self._tokenizer.is_token(token)

    def encode(self, text: str) -> list[int]:
        """Ids of `text` as plain text (ENG-178)."""
        return self._tokenizer.encode(text)

    def encode_own(self, text: str) -> list[int]:
        """Ids of the server's own text; a marker spelled in it becomes its token."""
        return self._tokenizer.encode_marked(text)

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
        shown = self._shown(conversation)
        text, sentinel = self._text(conversation)
        try:
            ids, markers = self._tokenizer.encode_rendered(text, sentinel)
        except BadInput as error:
            raise BadInput("messages", str(error)) from None
        thinking = self._thinking(text)
        if shown:
            prompt = self._with_images(ids, shown, conversation, thinking)
            ends = turn_end_rows(prompt.ids, self._turn_ends)
        else:
            prompt = Prompt.of_client(ids, thinking)
            ends = [row for row in markers if ids[row] in self._turn_ends]
        return replace(prompt, head=self._head(ends, conversation), turn_ends=tuple(ends))

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

    def _shown(self, conversation: Conversation) -> list[int]:
        """The images that the messages name, by their index, in the order of their parts."""
        shown: list[int] = []
        for index, message in enumerate(conversation.messages):
            if isinstance(content := message.get("content"), list):
                if self._images is None:
                    raise BadInput(f"messages[{index}].content", "this model takes no images")
                shown += [int(part["index"]) for part in content if part["type"] == "image"]
        return shown

    def _with_images(
        self, ids: Sequence[int], shown: Sequence[int], conversation: Conversation, thinking: Thinking
    ) -> Prompt:
        """The prompt with a row for each merged patch in the place of an image's one placeholder.

        Only the template writes placeholders, so the first of them is the first image. `BadInput` where it writes
        another number of them than there are images, or none.
        """
        assert self._images is not None
        reader, placeholder = self._images
        if ids.count(placeholder) != len(shown):
            raise BadInput("messages", "the model's chat template has no place for an image where one stands")
        loaded, images, rows = conversation.images, [], list[int]()
        following = iter(shown)
        for token in ids:
            if token != placeholder:
                rows.append(token)
                continue
            image = PromptImage(len(rows), reader.cut(loaded.pictures[next(following) - loaded.left_out]))
            rows += [placeholder] * image.patches.rows
            images.append(image)
        return replace(Prompt.of_client(rows, thinking), images=tuple(images))

    def _text(self, conversation: Conversation) -> tuple[str, str]:
        """The rendered text, and the sentinel that breaks up every marker in it which a client has spelled."""
        try:
            messages = arrange(conversation.messages, self.support)
            given: list[Any] = [messages, list(conversation.tools), dict(conversation.template_kwargs)]
            sentinel = self._guard.sentinel(given, self._template.source)
            given = self._guard.protect(given, sentinel)
        except (RecursionError, ValueError) as error:
            raise BadInput("messages", f"the conversation cannot be rendered: {type(error).__name__}") from None
        turns, tools, kwargs = given
        try:
            completed = {**conversation.template_defaults, **kwargs}
            return self._render(turns, tools, completed, conversation.today), sentinel
        except BadInput:
            if not conversation.template_defaults:
                raise
        return self._render(turns, tools, kwargs, conversation.today), sentinel

    def _thinking(self, rendered: str) -> Thinking:
        """How the generation prompt leaves the block. It is what follows the last marker, its own tags apart."""
        if not self.knows_thinking:
            return "off"
        tail = rendered[-_LONGEST_OPENING:]
        if head := self._last_marker.match(tail):
            tail = tail[head.end() :]
        opened, closed = tail.rfind(OPENER), tail.rfind(CLOSER)
        if opened > closed:
            return "open"
        return "off" if closed >= 0 and not tail[closed + len(CLOSER) :].strip() else "free"

    def _head(self, ends: Sequence[int], conversation: Conversation) -> int:
        """Rows of system text and tools: they end with the first turn, where a conversation begins with such a one.

        A template may write tools elsewhere; then the head is what of it stands in that turn.
        """
        begins = conversation.messages[0].get("role") if conversation.messages else None
        if begins in ("system", "developer") or conversation.tools:
            return ends[0] + 1 if ends else 0
        return 0

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
