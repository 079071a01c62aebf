"""A prompt: token ids and the spans that say where each of them comes from (ENG-181)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from tandem.engine.text.images import PromptImage

__all__ = ["Prompt", "Span", "SpanKind", "Thinking", "turn_end_rows"]

SpanKind = Literal["client", "note", "closed_think", "replayed", "question"]

Thinking = Literal["open", "free", "off"]
"""How a prompt leaves the thinking block: open at its end, not begun so that the model may open one, or ruled out."""


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens start…end (end excluded) of one origin. A token of any kind but `client` is hidden."""

    kind: SpanKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """`ids` and the spans that cover every one of them exactly once, in order.

    `insertion` is the index at which the plan may still put notes when the prompt is finished at the grant. Each row of
    an image has the id of the placeholder.
    """

    ids: tuple[int, ...]
    spans: tuple[Span, ...]
    insertion: int
    thinking: Thinking = "free"
    images: tuple[PromptImage, ...] = ()
    """In the order of their rows."""
    head: int = 0
    """Rows of system text and tools, which other conversations begin with as well; 0 where nobody knows (ENG-112)."""
    session: str | None = None
    """Whose it is, an opaque value, where a plan lets hidden tokens of earlier turns be put back (ENG-111)."""
    turn_ends: tuple[int, ...] | None = None
    """Rows of the ids with which the template ends a turn, in order; None where nobody wrote them down."""

    def __post_init__(self) -> None:
        at = 0
        for span in self.spans:
            if span.start != at or span.end <= span.start:
                raise ValueError(f"spans must cover the prompt without gap or overlap: {span} at {at}")
            at = span.end
        if at != len(self.ids):
            raise ValueError(f"spans cover {at} of {len(self.ids)} tokens")
        at = 0
        for image in self.images:
            if not at <= image.start < image.stop <= len(self.ids):
                raise ValueError(f"images must lie in the prompt, one behind the other: {image} at {at}")
            at = image.stop

    @classmethod
    def of_client(cls, ids: Sequence[int], thinking: Thinking = "free") -> Prompt:
        """A prompt that the client alone has written."""
        spans = (Span("client", 0, len(ids)),) if ids else ()
        return cls(tuple(ids), spans, len(ids), thinking)

    @property
    def keys(self) -> tuple[int, ...]:
        """The ids by which caches compare prompts: the rows of an image have its own, so it matches by content."""
        if not self.images:
            return self.ids
        keys = list(self.ids)
        for image in self.images:
            keys[image.start : image.stop] = [image.key] * image.patches.rows
        return tuple(keys)

    @property
    def asked_at(self) -> int:
        """Rows before the hidden question that it ends with (ENG-042); all of them where it asks none."""
        last = self.spans[-1] if self.spans else None
        return last.start if last is not None and last.kind == "question" else len(self.ids)

    @property
    def asks(self) -> bool:
        """It ends with a hidden question."""
        return self.asked_at < len(self.ids)

    @property
    def client_tokens(self) -> int:
        """Tokens in `client` spans: `prompt_tokens` of the usage (API-155)."""
        return sum(span.end - span.start for span in self.spans if span.kind == "client")

    @property
    def hidden_tokens(self) -> int:
        """Tokens the model reads that the client did not send (API-156)."""
        return len(self.ids) - self.client_tokens

    @property
    def replayed_tokens(self) -> int:
        """Those of them that stood behind an earlier turn and were put back (ENG-111)."""
        return sum(span.end - span.start for span in self.spans if span.kind == "replayed")

    def client_tokens_before(self, position: int) -> int:
        """Client tokens among the first `position`: cached rows as the client counts them (API-157)."""
        return sum(
            min(span.end, position) - span.start
            for span in self.spans
            if span.kind == "client" and span.start < position
        )


def turn_end_rows(ids: Sequence[int], turn_ends: Collection[int]) -> list[int]:
    """Rows of the turn-end ids, in order: the n-th is that of ordinal n."""
    return [row for row, token in enumerate(ids) if token in turn_ends]
