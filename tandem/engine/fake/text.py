"""The fake's `TextModel`, and how a script gets from the client's text to the engine: with the prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tandem.engine.fake.script import Script, find_script, parse_script
from tandem.engine.fake.template import segments, thinking_of
from tandem.engine.fake.vocabulary import END_OF_TEXT, IM_END, IMAGE_PAD, SPECIALS, VOCAB_SIZE, Vocabulary
from tandem.engine.text.images import LoadedImages, Patches, PromptImage
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt, Span

__all__ = ["FakePrompt", "FakeText"]


@dataclass(frozen=True, slots=True)
class FakePrompt(Prompt):
    """A rendered prompt and the script that was in the conversation; `dataclasses.replace` keeps it."""

    script: Script = field(kw_only=True)


class FakeText:
    """Tokenizer and template of the fake. Any thread may use it: all it changes is its vocabulary."""

    vocab_size = VOCAB_SIZE
    end_ids = frozenset({IM_END, END_OF_TEXT})
    turn_ends = frozenset({IM_END})
    is_open_vocabulary = True
    knows_thinking = True
    markers: Mapping[str, int] = MappingProxyType(SPECIALS)
    sha256 = hashlib.sha256(b"tandem's fake").hexdigest()
    """As a checkpoint's tokenizer has one."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()

    def is_token(self, token: int) -> bool:
        return 0 <= token < VOCAB_SIZE

    def encode(self, text: str) -> list[int]:
        return self.vocabulary.encode(text)

    def encode_own(self, text: str) -> list[int]:
        return self.vocabulary.encode_own(text)

    def piece(self, token: int) -> bytes:
        return self.vocabulary.piece(token)

    def name(self, token: int) -> str:
        return self.vocabulary.name(token)

    def render(self, conversation: Conversation) -> FakePrompt:
        script = find_script(conversation.messages, conversation.tools)
        thinking = thinking_of(conversation, begins_inside=script.closes_thinking)
        ids: list[int] = []
        ends: list[int] = []
        for segment in segments(conversation, thinking):
            if isinstance(segment, str):
                ids += self.vocabulary.encode(segment)
                continue
            if segment in self.turn_ends:
                ends.append(len(ids))
            ids.append(segment)
        return FakePrompt(
            tuple(ids),
            (Span("client", 0, len(ids)),),
            ends[-1] if ends else 0,
            thinking,
            tuple(_images(ids, conversation.images)),
            turn_ends=tuple(ends),
            script=script,
        )

    def read(self, prompt: str | Sequence[int]) -> FakePrompt:
        """As the Protocol says. The script is searched in the prompt itself, ids read back as text."""
        if isinstance(prompt, str):
            text, ids = prompt, tuple(self.vocabulary.encode(prompt))
        else:
            text, ids = b"".join(map(self.vocabulary.piece, prompt)).decode("utf-8", "replace"), tuple(prompt)
        spans = (Span("client", 0, len(ids)),) if ids else ()
        return FakePrompt(ids, spans, len(ids), script=parse_script(text, "prompt"))


def _images(ids: Sequence[int], loaded: LoadedImages) -> Iterator[PromptImage]:
    """Where the prompt's images lie, as far as their pixels are at hand; nobody reads those."""
    pads = [at for at, token in enumerate(ids) if token == IMAGE_PAD]
    at = 0
    for picture, rows in zip(loaded.pictures, loaded.rows, strict=False):
        yield PromptImage(pads[at], Patches(rows, 1, hashlib.sha256(picture.rgb).digest(), None))
        at += rows
