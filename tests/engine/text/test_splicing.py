"""Notes and the closed thinking block: what they move, what they leave, and whose the tokens are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.fake.text import FakeText
from tandem.engine.text.checkpoint import CheckpointText
from tandem.engine.text.images import Patches, PromptImage
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt, Span, turn_end_rows
from tandem.engine.text.splicing import Openings, Piece, close_thinking, openings, splice
from tandem.engine.text.tokenizer import BpeTokenizer
from tests.tiny import TOOL_CHATML, tiny_tokenizer

END = 9
IDS = st.lists(st.sampled_from([1, 2, 3, END]), max_size=12)
MORE = st.lists(st.integers(20, 29), min_size=1, max_size=3)


def prompt_of(ids: list[int], **given: Any) -> Prompt:
    spans = (Span("client", 0, len(ids)),) if ids else ()
    return Prompt(tuple(ids), spans, len(ids), **given)


@pytest.mark.spec("NOTE-001", "NOTE-005", "ENG-181")
@given(IDS, st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["note", "client"]), MORE), max_size=4))
def test_what_is_put_in_is_there_and_the_rest_unmoved(ids: list[int], given: list[tuple[int, Any, list[int]]]) -> None:
    pieces = sorted((Piece(min(at, len(ids)), kind, tuple(more)) for at, kind, more in given), key=lambda p: p.row)
    done = splice(prompt_of(ids, turn_ends=tuple(turn_end_rows(ids, {END}))), pieces)
    assert done.turn_ends == tuple(turn_end_rows(done.ids, {END}))
    hidden = sum(len(piece.ids) for piece in pieces if piece.kind == "note")
    assert done.hidden_tokens == hidden
    assert done.client_tokens == len(ids) + sum(len(piece.ids) for piece in pieces) - hidden
    assert [token for token in done.ids if token < 20] == ids
    for number, piece in enumerate(pieces):
        at = piece.row + sum(len(before.ids) for before in pieces[:number])
        assert done.ids[at : at + len(piece.ids)] == piece.ids
    assert splice(done, []) is done


def test_images_head_and_insertion_move_with_what_is_before_them() -> None:
    image = PromptImage(3, Patches(2, 1, b"x", None))
    prompt = Prompt((1, 9, 2, 5, 5, 9, 7), (Span("client", 0, 7),), 5, images=(image,), head=2)
    done = splice(prompt, [Piece(1, "note", (20, 21)), Piece(5, "note", (22,))])
    assert done.ids == (1, 20, 21, 9, 2, 5, 5, 22, 9, 7)
    assert (done.head, done.insertion, done.images[0].start) == (4, 8, 5)
    assert done.spans == (
        Span("client", 0, 1),
        Span("note", 1, 3),
        Span("client", 3, 7),
        Span("note", 7, 8),
        Span("client", 8, 10),
    )
    assert done.keys[5:7] == (image.key, image.key)


@pytest.mark.spec("EFF-004", "NOTE-005")
def test_thinking_is_closed_at_the_end_and_nowhere_else() -> None:
    known = Openings((7, 8), (7, 6, 5, 4), frozenset({END}))
    prompt = prompt_of([1, END, 7, 8, END, 7, 8])
    done = close_thinking(prompt, known)
    assert done.ids == (1, END, 7, 8, END, 7, 6, 5, 4)
    assert done.thinking == "off"
    assert done.client_tokens == prompt.client_tokens
    assert done.spans[-1] == Span("closed_think", 7, 9)
    assert close_thinking(done, known) is done
    assert close_thinking(prompt_of([1, END, 8]), known).ids == (1, END, 8), "an opening that is not the template's"
    assert close_thinking(prompt, None) is prompt


def test_a_note_before_the_closed_block() -> None:
    known = Openings((7, 8), (7, 6, 5), frozenset({END}))
    closed = close_thinking(prompt_of([1, END, 7, 8]), known)
    done = splice(closed, [Piece(1, "note", (20,))])
    assert done.ids == (1, 20, END, 7, 6, 5)
    assert done.spans == (Span("client", 0, 1), Span("note", 1, 2), Span("client", 2, 5), Span("closed_think", 5, 6))


@pytest.mark.spec("EFF-004")
@pytest.mark.parametrize("script", ["hello", "@fake begin: inside"])
def test_the_fakes_opening(script: str) -> None:
    text = FakeText()
    known = openings(text)
    assert known is not None
    said = [{"role": "system", "content": "s"}, {"role": "user", "content": "hello"}]
    off = text.render(Conversation(messages=said, template_kwargs={"enable_thinking": False}))
    done = close_thinking(text.render(Conversation(messages=said)), known)
    assert (done.ids, done.thinking) == (off.ids, off.thinking)
    assert done.turn_ends == tuple(turn_end_rows(done.ids, text.turn_ends)) != ()


@pytest.mark.spec("EFF-004")
def test_a_template_without_thinking_has_nothing_to_close() -> None:
    text = CheckpointText(BpeTokenizer(tiny_tokenizer(), "0" * 64), template=TOOL_CHATML)
    known = openings(text)
    prompt = text.render(Conversation(messages=[{"role": "user", "content": "a"}]))
    closed = close_thinking(prompt, known)
    again = text.render(
        Conversation(messages=[{"role": "user", "content": "a"}], template_kwargs={"enable_thinking": False})
    )
    assert closed.ids == again.ids
    assert text.turn_ends
    assert prompt.turn_ends == tuple(turn_end_rows(prompt.ids, text.turn_ends)) != ()
