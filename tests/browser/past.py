"""For the tests of the screens about the past: requests that are in the ledger before a page is opened."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from typing import Any

from playwright.sync_api import Page, Request, Route

from tests.e2e.process import Server
from tests.e2e.wire import until

__all__ = ["HOSTILE", "HOSTILE_IMAGE", "ask", "get", "hits", "play_log", "queries", "sse"]

HOSTILE = "<script>window.hit = 1</script>"
HOSTILE_IMAGE = "<img src=x onerror='window.hit = 1'>"


def get(server: Server, path: str, **params: str | int) -> Any:
    """The JSON at `path`."""
    with urllib.request.urlopen(f"{server.base}{path}?{urllib.parse.urlencode(params)}", timeout=20) as response:
        return json.load(response)


def ask(server: Server, model: str, *, in_ledger: bool = True) -> str:
    """A chat request for `model`; its id, once its row is in the ledger, or only its log line written."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
    request = urllib.request.Request(
        f"{server.base}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        request_id = str(json.load(response)["id"])
    if in_ledger:
        until(lambda: get(server, "/v1/dashboard/requests", request_id=request_id)["requests"], every_s=0.05)
    return request_id


def hits(page: Page) -> Any:
    """What a script that came with a request has left behind."""
    return page.evaluate("window.hit ?? null")


def queries(page: Page, route: str) -> list[dict[str, list[str]]]:
    """What the page asks of `route` from now on, by parameter."""
    asked: list[dict[str, list[str]]] = []

    def note(request: Request) -> None:
        url = urllib.parse.urlsplit(request.url)
        if url.path == route:
            asked.append(urllib.parse.parse_qs(url.query))

    page.on("request", note)
    return asked


def sse(events: list[tuple[str, int, Any]]) -> str:
    """Kind, id and data of each as the log's feed sends them."""
    return ": ping\n\n" + "".join(
        f"event: {kind}\nid: {number}\ndata: {json.dumps(data)}\n\n" for kind, number, data in events
    )


def play_log(page: Page, *bodies: str) -> list[str]:
    """Each connection to the log gets the next of `bodies`, those after the last one nothing; the addresses asked."""
    asked: list[str] = []

    def fulfil(route: Route) -> None:
        if "follow" not in route.request.url:
            route.fallback()
            return
        asked.append(route.request.url)
        if len(asked) <= len(bodies):
            route.fulfill(content_type="text/event-stream", body=bodies[len(asked) - 1])

    page.route("**/v1/dashboard/logs?*", fulfil)
    return asked
