"""Deltas to one JSON body, for both routes (API-043, API-044, API-048)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

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
)
from tandem.engine.verbs import TokenLogprob
from tandem.http.openai.counts import add_up, timings_json, usage_json
from tandem.http.openai.errors import internal
from tandem.http.openai.formats import ReasoningFormat, Thought, in_content
from tandem.http.openai.jsontext import dump
from tandem.http.openai.line_bodies import Said, laid_out
from tandem.http.openai.lines import LineWay
from tandem.http.openai.logprobs import TokenNames, chat_logprobs, legacy_logprobs

__all__ = ["Answer", "chat_body", "completion_body"]


class Answer:
    """What one choice has said so far, gathered from its deltas; `finish` is None until it has ended."""

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.finish: Finish | None = None
        self.texts: list[Thought | Content] = []
        """Reasoning and answer, as they came."""
        self.calls: dict[int, tuple[CallStart, list[str]]] = {}
        self.lines: list[Said] = []

    def feed(self, deltas: Iterable[Delta]) -> None:
        """Take the next deltas, in order."""
        for delta in deltas:
            match delta:
                case Content() | Reasoning() | ReasoningStart() | ReasoningEnd() | Blank():
                    self.texts.append(delta)
                case CallStart(index):
                    self.calls[index] = (delta, [])
                case CallArguments(index, text):
                    self.calls[index][1].append(text)
                case Finish():
                    self.finish = delta
                case Line():
                    self.lines.append(Said(delta, is_early=not self.texts))
                case CallEnd():
                    pass
                case _:
                    assert_never(delta)

    def contents(self) -> list[Content]:
        """The pieces of the answer."""
        return _contents(self.texts, "reasoning_content")


def chat_body(
    *,
    id: str,
    created: int,
    model: str,
    answers: Sequence[Answer],
    names: TokenNames | None = None,
    sampled: str | None = None,
    reasoning_format: ReasoningFormat = "reasoning_content",
    reasoning_alias: bool = True,
    lines: LineWay | None = None,
) -> bytes:
    """The body of a chat completion. `names` is given where log-probabilities were asked for, `sampled` where the
    server chose the sampling, and `lines` where state lines are shown.

    The content never has the blank lines that some streams send between reasoning and answer: they only mark the time
    (API-076).

    Raises `ApiError` 500 when a choice has failed: the JSON path sends no partial text (API-165).
    """

    def choice(answer: Answer) -> dict[str, Any]:
        texts, before, behind = (answer.texts, "", "") if lines is None else laid_out(answer.texts, answer.lines, lines)
        contents = _contents(texts, reasoning_format)
        reasoning = before + ("" if reasoning_format == "tags" else _reasoning(texts)) + behind
        return {
            "message": _message(_join(contents), reasoning, answer, reasoning_alias),
            "logprobs": None if names is None else {"content": chat_logprobs(_logprobs(contents), names)},
        }

    ended = _ended(answers)
    choices = [{"index": answer.index, **choice(answer), "finish_reason": finish.reason} for answer, finish in ended]
    return _body(id, "chat.completion", created, model, choices, [finish for _, finish in ended], sampled)


def completion_body(
    *, id: str, created: int, model: str, answers: Sequence[Answer], names: TokenNames | None = None
) -> bytes:
    """The body of a text completion; otherwise as `chat_body`."""
    ended = _ended(answers)
    choices = [
        {
            "index": answer.index,
            "text": _join(answer.contents()),
            "logprobs": None if names is None else _legacy(answer, names),
            "finish_reason": finish.reason,
        }
        for answer, finish in ended
    ]
    return _body(id, "text_completion", created, model, choices, [finish for _, finish in ended])


def _ended(answers: Sequence[Answer]) -> list[tuple[Answer, Finish]]:
    ended = []
    for answer in sorted(answers, key=lambda answer: answer.index):
        if answer.finish is None:
            raise ValueError(f"choice {answer.index} has not ended")
        if answer.finish.reason == "error":
            raise internal()
        ended.append((answer, answer.finish))
    return ended


def _body(
    id: str,
    kind: str,
    created: int,
    model: str,
    choices: list[dict[str, Any]],
    finishes: Sequence[Finish],
    sampled: str | None = None,
) -> bytes:
    usage, timings = add_up(finishes)
    return dump(
        {
            "id": id,
            "object": kind,
            "created": created,
            "model": model,
            "choices": choices,
            "usage": usage_json(usage, sampled),
            "timings": timings_json(usage, timings),
        }
    )


def _message(text: str, reasoning: str, answer: Answer, reasoning_alias: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None if answer.calls and not text else text}
    if reasoning:
        message["reasoning_content"] = reasoning
        if reasoning_alias:
            message["reasoning"] = reasoning
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": start.id,
                "type": "function",
                "function": {"name": start.name, "arguments": "".join(pieces)},
            }
            for start, pieces in answer.calls.values()
        ]
    return message


def _contents(texts: Sequence[Thought | Content], reasoning_format: ReasoningFormat) -> list[Content]:
    """The pieces of the content: those of the answer, and where the format says so all that came before it."""
    pieces = [text if isinstance(text, Content) else in_content(text, reasoning_format) for text in texts]
    return [piece for piece in pieces if piece is not None]


def _reasoning(texts: Sequence[Thought | Content]) -> str:
    """The text of the reasoning, without its tags."""
    return "".join([text.text for text in texts if isinstance(text, Reasoning)])


def _join(contents: Sequence[Content]) -> str:
    return "".join([content.text for content in contents])


def _logprobs(contents: Sequence[Content]) -> list[TokenLogprob]:
    return [entry for content in contents for entry in content.logprobs]


def _legacy(answer: Answer, names: TokenNames) -> dict[str, list[Any]]:
    whole: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    at = 0
    for content in answer.contents():
        for name, values in legacy_logprobs(content.logprobs, content.text, at, names).items():
            whole[name] += values
        at += len(content.text)
    return whole
