"""Side requests are told by their shape."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.engine.text.side import SIDE_SHAPES, SideShape, side_shape


def request(shape: SideShape, opening: str) -> list[dict[str, Any]]:
    text = opening.replace(" ", "\n  ") + " And so on."
    if shape.role == "user":
        return [{"role": "user", "content": text}]
    return [{"role": "system", "content": text}, {"role": "user", "content": "hi"}]


@pytest.mark.spec("SES-009")
@pytest.mark.parametrize(("shape", "opening"), [(shape, text) for shape in SIDE_SHAPES for text in shape.opens])
def test_each_shape(shape: SideShape, opening: str) -> None:
    messages = request(shape, opening)
    assert side_shape(messages, has_tools=False) is shape
    assert side_shape(messages, has_tools=True) is None
    assert side_shape([{**messages[0], "content": "x" + opening}, *messages[1:]], has_tools=False) is None
    other = "user" if shape.role == "system" else "system"
    assert side_shape([{**messages[0], "role": other}], has_tools=False) is None


@pytest.mark.spec("SES-009")
def test_a_user_shape_has_no_other_message() -> None:
    [message] = request(SIDE_SHAPES[3], SIDE_SHAPES[3].opens[0])
    assert side_shape([message, {"role": "assistant", "content": "x"}], has_tools=False) is None


def test_odd_messages_have_no_shape() -> None:
    assert side_shape([], has_tools=False) is None
    assert side_shape([{"role": "user", "content": [{"type": "text", "text": "### Task:"}]}], has_tools=False) is None
    assert side_shape([{"role": "user"}], has_tools=False) is None
