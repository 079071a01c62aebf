"""The live view as a terminal shows it: a document in, something that rich can print out. No I/O, no clock.

Words come from the server (OBS-068); here numbers and times are formatted, and whatever a terminal might obey is taken
out of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from tandem.cli.live_document import Document, Ended, Parallel, Row, Sample

__all__ = ["Link", "clean", "live_view", "sparkline"]

BARS = "▁▂▃▄▅▆▇█"
STATES = {
    "arriving": ("»", "arriving", "dim"),
    "queued": ("◦", "waiting", "yellow"),
    "prefilling": ("≡", "reading", "cyan"),
    "replaying": ("≡", "replaying", "cyan"),
    "thinking": ("~", "thinking", "magenta"),
    "closing_reasoning": ("~", "thinking", "magenta"),
    "writing": ("▸", "writing", "green"),
    "tool_call": ("◆", "tool call", "blue"),
    "finishing": ("▪", "finishing", "green"),
    "done": ("✓", "done", "dim"),
}
"""Glyph, word and colour of what a request does; colour alone says nothing."""
PHASES = {"reading": "arriving"}
"""States of the phases that have another name, for a server whose live activity is off."""
TONES = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "red")}
ENGINES = {"idle": ("‖", "dim"), "busy": ("▸", "bold green"), "draining": ("!", "bold yellow")}
MAX_ENDS = 10
NARROW = 90
"""Columns of a terminal below which only the most needed columns of the table are shown."""

Link: TypeAlias = tuple[str, str]
"""What is said of the connection, and its colour."""


def live_view(document: Document, history: Sequence[Sample], link: Link, *, where: str) -> RenderableType:
    """The whole screen. `history` holds seconds, oldest first; `where` is the server's address."""
    return Group(
        _head(document, link, where),
        _sentence(document),
        Text(),
        _rates(document, history),
        _counts(document),
        *_shared(document.parallel),
        Text(),
        _Requests(document),
        Text(),
        _ends(document.recent[:MAX_ENDS]),
    )


def clean(text: str) -> str:
    """The text on one line, without anything that a terminal obeys or that hides what stands there."""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())


def _words(text: str, style: str = "") -> Text:
    return Text(clean(text), style=style, no_wrap=True, overflow="ellipsis")


def _head(document: Document, link: Link, where: str) -> RenderableType:
    engine = document.engine
    line = Table.grid(expand=True)
    line.add_column(ratio=1)
    line.add_column(justify="right")
    name = engine.model if engine.model == engine.base_model else f"{engine.model} ({engine.base_model})"
    line.add_row(_words(f"Tandem {engine.version}, {name} at {where}", "dim"), _words(link[0], link[1]))
    return line


def _sentence(document: Document) -> Text:
    glyph, style = ENGINES.get(document.engine.state, ("?", ""))
    return Text(f"{glyph} {clean(document.engine.label)}", style=style)


def _rates(document: Document, history: Sequence[Sample]) -> RenderableType:
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    now = document.now
    table.add_row("writing", f"{_rate(now.decode_tps)} tok/s", _Spark([each.decode_tps for each in history], "green"))
    table.add_row("reading", f"{_rate(now.prefill_tps)} tok/s", _Spark([each.prefill_tps for each in history], "cyan"))
    return table


