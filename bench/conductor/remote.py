"""A session replayed against a running server, over its HTTP API: usage tells what of each prompt it had.

An answer that is no call is the server's own, as a client keeps it: a turn resumes where that ended.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from bench.conductor.fixtures import Fixture, Request, requests
from bench.conductor.replay import Mode, Turn
from tandem.bench.subject import BenchError

__all__ = ["post", "replayed_by"]

TIMEOUT_S = 300
ANSWER = 16
"""Tokens of an answer."""


def replayed_by(url: str, key: str | None, fixture: Fixture, mode: Mode) -> list[Turn]:
    """A restart is left out."""
    address, turns = f"{url.rstrip('/')}/v1/chat/completions", list[Turn]()
    for request in requests(fixture):
        if request.messages:
            marked = {name: f"{value}-{mode}" for name, value in fixture.headers.items()}
            headers = {**marked, "X-Tandem": mode, "X-Tandem-Client": fixture.kind, "X-Tandem-Regenerate": "0"}
            told = post(address, key, _body(request, mode), headers)
            turns.append(_turn(request, told["usage"], fixture))
            if request.answer is not None and request.step.call is None:
                # The history that goes on with it has this very message.
                request.answer["content"] = told["choices"][0]["message"]["content"] or ""
    return turns


def _body(request: Request, mode: Mode) -> dict[str, Any]:
    """With a mark at the head of the first message that is no fixed opening: modes share no rows, titles may."""
    messages = [dict(message) for message in request.messages]
    if request.step.do not in ("side", "compaction"):
        messages[0]["content"] = f"[{mode[:2]}] {messages[0]['content']}"
    body: dict[str, Any] = {"messages": messages, "max_tokens": ANSWER, "temperature": 0}
    return {**body, "tools": list(request.tools)} if request.tools else body


def _turn(request: Request, usage: dict[str, Any], fixture: Fixture) -> Turn:
    details = usage.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens", 0)
    hidden = details.get("hidden_tokens", 0)
    return Turn(request.what, usage["prompt_tokens"], hidden, None, cached, None, not fixture.moves)


def post(address: str, key: str | None, body: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, Any]:
    """The JSON that a POST is answered with. Raises `BenchError`."""
    sent = {"Content-Type": "application/json", **(headers or {})}
    if key is not None:
        sent["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(address, json.dumps(body).encode(), sent)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        raise BenchError(f"{address} answered {error.code}") from None
    except OSError as error:
        raise BenchError(f"{address} does not answer: {error}") from None
    return found
