"""A prompt's spans: every token of one origin, and what is counted by them (ENG-181 but for `finalise`)."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.text.images import Patches, PromptImage
from tandem.engine.text.prompt import Prompt, Span, SpanKind

KINDS: tuple[SpanKind, ...] = get_args(SpanKind)
prompts = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 5)), max_size=8)


def made(parts: list[tuple[SpanKind, int]]) -> Prompt:
    ends = [sum(length for _, length in parts[:at]) for at in range(len(parts) + 1)]
    spans = tuple(Span(kind, low, high) for (kind, _), (low, high) in zip(parts, pairwise(ends), strict=True))
    return Prompt(tuple(range(ends[-1])), spans, ends[-1])


@pytest.mark.spec("ENG-181")
@given(parts=prompts, position=st.integers(0, 50))
def test_what_is_no_clients_is_hidden_and_counts_read_the_spans(
    parts: list[tuple[SpanKind, int]], position: int
) -> None:
    prompt = made(parts)
    origin = [kind for kind, length in parts for _ in range(length)]
    assert prompt.client_tokens == origin.count("client")
    assert prompt.hidden_tokens == len(origin) - origin.count("client")
    assert prompt.client_tokens_before(position) == origin[:position].count("client")


@pytest.mark.spec("ENG-181")
@pytest.mark.parametrize(
    "spans",
    [
        (Span("client", 0, 3), Span("note", 4, 6)),
        (Span("client", 0, 3), Span("note", 2, 6)),
        (Span("client", 0, 6), Span("note", 6, 6)),
        (Span("client", 1, 6),),
        (Span("client", 0, 5),),
        (Span("client", 0, 7),),
        (),
    ],
    ids=["gap", "overlap", "empty", "late", "short", "long", "none"],
)
def test_spans_cover_every_token_exactly_once(spans: tuple[Span, ...]) -> None:
    with pytest.raises(ValueError, match="spans"):
        Prompt(tuple(range(6)), spans, 6)


@pytest.mark.spec("ENG-181")
def test_image_rows_lie_in_the_prompt_and_belong_to_who_sent_them() -> None:
    spans = (Span("client", 0, 9), Span("note", 9, 12))
    image = PromptImage(2, Patches(3, 2, b"\1", None))
    prompt = Prompt((7,) * 12, spans, 9, images=(image,))
    assert (prompt.client_tokens, prompt.hidden_tokens) == (9, 3)
    for start in (-1, 7, 12):
        with pytest.raises(ValueError, match="images"):
            Prompt((7,) * 12, spans, 9, images=(PromptImage(start, image.patches),))
    with pytest.raises(ValueError, match="images"):
        Prompt((7,) * 12, spans, 9, images=(image, image))
