"""Hidden turns are what the model's own template would have written."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from tokenizers import AddedToken

from tandem.conductor.monitor.hidden import HiddenTurns
from tandem.engine.fake.text import FakeText
from tandem.engine.text.checkpoint import CheckpointText
from tandem.engine.text.closing import hidden_closing
from tandem.engine.text.model import Conversation, TextModel
from tandem.engine.text.template import ROLE_LINES
from tandem.engine.text.tokenizer import BpeTokenizer
from tandem.engine.tiny.templates import CHATML, THINKING_XML, TOOL_CHATML
from tandem.engine.tiny.vocabulary import qwen_tokenizer, tiny_tokenizer

LLAMA_3 = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.tool_calls and m.tool_calls | length > 1 %}{{ raise_exception('one call at a time') }}{% endif %}"
    "{{ '<|start_header_id|>' + ('ipython' if m.role == 'tool' else m.role) + '<|end_header_id|>\n\n' }}"
    "{% if m.tool_calls %}{{ m.tool_calls[0].function | tojson }}{% else %}{{ m.content | trim }}{% endif %}"
    "{{ '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
UNENDED = "{% for m in messages %}{{ m.content }}{% if m.role == 'user' %}<|im_end|>{% endif %}{% endfor %}"
WITH_HEAD = (
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou are SmolLM.<|im_end|>\\n' }}{% endif %}" + CHATML
)
"""As the embedded model's."""
ALWAYS_OPEN = CHATML.replace("<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n")


def tiny(template: str) -> CheckpointText:
    return CheckpointText(BpeTokenizer(tiny_tokenizer(), "0" * 64), template=template)


def llama() -> CheckpointText:
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens(
        [AddedToken(f"<|{name}|>", special=True) for name in ("start_header_id", "end_header_id", "eot_id", "bos")]
    )
    return CheckpointText(BpeTokenizer(tokenizer, "0" * 64), template=LLAMA_3, bos_token="<|bos|>")


@functools.cache
def model(name: str) -> TextModel:
    models: Mapping[str, Callable[[], TextModel]] = {
        "fake": FakeText,
        "chatml": lambda: tiny(CHATML),
        "tools": lambda: tiny(TOOL_CHATML),
        "thinking": lambda: CheckpointText(BpeTokenizer(qwen_tokenizer(), "0" * 64), template=THINKING_XML),
        "llama": llama,
        "head": lambda: tiny(WITH_HEAD),
    }
    return models[name]()


def ids(text: TextModel, *messages: Mapping[str, Any]) -> tuple[int, ...]:
    return text.render(Conversation(messages=messages, template_kwargs={"enable_thinking": False})).ids


def said(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def spelled(text: TextModel, tokens: Sequence[int]) -> str:
    return b"".join(text.piece(token) or text.name(token).encode() for token in tokens).decode()


HEAD = (said("system", "Be brief."), said("user", "Do it."))
NAMES = ("fake", "chatml", "tools", "thinking", "llama", "head")


@pytest.mark.spec("MON-025", "MON-032", "MON-064")
@pytest.mark.parametrize("name", NAMES)
def test_a_users_turn_is_the_templates(name: str) -> None:
    text = model(name)
    turns = HiddenTurns(text)
    for nudge in ("Write the answer now.", "A turn may say <|im_end|> or <|eot_id|>, {as} text.\n\nTwice."):
        turn = turns.user_turn(nudge)
        assert turn is not None
        behind = (*text.encode("I am done."), *turn)
        whole = ids(text, *HEAD, said("assistant", "I am done."), said("user", nudge))
        assert whole[-len(behind) :] == behind
        # A closed thinking block that opens an answer is not shown of earlier answers.
        prompt, before = ids(text, *HEAD), whole[: -len(behind)]
        assert prompt[: len(before)] == before
        assert spelled(text, prompt[len(before) :]) in ("", "<think>\n\n</think>\n\n")
        assert sum(token in text.turn_ends for token in turn) == 2, "the answer's turn and the hidden one"
    assert turns.user_turn("a") is turns.user_turn("a")


@pytest.mark.spec("MON-025")
@pytest.mark.parametrize("name", NAMES)
def test_results_of_tools_are_the_templates(name: str) -> None:
    text = model(name)
    turns = HiddenTurns(text)
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "/"}'}}
    asked = said("assistant", "", tool_calls=[call])
    result = said("tool", "Not like this.", tool_call_id="c1", name="ls")
    before, whole = ids(text, *HEAD, asked), ids(text, *HEAD, asked, result)
    end = max(at for at, token in enumerate(before) if token in text.turn_ends)
    assert turns.tool_turn(["Not like this."]) == whole[end:]
    two = turns.tool_turn(["Not this.", "Nor that."])
    assert two is not None
    assert "Not this." in spelled(text, two)
    assert "Nor that." in spelled(text, two)


def test_a_template_that_cannot_show_the_calls_gets_a_users_turn() -> None:
    turns = HiddenTurns(model("llama"))
    assert turns.tool_turn(["One.", "Two."]) == turns.user_turn("One.\n\nTwo.")


@pytest.mark.spec("MON-025")
def test_the_next_answer_does_not_think() -> None:
    turn = HiddenTurns(model("thinking")).user_turn("Go on.")
    assert turn is not None
    assert spelled(model("thinking"), turn) == (
        "<|im_end|>\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    opened = HiddenTurns(tiny(ALWAYS_OPEN)).user_turn("Go on.")
    assert opened is not None
    assert spelled(model("chatml"), opened).endswith("assistant\n<think>\n\n</think>\n\n")


@pytest.mark.parametrize("template", [ROLE_LINES, UNENDED])
def test_there_is_no_place_where_the_template_ends_no_answer(template: str) -> None:
    turns = HiddenTurns(tiny(template))
    assert turns.user_turn("Go on.") is None
    assert turns.tool_turn(["Go on."]) is None
    assert turns.question("Is it so?", ["yes", "no"]) is None


@pytest.mark.spec("MON-062")
@pytest.mark.parametrize("name", NAMES)
def test_a_question_asks_for_letters_of_one_token_each(name: str) -> None:
    text = model(name)
    asked = HiddenTurns(text).question("Is it so?", ["yes", "no"])
    assert asked is not None
    turn, options = asked
    assert [text.piece(option) for option in options] == [b"A", b"B"]
    assert "Is it so?\n\nA: yes\nB: no\n\n" in spelled(text, turn)
    assert turn[0] in text.turn_ends
    assert HiddenTurns(text).question("Is it so?", ["yes"] * 99) is None, "there are no letters for them"


@pytest.mark.spec("MON-025", "MON-054")
@pytest.mark.parametrize("name", ["fake", "thinking", "chatml"])
def test_a_closer_ends_with_the_closing_tag(name: str) -> None:
    text = model(name)
    turns = HiddenTurns(text)
    assert turns.closer() == hidden_closing(text)
    assert spelled(text, turns.closer("")[0]) == "\n</think>\n\n"
    assert spelled(text, turns.closer("Enough.\n")[0]) == "Enough.\n</think>\n\n"
    assert spelled(text, turns.closer("Enough.</think>\n")[0]) == "Enough.</think>\n"
    if (tag := text.markers.get("</think>")) is not None:
        assert turns.closer("")[0].count(tag) == 1