class _Spark:
    """As much of the newest past as there is room for."""

    def __init__(self, values: Sequence[float], style: str) -> None:
        self._values = values
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(sparkline(self._values, options.max_width), style=self._style, no_wrap=True)


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as bars, a blank where there was nothing."""
    shown = values[-width:] if width > 0 else ()
    most = max(shown, default=0)
    return "".join(BARS[min(len(BARS) - 1, int(each / most * len(BARS)))] if each > 0 else " " for each in shown)


def _counts(document: Document) -> Text:
    counts = document.counts
    parts = [
        f"{counts.in_flight - counts.queued} running",
        f"{counts.queued} waiting",
        f"{counts.completed_1m} ended in the last minute",
        f"{counts.served:,} served",
        f"{counts.refused:,} refused",
        f"{counts.errors:,} failed",
    ]
    return Text(", ".join(parts), style="dim")


def _shared(parallel: Parallel | None) -> list[Text]:
    """What the slots share, where there are several."""
    if parallel is None:
        return []
    turn, memory = parallel.turn, parallel.admission
    holder = " and ".join(f"slot {slot}" for slot in turn.slots) or "nobody"
    rounds = ", ".join(f"{count:,} of {clean(size)} slots" for size, count in parallel.rounds.items()) or "none"
    lines = [f"GPU turn: {holder}, handed over {turn.hand_overs:,} times. Joint passes: {rounds}."]
    if memory is not None:
        free = "" if memory.available_bytes is None else f", {_gib(memory.available_bytes)} available"
        floor = f"floor {_gib(memory.floor_bytes)}; {memory.waits:,} had to wait"
        lines.append(f"Memory: {_gib(memory.reserved_bytes)} reserved{free}, {floor}.")
    return [Text(line, style="dim") for line in lines]


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


class _Requests:
    """The requests in flight, in as many columns as the terminal has room for."""

    def __init__(self, document: Document) -> None:
        self._rows = [row for row in document.requests if row.ended_at is None]
        self._has_sides = document.parallel is not None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._rows:
            yield Text("No request is in flight.", style="dim")
            return
        is_wide = options.max_width >= NARROW
        yield _table(self._rows, is_wide=is_wide, has_sides=self._has_sides)


def _table(rows: Iterable[Row], *, is_wide: bool, has_sides: bool) -> Table:
    """A guest stands under its holder, as the server sends it."""
    table = Table(expand=True, box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("state", no_wrap=True, width=11)
    if has_sides:
        table.add_column("slot", no_wrap=True, width=4, justify="right")
    if is_wide:
        table.add_column("client", no_wrap=True, width=11)
    table.add_column("what it does", ratio=1)
    for name in ("read", "written", "tok/s", "waited") if is_wide else ("written",):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    for row in rows:
        state = row.activity.state if row.activity else PHASES.get(row.phase, row.phase)
        glyph, word, style = STATES.get(state, ("?", state, ""))
        read, wide = _read(row), [_rate(row.decode_tps), _duration(row.queue_ms)]
        table.add_row(
            _words(f"{glyph} {word}", style),
            *([_slot(row)] if has_sides else []),
            *([_words(row.client_kind)] if is_wide else []),
            _does(row),
            *([read] if is_wide else []),
            _count(row.completion_tokens),
            *(wide if is_wide else []),
            _duration(row.elapsed_ms),
        )
    return table


def _does(row: Row) -> Text:
    """Below it what the session monitor has done to it."""
    if row.activity is None:
        return Text("what it does is not shown: live activity is off")
    lines = Text(clean(row.activity.label))
    if (conductor := row.activity.conductor) is not None:
        lines.append(f"\n◇ {clean(conductor.label)}", "dim")
    return lines


def _slot(row: Row) -> str:
    return f"{'└ ' if row.lane in ('decode', 'prefill') else ''}{'-' if row.slot is None else row.slot}"


def _read(row: Row) -> str:
    cached = f" ({row.cached_tokens:,} cached)" if row.cached_tokens else ""
    return f"{_count(row.prompt_tokens)}{cached}"


def _ends(ends: Sequence[Ended]) -> RenderableType:
    if not ends:
        return Text("Nothing has ended lately.", style="dim")
    table = Table(expand=True, box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True, width=1)
    table.add_column(ratio=1)
    table.add_column(no_wrap=True, style="dim")
    for end in ends:
        glyph, style = TONES.get(end.tone, ("?", ""))
        table.add_row(_clock(end.ended_at), Text(glyph, style), _words(end.sentence, style), _words(end.client_kind))
    return table


def _clock(moment: str) -> str:
    try:
        return datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return "-"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _duration(ms: float | None) -> str:
    if ms is None:
        return "-"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} m {seconds:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} m"
