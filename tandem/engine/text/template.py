"""A checkpoint's chat template in a sandboxed Jinja environment (ENG-013).

The environment is the one templates are written for, Hugging Face's: `trim_blocks`, `lstrip_blocks`, loop controls,
`raise_exception`, `strftime_now`, a `tojson` that escapes neither non-ASCII nor HTML, and `{% generation %}` blocks,
which mark a trainer's targets and mean nothing here.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.ext import loopcontrols as LoopControls  # noqa: N812
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tandem.engine.errors import CheckpointError

__all__ = ["CHATML", "ROLE_LINES", "ChatTemplate", "TemplateFailed"]

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""For a checkpoint without a template whose tokenizer has ChatML's markers."""

ROLE_LINES = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)
"""For a checkpoint that has neither a template nor markers: a base model."""


class TemplateFailed(Exception):
    """The template cannot render this input. The message is the template's own text, never the client's."""


class ChatTemplate:
    """One compiled template. Rendering shares no state, so any thread may do it."""

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        """`CheckpointError` where `source` is not a template."""
        self.source = source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[LoopControls, _GenerationBlock]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        try:
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise CheckpointError(f"the chat template does not parse: line {error.lineno}: {error.message}") from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        kwargs: Mapping[str, Any] | None = None,
        today: datetime.date | None = None,
    ) -> str:
        """The prompt's text up to and with the opening of a new assistant turn.

        Without `today` there is no `strftime_now`, and a template falls back to the date it carries.
        Raises `TemplateFailed`, and nothing else, for whatever goes wrong inside.
        """
        given: dict[str, Any] = {**(kwargs or {}), **self._tokens}
        given |= {"messages": list(messages), "tools": list(tools) or None, "documents": None}
        if today is not None:
            given["strftime_now"] = today.strftime
        try:
            return self._template.render(given, add_generation_prompt=True)
        except TemplateError as error:
            raise TemplateFailed(self._own_words(error)) from None
        except Exception as error:  # any operation of a template on a value of the wrong kind
            raise TemplateFailed(f"{type(error).__name__} in the chat template") from None

    def _own_words(self, error: TemplateError) -> str:
        """The error's message where it is a literal of the template: anything else may quote the client."""
        message = str(error)
        return message if message and message in self.source else f"{type(error).__name__} in the chat template"


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


class _GenerationBlock(Extension):
    """`{% generation %}…{% endgeneration %}` renders its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
