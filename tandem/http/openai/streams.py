"""Deltas to server-sent events (API, section 16): what both routes have in common, and text completions.

A stream's head never changes, so it is encoded once and each text is filled in between two constant pieces: a token
costs one JSON string. What `feed` gives for the deltas of one block is meant as one write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TypeAlias

from tandem.engine.text.reading.deltas import (
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Delta,
    Finish,
    Line,
    Usage,
)
from tandem.http.openai.counts import timings_json, usage_json
from tandem.http.openai.errors import ApiError, internal
from tandem.http.openai.formats import Thought
from tandem.http.openai.jsontext import dump, string
from tandem.http.openai.logprobs import TokenNames, legacy_logprobs

__all__ = ["DONE", "CompletionStream", "Other", "Stream"]

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

    def conclude(self, text: str) -> bytes:
        """The end of the status events, if there was one (STA-020)."""
        return b""

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
