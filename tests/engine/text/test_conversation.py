"""Client messages as templates take them, and what the probes find out about a template."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.engine.text.conversation import SYSTEM_LINE, arrange
from tandem.engine.text.support import TemplateSupport, probe
from tandem.engine.text.template import CHATML, ROLE_LINES, ChatTemplate
from tests.tiny import TOOL_CHATML

ALL = TemplateSupport(
    supports_tools=True, supports_calls=True, supports_tool_role=True, reasoning_key="reasoning_content"
)
NONE = TemplateSupport(supports_tools=False, supports_calls=False, supports_tool_role=False, text_arguments=False)
ITEMS = TemplateSupport(supports_tools=True, supports_calls=True, supports_tool_role=True, text_arguments=False)
TEXT = TemplateSupport(supports_tools=True, supports_calls=True, supports_tool_role=True, call_arguments="text")

LOOP = "{% for m in messages %}{{ m.role + m.content }}{% for c in m.tool_calls or [] %}%s{% endfor %}{% endfor %}"


def calling(arguments: Any, **message: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call], **message}


def arguments(sent: Any, support: TemplateSupport) -> Any:
    (message,) = arrange([calling(sent)], support)
    return message["tool_calls"][0]["function"]["arguments"]


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.spec("API-040")
def test_system_messages_at_the_head_are_joined() -> None:
    assert arrange([system("a"), system("b"), user("c")], ALL) == [system("a\n\nb"), user("c")]


@pytest.mark.spec("API-040")
def test_a_later_system_message_is_a_user_turn_and_stays_one() -> None:
    turns = [system("a"), user("b"), system("c"), user("d")]
    first = arrange(turns[:3], ALL)
    assert first == [system("a"), user("b"), user(f"{SYSTEM_LINE}\nc")]
    assert "\n" not in SYSTEM_LINE
    assert "system message" in SYSTEM_LINE
    assert arrange(turns, ALL) == [*first, user("d")]


@pytest.mark.spec("API-041")
def test_a_last_assistant_message_stays_as_sent() -> None:
    turns = [user("a"), {"role": "assistant", "content": "b"}]
    assert arrange(turns, ALL) == turns


@pytest.mark.spec("API-042")
@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_under_either_name(name: str) -> None:
    turns = [user("a"), {"role": "assistant", "content": "b", name: "r"}, user("c")]
    assert arrange(turns, ALL)[1] == {"role": "assistant", "content": "b", "reasoning_content": "r"}
    assert arrange(turns, NONE)[1] == {"role": "assistant", "content": "b"}


@pytest.mark.spec("API-042")
def test_reasoning_content_comes_before_reasoning() -> None:
    (message,) = arrange([{"role": "assistant", "content": "b", "reasoning_content": "r", "reasoning": "s"}], ALL)
    assert message == {"role": "assistant", "content": "b", "reasoning_content": "r"}


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": ""}])
def test_missing_content_is_empty(content: dict[str, Any]) -> None:
    for role in ("user", "assistant", "system", "tool"):
        assert arrange([{"role": role, **content}], ALL) == [{"role": role, "content": ""}]


PARTS = [{"type": "text", "text": "a"}, {"type": "image", "index": 0}]


@pytest.mark.spec("API-182")
@pytest.mark.parametrize("support", [ALL, NONE])
def test_parts_of_a_message_with_images_are_kept(support: TemplateSupport) -> None:
    for role in ("user", "assistant"):
        assert arrange([{"role": role, "content": PARTS}], support) == [{"role": role, "content": PARTS}]
    assert arrange([{"role": "tool", "content": PARTS}], ALL) == [{"role": "tool", "content": PARTS}]


@pytest.mark.spec("API-182")
def test_text_around_images_where_the_template_has_no_place_for_what_they_are_in() -> None:
    before, after = ({"type": "text", "text": text} for text in ("<tool_response>\n", "\n</tool_response>"))
    assert arrange([{"role": "tool", "content": PARTS}], NONE) == [user([before, *PARTS, after])]
    (message,) = arrange([calling('{"a":1}', content=PARTS)], NONE)
    call = '\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    assert message == {"role": "assistant", "content": [*PARTS, {"type": "text", "text": call}]}


@pytest.mark.parametrize("calls", [None, []])
def test_empty_calls_are_absent(calls: Any) -> None:
    sent = {"role": "assistant", "content": "a", "tool_calls": calls}
    assert arrange([sent], ALL) == [{"role": "assistant", "content": "a"}]


@pytest.mark.spec("API-042")
def test_arguments_become_an_object() -> None:
    assert arguments('{"b": 1, "a": "x"}', ALL) == {"b": 1, "a": "x"}
    assert list(arguments('{"b": 1, "a": "x"}', ALL)) == ["b", "a"]
    assert arguments({"a": 1}, ALL) == {"a": 1}
    assert arguments("", ALL) == {}
    assert arguments(None, ALL) == {}


DEEP = "[" * 100_000


@pytest.mark.spec("API-042")
@pytest.mark.parametrize(
    "cut", ['{"a":', "[1]", '"x"', "null", "not json", '{"a": NaN}', DEEP, '{"a": %s}' % ("9" * 5000)]
)
def test_arguments_that_are_no_object_stay_text(cut: str) -> None:
    assert arguments(cut, ALL) == cut
    assert arguments(cut, ITEMS) == {"arguments": cut}
    assert arguments(cut, TEXT) == cut


def test_arguments_for_a_template_that_takes_text() -> None:
    assert arguments('{"a":1}', TEXT) == '{"a":1}'
    assert arguments({"a": "é"}, TEXT) == '{"a": "é"}'
    assert arguments([1], ALL) == "[1]"


def test_content_and_calls_are_both_kept() -> None:
    (message,) = arrange([calling('{"a": 1}', content="words")], ALL)
    assert message["content"] == "words"
    assert message["tool_calls"][0] == {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": {"a": 1}},
    }


def test_calls_of_a_template_without_them_are_text() -> None:
    (message,) = arrange([calling('{"a":1}', content="words")], NONE)
    text = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    assert message == {"role": "assistant", "content": f"words\n{text}"}
    assert arrange([calling('{"a":')], NONE)[0]["content"] == text.replace('{"a": 1}', '{"a":')


def test_a_tool_turn_of_a_template_without_them_is_a_user_turn() -> None:
    sent = {"role": "tool", "content": "42", "tool_call_id": "c1"}
    assert arrange([sent], NONE) == [user("<tool_response>\n42\n</tool_response>")]
    assert arrange([sent], ALL) == [sent]


def test_messages_are_not_changed_in_place() -> None:
    sent = [calling('{"a": 1}')]
    arrange(sent, ALL)
    assert sent == [calling('{"a": 1}')]


@pytest.mark.spec("ENG-013")
@pytest.mark.parametrize("source", [CHATML, ROLE_LINES])
def test_probes_of_a_plain_template(source: str) -> None:
    support = probe(ChatTemplate(source))
    assert (support.supports_tools, support.supports_calls, support.supports_tool_role) == (False, False, True)
    assert not support.supports_reasoning


@pytest.mark.spec("ENG-013")
def test_probes_of_a_full_template() -> None:
    assert probe(ChatTemplate(TOOL_CHATML)) == ALL


@pytest.mark.spec("ENG-013")
@pytest.mark.parametrize(
    ("call", "form", "text"),
    [
        ("{{ c.function.name + (c.function.arguments | tojson) }}", "object", True),
        ("{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}", "object", False),
        ("{{ c.function.name + c.function.arguments }}", "text", True),
        ("{{ c.function.name ~ c.function.arguments }}", "text", True),
    ],
)
def test_probes_of_argument_forms(call: str, form: str, text: bool) -> None:
    support = probe(ChatTemplate(LOOP.replace("%s", call)))
    assert (support.call_arguments, support.text_arguments) == (form, text)


@pytest.mark.spec("ENG-179")
@pytest.mark.parametrize(
    ("condition", "key", "kwargs"),
    [
        ("true", "reasoning_content", {}),
        ("loop.last or preserve_thinking", "reasoning_content", {"preserve_thinking": True}),
        (
            "loop.last or (clear_thinking is defined and not clear_thinking)",
            "reasoning_content",
            {"clear_thinking": False},
        ),
        ("loop.last", "reasoning_content", {}),
        ("false", None, {}),
    ],
)
def test_probes_of_reasoning(condition: str, key: str | None, kwargs: dict[str, Any]) -> None:
    source = "{% for m in messages %}{{ m.content }}{% if COND %}{{ m.reasoning_content }}{% endif %}{% endfor %}"
    support = probe(ChatTemplate(source.replace("COND", condition)))
    assert (support.reasoning_key, support.reasoning_kwargs) == (key, kwargs)
    assert support.supports_reasoning == (key is not None)


def test_a_template_that_refuses_tool_turns() -> None:
    refusal = "{% if m.role == 'tool' %}{{ raise_exception('no') }}{% endif %}"
    source = "{% for m in messages %}REFUSAL{{ m.content }}{% endfor %}".replace("REFUSAL", refusal)
    assert not probe(ChatTemplate(source)).supports_tool_role
