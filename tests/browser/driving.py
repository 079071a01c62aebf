"""What the browser tests drive the page with: sizes, recorded faults, mocked routes, screenshots."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Page, Route, WebSocketRoute

__all__ = [
    "CHROMIUM",
    "DESKTOP",
    "PHONE",
    "SHOTS",
    "SIZES",
    "Faults",
    "Feed",
    "answer",
    "example",
    "feed",
    "fill_viewport",
    "goto",
    "shot",
    "sideways_px",
]

ROOT = Path(__file__).parents[2]
CHROMIUM = Path("/usr/bin/chromium")
SHOTS = ROOT / "build/screenshots"
DESKTOP, PHONE = (1280, 800), (390, 844)
SIZES = {"desktop": DESKTOP, "phone": PHONE}


class Faults:
    """Console errors, uncaught exceptions and violations of the page's policy, as they come."""

    def __init__(self, page: Page) -> None:
        self.seen: list[str] = []
        self._expected: list[re.Pattern[str]] = []
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.seen.append(f"uncaught: {error}"))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.seen.append(message.text)

    def expect(self, pattern: str) -> None:
        """Errors that the test provokes: the browser itself notes every request that fails."""
        self._expected.append(re.compile(pattern))

    @property
    def unexpected(self) -> list[str]:
        return [text for text in self.seen if not any(pattern.search(text) for pattern in self._expected)]


def example(name: str) -> Any:
    """A body as the contract shows it."""
    return json.loads((ROOT / f"tandem/contract/examples/{name}.json").read_text("utf-8"))


def answer(page: Page, path: str, body: Any = None, *, status: int = 200) -> None:
    """From now on the page gets this for `path`; a status of 400 or more is an error in the API's shape."""
    if status >= 400:
        body = {"error": {"message": "the store is on fire", "type": "server_error", "param": None, "code": None}}

    def fulfil(route: Route) -> None:
        route.fulfill(status=status, content_type="application/json", body=json.dumps(body))

    page.route(re.compile(re.escape(path) + r"(\?.*)?$"), fulfil)


class Feed:
    """A live view that the test plays: every websocket that the page opens is one of `sockets`."""

    def __init__(self, page: Page, first: Any) -> None:
        self.document = first
        self.sockets: list[WebSocketRoute] = []
        self.is_refusing = False
        page.route_web_socket(re.compile(r"/v1/dashboard/live$"), self._open)

    def _open(self, socket: WebSocketRoute) -> None:
        if self.is_refusing:
            socket.close()
            return
        self.sockets.append(socket)
        self._send(socket, self.document)

    def _send(self, socket: WebSocketRoute, document: Any) -> None:
        socket.send(json.dumps({"type": "live", "seq": document["seq"], "data": document}))

    def push(self, change: Callable[[Any], None]) -> None:
        """The next document: the last one, changed, without history."""
        document = copy.deepcopy(self.document)
        document["seq"] += 1
        document["history"] = None
        change(document)
        self.document = document
        for socket in self.sockets:
            self._send(socket, document)

    def drop(self) -> None:
        """The connection breaks."""
        for socket in self.sockets:
            socket.close(code=1011)
        self.sockets.clear()


def feed(page: Page, first: Any | None = None) -> Feed:
    return Feed(page, first if first is not None else example("live"))


def goto(page: Page, base: str, view: str) -> None:
    """Opens a view of the page and waits until it is mounted."""
    page.goto(f"{base}/dashboard/#/{view}")
    page.wait_for_selector(f"[data-view={view.partition('/')[0]}]")


def sideways_px(page: Page) -> int:
    """By how much the page can be scrolled sideways."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width


def fill_viewport(page: Page, sizes: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Sizes at which the page scrolls sideways, and by how much."""
    found = {}
    for width, height in sizes:
        page.set_viewport_size({"width": width, "height": height})
        found[width, height] = sideways_px(page)
    return {size: px for size, px in found.items() if px > 0}


def shot(page: Page, name: str) -> None:
    """Screenshots in both themes at both sizes, as `build/screenshots/NAME-SIZE-THEME.png`, for eyes."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    for size, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            page.screenshot(path=SHOTS / f"{name}-{size}-{theme}.png", full_page=True, animations="disabled")
    page.emulate_media(color_scheme="light")
