"""When a long step gets a line."""

from __future__ import annotations

import pytest

from tandem.conductor.documents.profiles import Progress
from tandem.conductor.lines.progress import PrefillLines, ThinkingLines, WaitingLines, span, summary
from tandem.engine.text.reading.deltas import Line


def texts(lines: list[Line | None]) -> list[str | None]:
    return [None if line is None else line.text for line in lines]


@pytest.mark.spec("STA-005", "STA-025", "STA-028", "SCH-027", "SCH-028")
def test_a_wait_is_told_after_its_quiet_time_on_every_change_and_each_minute() -> None:
    lines = WaitingLines()
    assert lines.look(1.9, 2, "running", eta="about 40 s") is None
    said = [
        lines.look(2.0, 2, "running", eta="about 40 s"),
        lines.look(9.0, 2, "running", eta="about 30 s"),
        lines.look(10.0, 1, "running", eta=None),
        lines.look(11.0, 1, "side", eta=None),
        lines.look(70.9, 1, "side", eta=None),
        lines.look(71.0, 1, "side", eta="about 3 s"),
        lines.look(72.0, 1, "memory", eta=None, gib=1.26),
        lines.look(73.0, 1, "memory", eta=None, gib=0.01),
        lines.look(74.0, 1, "own", eta="about 2 s"),
        lines.look(75.0, 1, "deciding", eta=None),
    ]
    assert texts(said) == [
        "in line at 2: another request is running, about 40 s expected",
        None,
        "in line at 1: another request is running",
        "in line at 1: a client's title request runs first",
        None,
        "in line at 1: a client's title request runs first, about 3 s expected",
        "in line at 1: memory for another request, 1.3 GiB short",
        None,
        "in line at 1: the service finishes its background work first, about 2 s expected",
        "in line at 1: the service is deciding how to handle the request",
    ]
    kinds = ["queue_eta", "queue", "queue", "queue_eta", "queue", "queue_eta", "queue"]
    assert [line.kind for line in said if line] == kinds


@pytest.mark.spec("STA-023", "STA-024")
def test_a_prompt_is_told_from_its_second_chunk_on() -> None:
    lines = PrefillLines(Progress(prefill_every_s=10), lambda seconds: f"about {seconds:.0f} s")
    assert lines.look(10_000, 100_000, 50.0) is None  # half of it was cached, say
    assert texts([lines.look(11_000, 100_000, 51.0)]) == [
        "reading the prompt, 11,000 of 100,000 tokens, about 89 s to go"
    ]
    assert lines.look(20_000, 100_000, 60.0) is None
    assert texts([lines.look(21_000, 100_000, 61.0)]) == [
        "reading the prompt, 21,000 of 100,000 tokens, about 79 s to go"
    ]
    assert lines.look(95_000, 100_000, 135.0) is None  # five seconds remain
    assert lines.look(100_000, 100_000, 140.0) is None


@pytest.mark.spec("STA-024")
def test_a_short_prompt_gets_no_line() -> None:
    lines = PrefillLines(Progress(), str)
    assert [lines.look(512 * chunk, 4_096, 1.0 * chunk) for chunk in range(1, 9)] == [None] * 8


@pytest.mark.spec("STA-023")
def test_a_thought_is_told_by_its_time_or_its_length() -> None:
    lines = ThinkingLines(Progress(thinking_every_s=120, thinking_every_tokens=4096))
    said = [lines.look(*at) for at in ((60.0, 4_095), (61.0, 4_100), (180.0, 8_000), (181.4, 8_100), (190.0, 8_200))]
    assert texts(said) == [
        None,
        "thinking for 1 min 1 s, 4,100 tokens",
        None,
        "thinking for 3 min 1 s, 8,100 tokens",
        None,
    ]


@pytest.mark.spec("STA-020")
def test_times_and_the_summary() -> None:
    assert [span(seconds) for seconds in (0.2, 59.4, 59.6, 125)] == ["0 s", "59 s", "1 min 0 s", "2 min 5 s"]
    assert summary(34.2, 5_000, 3.1) == "waited 34 s, read 5,000 tokens in 3 s"
    assert summary(0.2, 5_000, 3.1) == "read 5,000 tokens in 3 s"
    assert summary(12, 0, 0) == "waited 12 s"
    assert summary(0, 0, 0) == "ready"
