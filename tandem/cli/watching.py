"""Follows the live view until the person has seen enough; a connection that is lost comes back by itself.

It begins with a plain request: what refuses that one says why, which not every server does to a websocket.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import trio
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from tandem.cli.client import ChatError
from tandem.cli.live_client import Address, Frame, Lost, follow, snapshot
from tandem.cli.live_document import Document, Final, Sample, read_document
from tandem.cli.live_view import Link, clean, live_view

__all__ = ["Events", "Screen", "keep_watching", "print_once", "watch_events", "watch_screen"]

RETRY_S = (1, 2, 4, 8, 15)
"""Seconds between tries, the last one over and over."""
LIVE: Link = ("● live", "green")
HISTORY = 300
PLAIN_WIDTH = 110
"""Columns of a snapshot that goes into a pipe."""


class Watcher(Protocol):
    """What is done with the frames, and with the news of the connection."""

    def take(self, frame: Frame) -> None: ...

    def told(self, link: Link) -> None: ...


def print_once(address: Address, write: Callable[[str], None], *, as_json: bool) -> None:
    """One snapshot: as plain text, or as the document itself on one line."""
    found = snapshot(address)
    document = read_document(found)
    if as_json:
        write(_line(found))
        return
    console = Console(width=PLAIN_WIDTH, color_system=None, highlight=False, force_terminal=False)
    with console.capture() as capture:
        console.print(
            live_view(document, document.history or (), (clean(document.generated_at), ""), where=address.url)
        )
    write("\n".join(line.rstrip() for line in capture.get().splitlines()))


def watch_events(address: Address, write: Callable[[str], None], note: Callable[[str], None]) -> None:
    """Every frame on a line of its own; news of the connection through `note`. Ends with KeyboardInterrupt alone."""
    read_document(snapshot(address))
    trio.run(keep_watching, address, Events(write, note))


def watch_screen(address: Address, console: Console) -> None:
    """The live screen. Ends with KeyboardInterrupt alone."""
    first = snapshot(address)
    read_document(first)
    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        screen = Screen(address.url, lambda content: live.update(content, refresh=True))
        screen.take({"type": "live", "data": first})
        trio.run(keep_watching, address, screen)


async def keep_watching(address: Address, watcher: Watcher) -> None:
    """One connection after another. The first one must succeed; `ChatError` says why it did not."""
    failures = 0
    was_live = False

    def take(frame: Frame) -> None:
        nonlocal failures, was_live
        watcher.take(frame)
        if failures or not was_live:
            watcher.told(LIVE)
        failures, was_live = 0, True

    while True:
        why = "the server has left"
        try:
            await follow(address, take)
        except Lost as error:
            why = str(error)
        except ChatError as error:
            if not was_live or isinstance(error, Final):
                raise
            why = "no server answers"
        if not was_live:
            raise ChatError(f"{why} at {address.url}")
        for left in range(RETRY_S[min(failures, len(RETRY_S) - 1)], 0, -1):
            watcher.told((f"◌ {why}, next try in {left} s", "bold yellow"))
            await trio.sleep(1)
        failures += 1


class Screen:
    """Keeps the newest document and the last minutes, and shows them whenever something has changed."""

    def __init__(self, where: str, show: Callable[[RenderableType], None]) -> None:
        self._where = clean(where)
        self._show = show
        self._document: Document | None = None
        self._history: deque[Sample] = deque(maxlen=HISTORY)
        self._link: Link = ("connecting", "dim")

    def take(self, frame: Frame) -> None:
        if frame.get("type") != "live":
            return
        document = self._document = read_document(frame.get("data"))
        if document.history is not None:
            self._history.clear()
            self._history.extend(document.history)
        elif document.sample and (not self._history or document.sample.t > self._history[-1].t):
            self._history.append(document.sample)
        self._draw()

    def told(self, link: Link) -> None:
        self._link = link
        self._draw()

    def _draw(self) -> None:
        if self._document is None:
            self._show(Text(self._link[0], style=self._link[1]))
        else:
            self._show(live_view(self._document, list(self._history), self._link, where=self._where))


class Events:
    """Writes frames as lines of JSON."""

    def __init__(self, write: Callable[[str], None], note: Callable[[str], None]) -> None:
        self._write = write
        self._note = note
        self._told = ""

    def take(self, frame: Frame) -> None:
        self._write(_line(frame))

    def told(self, link: Link) -> None:
        """Says a change once, not every second."""
        text = link[0].partition(",")[0]
        if text != self._told and self._told:
            self._note(text)
        self._told = text


def _line(value: Any) -> str:
    # Nothing but ASCII, so that no terminal obeys a character in it.
    return json.dumps(value, separators=(",", ":"))
