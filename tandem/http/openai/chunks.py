"""Deltas to the chunks of a chat completion (API, section 16), state lines among them (section 17)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from tandem.engine.text.reading.deltas import (
    Blank,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Delta,
    Line,
    Reasoning,
    ReasoningEnd,
    ReasoningStart,
)
from tandem.engine.verbs import TokenLogprob
from tandem.http.openai.formats import ReasoningFormat, Thought, in_content
from tandem.http.openai.jsontext import dump, string
from tandem.http.openai.lines import LineWay, Placed, Placer
from tandem.http.openai.logprobs import TokenNames, chat_logprobs
from tandem.http.openai.streams import Other, Stream

__all__ = ["ChatStream"]


class ChatStream(Stream):
    """A chat completion.

    `reasoning_alias` sends reasoning under `reasoning` too (API-257). With `blank_lines`, a stream whose reasoning goes
    to `reasoning_content` alone has a content delta of blank lines where the reasoning ends (API-076). `lines` says how
    state lines are shown; without it they are not.
    """

    OBJECT = "chat.completion.chunk"
    OPEN = b'{"index":0,"delta":{"content":'

    def __init__(
        self,
        *,
        id: str,
        created: int,
        model: str,
        include_usage: bool | None = None,
        usage_default: bool = True,
        names: TokenNames | None = None,
        sampled: str | None = None,
        reasoning_format: ReasoningFormat = "reasoning_content",
        reasoning_alias: bool = True,
        blank_lines: bool = False,
        lines: LineWay | None = None,
    ) -> None:
        super().__init__(
            id=id,
            created=created,
            model=model,
            include_usage=include_usage,
            usage_default=usage_default,
            names=names,
            sampled=sampled,
        )
        self._format = reasoning_format
        self._alias = reasoning_alias
        self._blank_lines = blank_lines and reasoning_format == "reasoning_content"
        self._delta = self._head + b'{"index":0,"delta":{'
        self._placer = None if lines is None else Placer(lines)
        self._has_status = False
        """A status event was sent, and not concluded."""

    def open(self) -> bytes:
        """The role chunk: before any text, once (API-138)."""
        return self._delta + b'"role":"assistant","content":""' + self._after

    def feed(self, deltas: Iterable[Delta]) -> bytes:
        if self._placer is None:
            return super().feed(deltas)
        return b"".join(
            self._line(each) if isinstance(each, Placed) else self._encode(each) for each in self._placer.feed(deltas)
        )

    def conclude(self, text: str) -> bytes:
        return self._status(text, done=True) if self._has_status else b""

    def _line(self, line: Placed) -> bytes:
        if self.ended:
            return b""
        match line.place:
            case "status":
                return self._status(line.text, done=False)
            case "content":  # not as text of the answer, which some clients wait for
                return self._before + string(line.text) + self._after
            case "reasoning":
                return self._apart(string(line.text))
            case "title":
                return self._call(b"") + self._apart(string(line.text))

    def _status(self, text: str, *, done: bool) -> bytes:
        self._has_status = not done
        event = {"type": "status", "data": {"description": text, "done": done}}
        return self._head + b'],"event":' + dump(event) + (b',"usage":null}\n\n' if self._include_usage else b"}\n\n")

    def _content_with_logprobs(self, delta: Content, names: TokenNames) -> bytes:
        if not delta.logprobs:
            return self._plain(delta.text)
        self._awaits_content = False
        return self._before + string(delta.text) + self._after_tokens(delta.logprobs, names)

    def _after_tokens(self, logprobs: Sequence[TokenLogprob], names: TokenNames) -> bytes:
        """What comes after the content of a chunk that these tokens have written."""
        return self._close(dump({"content": chat_logprobs(logprobs, names)})) + self._tail

    def _other(self, delta: Other) -> bytes:
        match delta:
            case Reasoning():
                return self._reasoning(delta)
            case ReasoningStart() | ReasoningEnd() | Blank():
                shown = in_content(delta, self._format)
                return self._after_block(delta) if shown is None else self._encode(shown)
            case CallStart(index, id, name):
                call = b'{"index":%d,"id":%b,"type":"function","function":{"name":%b,"arguments":""}}'
                blank = self._plain("\n") if self._awaits_content else b""
                return blank + self._call(call % (index, string(id), string(name)))
            case CallArguments(index, text):
                return self._call(b'{"index":%d,"function":{"arguments":%b}}' % (index, string(text))) if text else b""
            case CallEnd() | Line():
                return b""
            case _:
                assert_never(delta)

    def _reasoning(self, delta: Reasoning) -> bytes:
        if self._format == "tags" or not delta.text:
            shown = in_content(delta, self._format)
            return b"" if shown is None else self._encode(shown)
        raw = string(delta.text)
        if self._format == "reasoning_content":
            return self._apart(raw)
        twice = self._before + raw + b"," + self._reasoning_members(raw)
        if self._names is None or not delta.logprobs:
            return twice + self._after
        return twice + self._after_tokens(delta.logprobs, self._names)

    def _apart(self, raw: bytes) -> bytes:
        return self._delta + self._reasoning_members(raw) + self._after

    def _reasoning_members(self, raw: bytes) -> bytes:
        return b'"reasoning_content":' + raw + (b',"reasoning":' + raw if self._alias else b"")

    def _after_block(self, delta: Thought) -> bytes:
        """What marks the end of reasoning that goes out apart: nothing, or the blank lines the client waits for."""
        match delta:
            case ReasoningEnd():
                self._awaits_content = self._blank_lines
            case Blank(text, logprobs) if self._awaits_content:
                return self._encode(Content(text, logprobs))
        return b""

    def _call(self, call: bytes) -> bytes:
        return self._delta + b'"tool_calls":[' + call + b"]" + self._after

    def _last(self, reason: str) -> bytes:
        return b'{"index":0,"delta":{},"logprobs":null,"finish_reason":' + string(reason) + b"}"

    def _close(self, logprobs: bytes) -> bytes:
        return b'},"logprobs":' + logprobs + b',"finish_reason":null}'
