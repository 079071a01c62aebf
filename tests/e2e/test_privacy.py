"""Nothing of a prompt, an answer, a token or an address in any sink (OBS-048): marked requests, then a search."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.conftest import Start
from tests.e2e.process import Server
from tests.e2e.wire import fake

PEER = "127.83.71.9"
"""Where the marked requests come from: an address that nothing else has."""
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
NAMES = (
    "system user say think argument result image bearer stop metadata history schema description query path broken "
    "type role header cookie session text bias"
)
MARK = {name: f"zq{name}xk" for name in NAMES.split()}
MARKS = tuple(MARK.values())
JOURNAL = ("ledger.sqlite3", "/v1/conductor/")
"""Where the digest of a user's newest message stands, which the class question was asked of (JRN-003)."""
DIGESTED = tuple(MARK[name] for name in ("user", "say", "think"))
"""What the newest messages hold, their scripts among it."""
KEYED = (*JOURNAL, "state/sessions.json")
"""Sinks that name a session by the key its client gave it (OBS-019, NOTE-009)."""
PIXEL = "data:image/png;base64,zqimagexk"


def tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string", "enum": [MARK["schema"], MARK["argument"]]}}}
    return {"type": "function", "function": {"name": name, "description": MARK["description"], "parameters": schema}}


