"""The parameters of a call in the XML form: the members of its arguments, one behind the other."""

from __future__ import annotations

from collections.abc import Callable

from tandem.engine.text.reading.calls.schemas import ToolSchemas
from tandem.engine.text.reading.calls.source import Source, Steps
from tandem.engine.text.reading.calls.tags import WAIT, Look, Tag, tag_at
from tandem.engine.text.reading.calls.values import escaped, is_text, quoted, typed_as
from tandem.engine.text.reading.calls.xml_value import read_value

__all__ = ["next_tag", "read_parameters"]


def next_tag(source: Source) -> Steps[Tag | None]:
    """The tag that begins here, unread."""
    look: Look
    while (look := tag_at(source.text, source.at)) is WAIT:
        yield
    return look


def read_parameters(
    source: Source, tools: ToolSchemas, name: str, send: Callable[[str], None], *, is_paired: bool
) -> Steps[Tag]:
    """Reads a function's parameters; the unread tag that ends it."""
    keys = set[str]()
    while True:
        at = source.text.find("<", source.at)
        source.take(at if at >= 0 else len(source.text))
        if at < 0:
            yield
            continue
        tag = yield from next_tag(source)
        if tag is None or tag.kind == "</parameter>":
            source.take(source.at + 1)
        elif tag.kind != "<parameter":
            send("}" if keys else "{}")
            return tag
        else:
            source.take(tag.end)
            if tag.name in keys:
                yield from read_value(source, lambda _: None, is_paired=is_paired)
                continue
            prefix = f"{',' if keys else '{'}{quoted(tag.name)}:"
            keys.add(tag.name)
            types = tools.types(name, tag.name)
            if is_text(types):
                send(prefix + '"')
                yield from read_value(source, lambda text: send(escaped(text)), is_paired=is_paired)
                send('"')
            else:
                parts: list[str] = []
                yield from read_value(source, parts.append, is_paired=is_paired)
                send(prefix + typed_as("".join(parts), types))
