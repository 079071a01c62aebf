"""The Live screen in a browser: what runs, who waits and why, what came of it; and that nothing moves."""

from __future__ import annotations

import itertools
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import DESKTOP, PHONE, Faults, answer, example, feed, goto, shot
from tests.e2e.process import Server

WORST_SHIFT = 0.01
FIRST_PAINT_MS = 3000
"""No measurement: on a quiet machine it is a tenth of the 300 ms that the page may take."""
WATCH_SHIFTS = """
window.shifts = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
PLACES = """() => {
  const found = {};
  for (const node of document.querySelectorAll(".tile, .panel, .chart-plot, .engine-line, .request")) {
    node.dataset.seen ??= String((window.counted = (window.counted ?? 0) + 1));
    const { x, y, width } = node.getBoundingClientRect();
    found[node.dataset.seen] = [x, y, width];
  }
  return found;
}"""
HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"


def ask(server: Server, script: dict[str, Any], is_over: threading.Event | None = None, **more: Any) -> int:
    """One streamed chat request whose script is `script`: its status, once it has ended or is left at a line of it."""
    body = {"model": "M", "messages": [{"role": "user", "content": f"@fake {json.dumps(script)}"}], "stream": True}
    request = urllib.request.Request(
        f"{server.base}/v1/chat/completions",
        data=json.dumps(body | more).encode(),
        headers={"Content-Type": "application/json", "User-Agent": more.get("agent", "curl/8")},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            for _ in response:
                if is_over is not None and is_over.is_set():
                    break
            return int(response.status)
    except HTTPError as error:
        return error.code


def soon(count: int) -> None:
    """Long enough for what was sent to arrive first, where nothing hangs on it."""
    time.sleep(0.05)


@contextmanager
def asking(server: Server, *scripts: dict[str, Any], arrived: Callable[[int], None] = soon) -> Iterator[None]:
    """Requests that are on their way during the block, each a thread's; `arrived(count)` waits for so many of them.

    One whose script loops lasts as long as the block does, however slow the machine is.
    """
    is_over = threading.Event()
    threads = []
    try:
        for script in scripts:
            loops = (is_over,) if script.get("loop") else ()
            threads.append(threading.Thread(target=ask, args=(server, script, *loops)))
            threads[-1].start()
            arrived(len(threads))
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@pytest.mark.spec("OBS-084", "OBS-068", "OBS-064")
def test_request_is_watched_from_the_queue_to_its_end(page: Page, faults: Faults, server: Server) -> None:
    faults.expect("Failed to load resource")  # what Dev reads in the end is for its own tests
    goto(page, server.base, "live")
    rows = page.locator(".request:not([data-free])")
    writing = rows.filter(has=page.locator(".state", has_text="writing"))
    slow, second = {"say": "one two three ", "loop": True, "token_ms": 30}, {"say": "short"}
    with asking(server, slow, second, arrived=lambda _: expect(writing).to_have_count(1)):
        waiting = rows.filter(has_text="waits: next in line")
        expect(waiting).to_be_visible()
        expect(waiting.locator(".state")).to_have_text("queued")
        expect(waiting.locator(".state svg")).to_be_visible()
        expect(waiting.locator(".request-label")).to_contain_text("behind curl")
        expect(page.locator(".engine-state")).to_have_text("busy")
        expect(writing.locator(".strip rect")).not_to_have_count(0)
    ends = page.locator(".end")
    expect(ends.first).to_contain_text("done")
    expect(page.locator(".engine-state")).to_have_text("idle")
    expect(page.locator(".engine-line strong")).to_contain_text("idle")
    ends.first.click()
    page.wait_for_selector("[data-view=dev]")
    assert "#/dev/request/chatcmpl-" in page.url


@pytest.mark.spec("OBS-084")
def test_failures_and_refusals_stand_out_with_a_glyph(page: Page, server: Server) -> None:
    feed(page)
    goto(page, server.base, "live")
    ends = page.locator(".end")
    expect(ends).to_have_count(4)
    for words, tone in (("refused: the queue was full", "warn"), ("failed: an error", "bad"), ("done", "ok")):
        end = ends.filter(has_text=words)
        assert end.get_attribute("data-tone") == tone
        expect(end.locator("svg.icon path")).to_have_attribute("d", drawing(page, tone))
    colours = {
        page.evaluate("(node) => getComputedStyle(node).color", end.element_handle())
        for end in page.locator(".end-sentence").all()
    }
    assert len(colours) == 3
    shot(page, "live")


def drawing(page: Page, tone: str) -> str:
    """The drawing of a tone."""
    path: str = page.evaluate(
        "async (tone) => (await import('./js/icons.js')).icon(tone).firstElementChild.getAttribute('d')", tone
    )
    return path


@pytest.mark.spec("OBS-084")
def test_empty_server_says_that_nothing_runs(page: Page, empty: Server) -> None:
    goto(page, empty.base, "live")
    expect(page.locator(".engine-line strong")).to_contain_text("idle")
    expect(page.get_by_text("Nothing runs and nothing waits.")).to_be_visible()
    expect(page.get_by_text("No request ended in the last 15 minutes.")).to_be_visible()


@pytest.mark.spec("OBS-079")
def test_without_the_live_route_the_page_says_so(page: Page, faults: Faults, server: Server) -> None:
    faults.expect("Failed to load resource")
    feed(page).is_refusing = True
    answer(page, "/v1/dashboard/live?follow=1", status=500)
    goto(page, server.base, "live")
    expect(page.locator("#link")).to_contain_text("Connection lost")
    expect(page.locator(".engine-line")).to_contain_text("Waiting for the first update")


@pytest.mark.spec("OBS-080")
@pytest.mark.parametrize("seconds", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_nothing_moves_while_a_busy_server_is_watched(open_page: OpenPage, server: Server, seconds: int) -> None:
    pages = {size: open_page(size) for size in (DESKTOP, PHONE)}
    for page in pages.values():
        page.add_init_script(WATCH_SHIFTS)
        goto(page, server.base, "live")
        page.wait_for_selector("[data-link=streaming]", state="attached")
    busy = [
        {"say": "<think>what is it?</think>well, " + "word " * 40, "token_ms": 15},
        {"say": "short", "prefill_ms_per_token": 8},
        {"say": "again " * 30, "token_ms": 12, "fail_at": 20},
        {"say": "more " * 30, "token_ms": 12},
    ]
    desktop = pages[DESKTOP]
    with asking(server, *busy * (seconds // 3)):
        expect(desktop.locator(".engine-state")).to_have_text("busy")
        seen = []
        for _ in range(5 * seconds):
            seen.append(desktop.evaluate(PLACES))
            desktop.wait_for_timeout(200)
    for before, after in itertools.pairwise(seen):
        moved = {key: (before[key], after[key]) for key in before if distance(before[key], after[key]) > 1}
        assert moved == {}
    for size, page in pages.items():
        assert page.evaluate("window.shifts") < WORST_SHIFT, size


def distance(one: list[float], other: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


@pytest.mark.spec("OBS-080")
def test_requests_keep_their_places(page: Page, server: Server) -> None:
    goto(page, server.base, "live")

    def seat(places: list[str | None], ids: str, over: str = "", *, pack: bool = False) -> Any:
        call = (
            "async ([at, ids, over, pack]) => (await import('./js/views/live.js')).seat(at, ids, new Set(over), pack)"
        )
        return page.evaluate(
            call.replace(" over, pack)", " new Set(over), pack)"), [places, list(ids), list(over), pack]
        )

    assert seat([], "abc") == ["a", "b", "c"]
    assert seat(["a", "b", "c"], "cb") == [None, "b", "c"]
    assert seat([None, "b", "c"], "bcde") == ["d", "b", "c", "e"]
    assert seat(["a", "b", "c"], "a") == ["a"]
    assert seat([None, "b", "c"], "bc", pack=True) == ["b", "c"]
    # what is over gives its place to what comes, and is found below it
    assert seat([], "abc", "a") == ["b", "c", "a"]
    assert seat(["a", "b"], "ab", "a") == ["a", "b"]
    assert seat(["a", "b"], "abc", "a") == ["c", "b", "a"]


def test_entry_under_the_pointer_stays(page: Page, server: Server) -> None:
    live = feed(page)
    goto(page, server.base, "live")
    first = page.locator(".end").first
    expect(first).to_contain_text("get_weather")
    first.hover()
    live.push(lambda document: document["recent"].reverse())
    live.push(lambda document: document["counts"].update(served=777))
    expect(page.locator(".tiles")).to_contain_text("777")
    expect(first).to_contain_text("get_weather")
    page.mouse.move(5, 5)
    expect(first).to_contain_text("an error inside the server")


@pytest.mark.spec("OBS-084")
def test_names_from_requests_are_shown_as_text(page: Page, server: Server) -> None:
    document = example("live")
    for row in [*document["requests"], *document["recent"]]:
        row["model"] = row["client_kind"] = row["client_id"] = HOSTILE
        row["sentence"] = row["line"] = HOSTILE
    for row in document["requests"]:
        row["activity"]["label"] = HOSTILE
    document["engine"]["label"] = HOSTILE
    feed(page, document)
    goto(page, server.base, "live")
    expect(page.locator(".engine-line strong")).to_have_text(HOSTILE)
    expect(page.locator(".request-label").first).to_have_text(HOSTILE)
    expect(page.locator(".request-line").first).to_have_text(HOSTILE)
    expect(page.locator(".end-sentence").first).to_have_text(HOSTILE)
    assert page.evaluate("[window.hit, document.querySelectorAll('main :is(img, script)').length]") == [None, 0]


@pytest.mark.spec("OBS-084")
def test_reading_a_prompt_shows_its_progress(page: Page, server: Server) -> None:
    document = example("live")
    row = document["requests"][0]
    row["phase"] = row["activity"]["state"] = "prefilling"
    row["activity"]["prefill"] = {
        "done": 3000,
        "total": 12000,
        "cached": 0,
        "percent": 25.0,
        "rate": 2142.9,
        "eta_s": 4.2,
        "image": {"number": 2, "of": 5},
    }
    feed(page, document)
    goto(page, server.base, "live")
    expect(page.get_by_role("progressbar", name="Prompt read")).to_have_attribute("aria-valuenow", "25")
    expect(page.locator(".engine-more")).to_contain_text("3,000 of 12,000 prompt tokens, image 2 of 5, about 4 s left")


def test_first_paint_is_quick(page: Page, server: Server) -> None:
    goto(page, server.base, "live")
    paints = page.evaluate("performance.getEntriesByType('paint').map((each) => [each.name, each.startTime])")
    first = dict(paints)["first-contentful-paint"]
    print(f"first contentful paint after {first:.0f} ms")
    assert first < FIRST_PAINT_MS
