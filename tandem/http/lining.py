"""The state lines of one request, made of what its task sees: the plan, the wait, the prompt's reading, the acts.

Which lines there are and what they say is the conductor's (`tandem.conductor.lines`); where they stand in the answer is
the encoder's (`tandem.http.openai.lines`). Here they are collected, and noted for the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import trio

from tandem.actors.estimates import coarse
from tandem.conductor.documents.profiles import ProfileUi
from tandem.conductor.lines.history import clean
from tandem.conductor.lines.occasions import acted_line, planned_lines
from tandem.conductor.lines.progress import PrefillLines, ThinkingLines, WaitingLines, summary
from tandem.conductor.monitor.events import MonitorEvent
from tandem.config import Settings
from tandem.engine.decoding.tally import Progress
from tandem.engine.grammar.constraints import Calls
from tandem.engine.text.reading.deltas import Line
from tandem.http.endpoint import Asked
from tandem.http.events import Event, Prefilling, Waiting
from tandem.http.openai.comments import GIB
from tandem.http.openai.formats import PLAIN_CLIENTS
from tandem.http.openai.lines import LineWay
from tandem.http.openai.requests import ChatRequest, Request
from tandem.http.planned import Planned
from tandem.http.reasoning import reasoning_format
from tandem.http.record import RequestRecord

__all__ = ["Lining", "cleaned", "lined"]

RequestT = TypeVar("RequestT", bound=Request)

PROGRESS = ("queue", "prefill", "thinking")


class Lining:
    """Of a request whose lines are on."""

    def __init__(self, way: LineWay, ui: ProfileUi, *, stream: bool, arrived_at: float) -> None:
        self.way = way
        self._muted = {kind for kind, switch in ui.kinds.items() if switch == "off"}
        if "queue" in self._muted:
            self._muted.add("queue_eta")
        self.looks = stream and ui.progress.mode == "on" and any(map(self._shows, PROGRESS))
        """Progress lines may be due."""
        self._arrived_at = arrived_at
        self._waiting = WaitingLines()
        self._prefill = PrefillLines(ui.progress, _in_words)
        self._thinking = ThinkingLines(ui.progress)
        self._pending: list[Line] = []
        self.said: list[dict[str, Any]] = []
        """For the journal (STA-006)."""

    @property
    def newest(self) -> str | None:
        return self.said[-1]["text"] if self.said else None

    def plan(self, planned: Planned) -> None:
        """What was decided; said as soon as anything goes out, for a line alone opens no stream before the grant."""
        plan, placed, prepared, documents = planned.plan, planned.placed, planned.prepared, planned.documents
        if plan is None or placed is None or prepared is None or documents is None:
            return
        switches = prepared.resolution.switches
        lines = planned_lines(plan, placed, documents, classify=switches["classify"], effort=switches["effort"])
        self._pending += self._noted(lines)

    def acted(self, event: MonitorEvent) -> None:
        """The monitor has decided something."""
        if (line := acted_line(event)) is not None:
            self._pending += self._noted([line])

    def pending(self) -> list[Line]:
        """What waits to be said."""
        due, self._pending = self._pending, []
        return due

    def look(self, event: Event, now: float) -> Sequence[Line]:
        """The progress line that is due."""
        line: Line | None = None
        if not self.looks:
            return ()
        match event:
            case Waiting():
                # Behind own work alone an estimate is told in whole seconds (SCH-030).
                eta = None if event.estimate_s is None else coarse(event.estimate_s, event.reason == "own")
                gib = event.missing / GIB
                line = self._waiting.look(event.waited_s, event.position, event.reason, eta=eta, gib=gib)
            case Prefilling(done, total, for_turn=True):
                line = self._prefill.look(done, total, now)
            case _:
                pass
        return self._noted([line] if line is not None else [])

    def thought(self, progress: Progress, now: float) -> Sequence[Line]:
        """The line of a long thought that is due."""
        if not self.looks or not progress.in_reasoning or progress.first_at is None:
            return ()
        line = self._thinking.look(now - progress.first_at, progress.reasoning)
        return self._noted([line] if line is not None else [])

    def summary(self, progress: Progress, now: float) -> str:
        """What waiting and reading took, for the end of the status events."""
        started_at = now if progress.started_at is None else progress.started_at
        read_s = (now if progress.first_at is None else progress.first_at) - started_at
        return summary(started_at - self._arrived_at, max(progress.read - progress.resumed, 0), max(read_s, 0.0))

    def _noted(self, lines: Iterable[Line]) -> list[Line]:
        shown = [line for line in lines if self._shows(line.kind)]
        ms = round(1e3 * (trio.current_time() - self._arrived_at))
        self.said += [{"kind": line.kind, "text": line.text, "ms": ms, "summary": ""} for line in shown]
        return shown

    def _shows(self, kind: str) -> bool:
        return kind not in self._muted and self.way.shows(kind)


def cleaned(request: RequestT) -> tuple[RequestT, int]:
    """The request without the lines that its client sends back (STA-009), and how many characters they had; itself
    where there are none.
    """
    if not isinstance(request, ChatRequest):
        return request, 0
    messages, removed = clean(request.messages)
    return (replace(request, messages=messages) if removed else request), removed


def lined(asked: Asked[RequestT], planned: Planned, settings: Settings, record: RequestRecord) -> Asked[RequestT]:
    """The request with its way of lines, where it has any; they are collected in its record."""
    if record.lining is None:
        record.lining = _opened(asked, planned, settings, record)
    if record.lining is None:
        return asked
    record.lining.plan(planned)
    return replace(asked, lines=record.lining.way)


def _opened(asked: Asked[RequestT], planned: Planned, settings: Settings, record: RequestRecord) -> Lining | None:
    """None where the profile has them off, and for what STA-002 excludes."""
    request, prepared, documents = asked.request, planned.prepared, planned.documents
    if prepared is None or documents is None or not isinstance(request, ChatRequest) or request.n > 1:
        return None
    resolution = prepared.resolution
    ui = resolution.profile.ui
    is_tools = resolution.source == "tools" or resolution.name == documents.settings.tools_profile
    # What an answer is held to (a document, a pattern, a choice) would no longer hold; and a summary is read again as
    # no message of the assistant's, so its lines would never be found.
    is_held = request.wants_json or not isinstance(request.constraint, Calls | None)
    is_turn = prepared.side is None and prepared.turn not in ("side", "compaction", "text")
    if ui.states == "off" or resolution.mode != "on" or is_tools or is_held or not is_turn:
        return None
    way = LineWay(
        channel=ui.states_channel,
        format=reasoning_format(cast(Asked[ChatRequest], asked), settings),
        is_plain=asked.kind in PLAIN_CLIENTS,
        status=request.stream and asked.kind in settings.status_clients,
    )
    return Lining(way, ui, stream=request.stream, arrived_at=record.arrived_at)


def _in_words(seconds: float) -> str:
    return coarse(seconds, own=False)