def user(script: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": f"{MARK['user']} {fake(**script)}"}


def bodies() -> Iterator[tuple[str, bytes]]:
    """Requests that end in every way there is: answered, cut, refused, failed, malformed."""
    call = (
        f"<tool_call>\n<function=look>\n<parameter=city>\n{MARK['argument']}\n</parameter>\n</function>\n</tool_call>"
    )
    says = f"<think>{MARK['think']} once more</think>{MARK['say']} and on"
    history: list[dict[str, Any]] = [
        {"role": "system", "content": MARK["system"]},
        {"role": "user", "content": MARK["history"]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": MARK["think"],
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "look", "arguments": json.dumps({"city": MARK["argument"]})},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": MARK["result"]},
    ]
    marked = {
        "model": "M",
        "stop": [MARK["stop"]],
        "user": MARK["metadata"],
        "metadata": {"note": MARK["metadata"]},
        "conversation_id": MARK["session"],
    }
    for more in (
        {},
        {"stream": True},
        {"stream": True, "max_tokens": 3},
        {"n": 2},
        {"stream": True, "tools": [tool("look")]},
        {"response_format": {"type": "json_object"}},
    ):
        yield CHAT, json.dumps({**marked, "messages": [*history, user({"say": says})], **more}).encode()
    yield CHAT, json.dumps({**marked, "messages": [user({"say": call})], "tools": [tool("look")]}).encode()
    yield CHAT, json.dumps({**marked, "messages": [user({"say": says, "fail_at": 1})], "stream": True}).encode()
    yield CHAT, json.dumps({**marked, "messages": [user({"say": says, "fail_at": 0})]}).encode()
    yield TEXT, json.dumps({"prompt": f"{MARK['text']} {fake(say=says)}", "stream": True}).encode()
    yield TEXT, json.dumps({"prompt": f"{MARK['text']} {fake(say=says, fail_at=2)}"}).encode()
    image = {"type": "image_url", "image_url": {"url": PIXEL}}
    yield CHAT, json.dumps({"messages": [{"role": "user", "content": [image]}]}).encode()
    yield CHAT, json.dumps({"messages": [{"role": MARK["role"], "content": "x"}]}).encode()
    yield CHAT, json.dumps({"messages": [{"role": "user", "content": "x"}], "temperature": MARK["type"]}).encode()
    yield CHAT, json.dumps({"messages": [{"role": "user", "content": "x"}], "logit_bias": {MARK["bias"]: 1}}).encode()
    yield CHAT, json.dumps({"messages": [{"role": "user", "content": f"@fake {{{MARK['broken']}"}]}).encode()
    yield CHAT, ('{"messages": [{"role": "user", "content": "' + MARK["broken"]).encode()
    yield CHAT, MARK["broken"].encode() + b"\xff\xfe"
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": MARK["schema"]}}}
    yield CHAT, json.dumps({"messages": [{"role": "user", "content": "x"}], "response_format": schema}).encode()
    yield CHAT, json.dumps({"messages": [user({"say": "x"})], "max_tokens": 10**9, "tools": [MARK["schema"]]}).encode()


READS = (
    f"/v1/models/{MARK['path']}",
    f"/{MARK['path']}?q={MARK['query']}",
    f"/v1/dashboard/usage?bucket={MARK['query']}",
    f"/v1/dashboard/usage?{MARK['query']}=1",
    f"/v1/dashboard/requests?before={MARK['query']}",
    f"/v1/dashboard/requests?finish={MARK['query']}",
    f"/v1/dashboard/logs?since={MARK['query']}",
    f"/v1/dashboard/live?follow={MARK['query']}",
    f"/v1/conductor/events?kind={MARK['query']}",
    f"/metrics?{MARK['query']}=1",
    f"/dashboard/{MARK['path']}",
)
SINKS = (
    "/metrics",
    "/health",
    "/v1/dashboard/live?follow=0",
    "/v1/dashboard/logs?limit=5000",
    "/v1/dashboard/requests?limit=200",
    "/v1/dashboard/requests?format=csv",
    "/v1/dashboard/summary",
    "/v1/dashboard/usage",
    "/v1/dashboard/system",
    "/v1/conductor/events",
    "/v1/conductor/decisions",
    "/v1/conductor/sessions",
    "/v1/conductor/watch",
)


def client(server: Server) -> httpx2.Client:
    headers = {
        "Authorization": f"Bearer {MARK['bearer']}",
        "X-Session-Id": MARK["session"],
        "Cookie": f"a={MARK['cookie']}",
        "X-Whatever": MARK["header"],
    }
    transport = httpx2.HTTPTransport(local_address=PEER)
    return httpx2.Client(base_url=server.base, headers=headers, transport=transport, timeout=30)


@pytest.mark.spec("OBS-048", "API-207", "OBS-011")
def test_no_sink_holds_what_was_said(start: Start) -> None:
    server = start("--usage-ledger", "usage/ledger.sqlite3", "--conductor-config", "conductor")
    events: list[bytes] = []
    watched, seen = threading.Event(), threading.Event()

    def watch() -> None:
        with httpx2.stream("GET", f"{server.base}/v1/dashboard/live?follow=1", timeout=30) as live:
            for piece in live.iter_raw():
                events.append(piece)
                seen.set()
                if watched.is_set():
                    return

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert seen.wait(20)
    answers: list[httpx2.Response] = []
    with client(server) as asker:
        for path, body in bodies():
            answers.append(asker.post(path, content=body, headers={"Content-Type": "application/json"}))
        for path in READS:
            asker.get(path)
        asker.get("/v1/models", headers={"X-Tandem": MARK["header"], "Origin": f"http://{MARK['header']}.example"})
        asker.post(CHAT, content=b"{}", headers={"X-Tandem": MARK["header"]})
        asker.post(CHAT, content=b"{}", headers={"Origin": f"http://{MARK['header']}.example"})
        asker.get("/v1/models", headers={"Host": f"{MARK['header']}.example"})
        asker.post("/v1/dashboard/session", content=json.dumps({"token": MARK["bearer"]}).encode())
    assert {200, 400, 500} <= {answer.status_code for answer in answers}
    said = "".join(answer.text for answer in answers)
    assert all(MARK[name] in said for name in ("say", "think", "argument"))
    shown = {path: httpx2.get(server.base + path, timeout=30).content for path in SINKS}
    watched.set()
    watcher.join(20)
    assert b"client" in shown["/v1/dashboard/live?follow=0"]
    assert server.stop() == 0
    sinks = {**shown, "live events": b"".join(events), "stdout": server.log.encode(), **files(server.home)}
    assert any(name.endswith("ledger.sqlite3") for name in sinks)
    found = {name: words for name, content in sinks.items() if (words := forbidden(name, content))}
    assert found == {}


def forbidden(sink: str, content: bytes) -> list[str]:
    """The marks in what a sink holds, but for a session's key and a message's digest where they belong."""
    allowed = [MARK["session"]] if any(part in sink for part in KEYED) else []
    if any(part in sink for part in JOURNAL):
        allowed += DIGESTED
    return [mark for mark in (*MARKS, PEER) if mark.encode() in content and mark not in allowed]


def files(home: Path) -> dict[str, bytes]:
    """Everything that the process has written."""
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}
