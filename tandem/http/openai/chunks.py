"""Deltas to server-sent events, for both routes (API, section 16).

A stream's head never changes, so it is encoded once and each text is filled in between two constant pieces: a token
costs one JSON string. What `feed` gives for the deltas of one block is meant as one write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TypeAlias, assert_never

from tandem.engine.text.reading.deltas import (
    Blank,
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Delta,
    Finish,
    Line,
    Reasoning,
    ReasoningEnd,
    ReasoningStart,
    Usage,
)
from tandem.engine.verbs import TokenLogprob
from tandem.http.openai.counts import timings_json, usage_json
from tandem.http.openai.errors import ApiError, internal
from tandem.http.openai.formats import ReasoningFormat, Thought, in_content
from tandem.http.openai.jsontext import dump, string
from tandem.http.openai.logprobs import TokenNames, chat_logprobs, legacy_logprobs

__all__ = ["DONE", "ChatStream", "CompletionStream", "Stream"]

DONE = b"data: [DONE]\n\n"

Other: TypeAlias = Thought | CallStart | CallArguments | CallEnd | Line
"""Deltas that are neither text of the answer nor its end."""


class Stream(ABC):
    """One streamed response: `open`, then `feed` until `ended`; `fail` ends it instead.

    `include_usage` is the client's option, `usage_default` what stands in for an absent one (API-140). `names` is given
    where log-probabilities were asked for, and `sampled` where the server chose the sampling.
    """

    OBJECT: str
    OPEN: bytes
    """What comes before the text in a choice."""

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
    ) -> None:
        constant = dump({"id": id, "object": self.OBJECT, "created": created, "model": model})
        self._head = b"data: " + constant[:-1] + b',"choices":['
        self._tail = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"
        self._before = self._head + self.OPEN
        self._after = self._close(b"null") + self._tail
        self._include_usage = include_usage
        self._counts = usage_default if include_usage is None else include_usage
        self._names = names
        self._sampled = sampled
        self._awaits_content = False
        """Whether the client goes by the next content to see that the reasoning has ended."""
        self.ended = False
        """Whether `[DONE]` has been given out; whatever is fed later is dropped."""

    def open(self) -> bytes:
        """What the stream starts with."""
        return b""

    def feed(self, deltas: Iterable[Delta]) -> bytes:
        """The events of these deltas, in order; a `Finish` ends the stream, `[DONE]` included."""
        return b"".join([self._encode(delta) for delta in deltas])

    def fail(self, error: ApiError, usage: Usage | None = None) -> bytes:
        """The end of a stream that failed or was refused after it had opened (API-145).

        `usage` holds the partial counts where a generation had begun (API-162).
        """
        if self.ended:
            return b""
        self.ended = True
        tail = b'],"error":' + dump(error.stream_members())
        if usage is not None and self._counts:
            tail += b',"usage":' + dump(usage_json(usage, self._sampled)) + b"}\n\n"
        else:
            tail += b',"usage":null}\n\n' if self._include_usage else b"}\n\n"
        return self._head + self._last("error") + tail + DONE

    def _encode(self, delta: Delta) -> bytes:
        if self.ended:
            return b""
        if isinstance(delta, Content):
            if self._names is not None:
                return self._content_with_logprobs(delta, self._names)
            return self._plain(delta.text)
        if isinstance(delta, Finish):
            return self._finish(delta)
        return self._other(delta)

    def _plain(self, text: str) -> bytes:
        if not text:
            return b""
        self._awaits_content = False
        return self._before + string(text) + self._after

    def _finish(self, finish: Finish) -> bytes:
        if finish.reason == "error":
            return self.fail(internal(), None if finish.usage == Usage() else finish.usage)
        self.ended = True
        if finish.reason == "abandoned":
            return b""
        last = self._head + self._last(finish.reason)
        if not self._counts:
            return last + self._tail + DONE
        counts = b'],"usage":%b,"timings":%b}\n\n' % (
            dump(usage_json(finish.usage, self._sampled)),
            dump(timings_json(finish.usage, finish.timings)),
        )
        if self._include_usage:
            return last + self._tail + self._head + counts + DONE
        return last + counts + DONE

    @abstractmethod
    def _content_with_logprobs(self, delta: Content, names: TokenNames) -> bytes:
        """The event of a text on a stream with log-probabilities."""

    @abstractmethod
    def _other(self, delta: Other) -> bytes:
        """The event of anything but answer text and end."""

    @abstractmethod
    def _last(self, reason: str) -> bytes:
        """The choice of a chunk that has a finish reason and no text."""

    @abstractmethod
    def _close(self, logprobs: bytes) -> bytes:
        """What comes after the text in the choice of a chunk that is not the last."""


class ChatStream(Stream):
    """A chat completion.

    `reasoning_alias` sends reasoning under `reasoning` too (API-257). With `blank_lines`, a stream whose reasoning goes
    to `reasoning_content` alone has a content delta of blank lines where the reasoning ends (API-076).
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

    def open(self) -> bytes:
        """The role chunk: before any text, once (API-138)."""
        return self._delta + b'"role":"assistant","content":""' + self._after

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
        apart = b'"reasoning_content":' + raw + (b',"reasoning":' + raw if self._alias else b"")
        if self._format == "reasoning_content":
            return self._delta + apart + self._after
        twice = self._before + raw + b"," + apart
        if self._names is None or not delta.logprobs:
            return twice + self._after
        return twice + self._after_tokens(delta.logprobs, self._names)

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


class CompletionStream(Stream):
    """A text completion: the same with `text` in place of a delta, the legacy log-probabilities, and no role chunk."""

    OBJECT = "text_completion"
    OPEN = b'{"index":0,"text":'
    _sent = 0
    """Characters sent so far, for the offsets of log-probabilities."""

    def _content_with_logprobs(self, delta: Content, names: TokenNames) -> bytes:
        at = self._sent
        self._sent += len(delta.text)
        if not delta.logprobs:
            return self._plain(delta.text)
        logprobs = dump(legacy_logprobs(delta.logprobs, delta.text, at, names))
        return self._before + string(delta.text) + self._close(logprobs) + self._tail

    def _other(self, delta: Other) -> bytes:
        # This route has no reasoning split and no tools (API-047); lines never reach it (API-147).
        raise TypeError(f"a text completion has no {type(delta).__name__}")

    def _last(self, reason: str) -> bytes:
        return b'{"index":0,"text":"","logprobs":null,"finish_reason":' + string(reason) + b"}"

    def _close(self, logprobs: bytes) -> bytes:
        return b',"logprobs":' + logprobs + b',"finish_reason":null}'
