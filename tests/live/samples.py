"""Requests as the live view sees them, a view to show them to, and the contract that its events keep."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema
import msgspec

import tandem
from tandem.live.event import Memory, SamplerNow
from tandem.live.line import Why
from tandem.live.seen import RequestSeen
from tandem.live.view import LiveView, Moment, Served
from tandem.store.outcome import Outcome

__all__ = ["EPOCH", "PREFILLING", "QUEUED", "SERVED", "WRITING", "Shown", "outcome", "seen", "valid"]

EPOCH = datetime.datetime(2026, 11, 30, 6, 30, tzinfo=datetime.UTC)
"""The date at second 0 of the tests' clock."""
SERVED = Served(model="TandemLLM", base_model="fake", version="0.1.0", window=4096)
SAMPLER = SamplerNow(ticks=0, encodes=0, tick_cost_ms=0.0, readers=0)
SCHEMA = json.loads((Path(tandem.__file__).parent / "contract/live.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())


def valid(data: bytes | str) -> Any:
    """A document that keeps the contract."""
    document = json.loads(data)
    VALIDATOR.validate(document)
    return document


def seen(**changes: Any) -> RequestSeen:
    """A streamed chat of opencode that has just arrived at second 0."""
    facts: dict[str, Any] = {
        "request_id": "r1",
        "endpoint": "chat",
        "stream": True,
        "model": "gpt-4o",
        "client_kind": "opencode",
        "client_id": "k:1f0e9d8c7b6a",
        "mode": "raw",
        "profile": None,
        "thinking": "on",
        "temperature": 0.7,
        "max_tokens": 256,
        "choices": 1,
        "choice": 0,
        "phase": "reading",
        "ts_ms": int(EPOCH.timestamp() * 1e3),
        "arrived_at": 0.0,
        "granted_at": None,
        "first_at": None,
        "last_at": None,
        "client_gone_at": None,
        "slot": None,
        "wait_s": 240.0,
        "lane": None,
        "missing": 0,
        "memory_place": 1,
        "prompt_tokens": None,
        "rows": None,
        "read": 0,
        "resumed": 0,
        "cache_source": "none",
        "image": None,
        "completion": 0,
        "reasoning": 0,
        "in_reasoning": False,
        "in_call": False,
        "tool": None,
        "tool_bytes": 0,
        "tool_open": False,
        "rounds": 0,
        "drafted": 0,
        "draft_accepted": 0,
        "is_closed": False,
    }
    return RequestSeen(**facts | changes)


QUEUED: dict[str, Any] = {"phase": "queued", "prompt_tokens": 1200, "rows": 1200}
PREFILLING: dict[str, Any] = {**QUEUED, "phase": "prefilling", "granted_at": 1.0, "slot": 0}
WRITING: dict[str, Any] = {
    **PREFILLING,
    "phase": "writing",
    "read": 1200,
    "first_at": 3.0,
    "last_at": 3.0,
    "completion": 1,
    "rounds": 0,
}


def outcome(**changes: Any) -> Outcome:
    """One that ended well, two seconds after its arrival at second 0."""
    facts: dict[str, Any] = {
        "request_id": "r1",
        "ts_ms": int(EPOCH.timestamp() * 1e3),
        "endpoint": "chat",
        "stream": True,
        "status": 200,
        "finish_reason": "stop",
        "total_ms": 2000.0,
    }
    return Outcome(**facts | changes)


@dataclass
class Shown:
    """A view, the time, and the requests as they are to be seen."""

    shows_activity: bool = True
    slots: int = 1
    now: float = 0.0
    requests: dict[str, RequestSeen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        served = replace(SERVED, slots=self.slots)
        self.view = LiveView(served, shows_activity=self.shows_activity, now=0.0)

    @property
    def at(self) -> Moment:
        return Moment(self.now, EPOCH + datetime.timedelta(seconds=self.now))

    def begin(self, request_id: str = "r1", **facts: Any) -> None:
        self.requests[request_id] = seen(request_id=request_id, arrived_at=self.now, **facts)
        self.view.began(request_id, lambda: self.requests[request_id], self.at)

    def becomes(self, request_id: str = "r1", **facts: Any) -> None:
        """What is to be seen of a request that has begun."""
        self.requests[request_id] = msgspec.structs.replace(self.requests[request_id], **facts)

    def end(self, **facts: Any) -> None:
        self.view.ended(outcome(**facts), self.at)

    def line(self, *request_ids: str, draining: bool = False) -> None:
        self.view.queue_seen(len(request_ids), request_ids, draining=draining, now=self.now)

    def whys(self, *lane: str, **whys: Why) -> None:
        self.view.waits_seen(whys, lane, self.now)

    def event(self, now: float | None = None, *, with_history: bool = False) -> Any:
        """Look at everything and make the document, at this second if one is given."""
        self.now = self.now if now is None else now
        self.view.look(self.at)
        event = self.view.event(
            1,
            self.at,
            interval_s=0.25,
            memory=Memory(rss_bytes=1, peak_bytes=2),
            sampler=SAMPLER,
            with_history=with_history,
        )
        return valid(msgspec.json.encode(event))

    def row(self, now: float | None = None, request_id: str = "r1") -> Any:
        [row] = [each for each in self.event(now)["requests"] if each["request_id"] == request_id]
        return row

    def activity(self, now: float | None = None, request_id: str = "r1") -> Any:
        return self.row(now, request_id)["activity"]

    def sample(self, now: float) -> None:
        self.now = now
        self.view.look(self.at)
        self.view.sample(self.at)
