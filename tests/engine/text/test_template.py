"""The sandboxed template environment."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from tandem.engine.errors import CheckpointError
from tandem.engine.text.template import ChatTemplate, TemplateFailed
from tests.tiny import CHATML, TOOL_CHATML

DAY = datetime.date(2026, 2, 3)
USER = {"role": "user", "content": 'häh <b> & "q" \''}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"z": "é<", "a": [1, None]}}}
TURNS: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    USER,
    {"role": "assistant", "content": "x", "reasoning_content": "r", "tool_calls": [CALL]},
    {"role": "tool", "content": "42", "tool_call_id": "c1"},
]
TOOL = {"type": "function", "function": {"name": "f", "description": "dé", "parameters": {"type": "object"}}}


def render(source: str, **given: Any) -> str:
    return ChatTemplate(source).render([USER], **given)


@pytest.mark.spec("ENG-013")
@pytest.mark.parametrize("source", [CHATML, TOOL_CHATML])
@pytest.mark.parametrize("tools", [[], [TOOL]])
def test_text_equals_the_reference(source: str, tools: list[dict[str, Any]]) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template  # takes seconds

    expected, _ = render_jinja_template(
        [TURNS], tools=tools or None, chat_template=source, add_generation_prompt=True, bos_token="", eos_token=""
    )
    assert ChatTemplate(source).render(TURNS, tools=tools) == expected[0]


@pytest.mark.spec("ENG-013")
def test_the_environment() -> None:
    assert render("a\n  {% if true %}\n b\n  {% endif %}\nc") == "a\n b\nc"
    assert render("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "01"
    assert render("{{ {'b': 'é<', 'a': 1} | tojson }}") == '{"b": "é<", "a": 1}'
    assert render("{{ [1] | tojson(indent=1) }}") == "[\n 1\n]"
    assert render("{% generation %}a{{ 1 }}{% endgeneration %}b") == "a1b"
    assert render("{{ tools is none }}{{ add_generation_prompt }}{{ missing }}") == "TrueTrue"
    assert ChatTemplate("{{ bos_token }}|{{ eos_token }}", bos_token="<s>", eos_token="</s>").render([]) == "<s>|</s>"


@pytest.mark.spec("ENG-180")
def test_strftime_now_gives_the_day_it_is_given() -> None:
    source = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y %H:%M') }}{% else %}none{% endif %}"
    assert render(source, today=DAY) == "03 Feb 2026 00:00"
    assert render(source) == "none"


@pytest.mark.spec("ENG-013")
@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages[0].__init__.__globals__ }}",
        "{{ range(10 ** 9) | list }}",
        "{{ self._TemplateReference__context }}{{ cycler.__init__.__globals__.os.environ }}",
    ],
)
def test_the_sandbox(source: str) -> None:
    with pytest.raises(TemplateFailed):
        render(source)


@pytest.mark.spec("API-025")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ raise_exception('Roles must alternate') }}", "Roles must alternate"),
        ("{{ raise_exception('No ' + messages[0].content) }}", "TemplateError in the chat template"),
        ("{{ raise_exception(messages[0].content) }}", "TemplateError in the chat template"),
        ("{{ messages[0].content + 1 }}", "TypeError in the chat template"),
        ("{{ messages[0].content | items | list }}", "TypeError in the chat template"),
        ("{{ messages[9].content.x }}", "UndefinedError in the chat template"),
        ("{{ 1 // 0 }}", "ZeroDivisionError in the chat template"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError in the chat template"),
    ],
)
def test_failures_quote_no_client(source: str, message: str) -> None:
    with pytest.raises(TemplateFailed) as caught:
        render(source)
    assert str(caught.value) == message


def test_arguments_do_not_replace_what_is_given() -> None:
    kwargs = {"messages": [], "tools": [1], "bos_token": "x", "add_generation_prompt": False, "extra": "e"}
    source = "{{ messages | length }}{{ tools }}{{ bos_token }}{{ add_generation_prompt }}{{ extra }}"
    assert render(source, kwargs=kwargs) == "1NoneTruee"


def test_a_template_that_does_not_parse() -> None:
    with pytest.raises(CheckpointError, match="the chat template does not parse: line 2: "):
        ChatTemplate("a\n{% if %}")
