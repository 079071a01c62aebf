"""The Parallel screen in a browser: who is in which slot, who waits for what, and what the slots share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import DESKTOP, PHONE, Faults, answer, example, feed, fill_viewport, goto, shot
from tests.browser.test_live import HOSTILE, WATCH_SHIFTS, asking
from tests.e2e.process import Server

PLACES = """() => Object.fromEntries(
  [...document.querySelectorAll("#nav a:not([hidden]), .slot, .panel, .slot :not(path), dt, dd, td")].map((node, i) => {
    const { x, y, width, height } = node.getBoundingClientRect();
    return [i, [x, y, width, height].map(Math.round)];
  }))"""


@pytest.fixture
def sides(tmp_path: Any) -> Iterator[Server]:
    """A server with two slots."""
    server = Server.tandem(tmp_path, "--fake", "--parallel", "2")
    yield server
    assert server.stop() == 0, server.shown_log


def parallel() -> Any:
    return example("live-parallel")


@pytest.mark.spec("OBS-085", "SCH-104")
def test_two_streams_run_and_a_third_waits(page: Page, sides: Server) -> None:
    goto(page, sides.base, "live")
    rows = page.locator(".request:not([data-free])")
    writing = rows.filter(has=page.locator(".state", has_text="writing"))
    slow, other = ({"say": say, "loop": True, "token_ms": 30} for say in ("one two three ", "some other words "))
    with asking(
        sides, slow, other, {"say": "short"}, arrived=lambda count: expect(writing).to_have_count(min(count, 2))
    ):
        expect(page.locator(".engine-line strong")).to_contain_text("slot 0: curl's chat writes")
        expect(page.locator(".engine-line strong")).to_contain_text("slot 1: curl's chat writes")
        expect(rows.filter(has_text="slot 1")).to_have_count(1)
        waiting = rows.filter(has_text="waits: next in line behind curl's chat and 1 more, which has been writing for")
        expect(waiting).to_be_visible()
        page.get_by_role("link", name="Parallel").click()
        page.wait_for_selector("[data-view=parallel]")
        slots = page.locator(".slot")
        expect(slots).to_have_count(2)
        for slot in (0, 1):
            expect(slots.nth(slot).locator(".state")).to_have_text("writing")
            expect(slots.nth(slot).locator(".request-label")).to_contain_text("curl's chat writes: ")
            expect(slots.nth(slot)).to_contain_text(re.compile(r"[1-9]\d*\.\d s of GPU time|0\.[1-9] s of GPU time"))
        expect(page.get_by_role("region", name="Joint passes")).to_contain_text(re.compile(r"at once[1-9]"))
    expect(page.locator(".slot .state").first).to_have_text("free")
    expect(page.locator("#nav a[aria-current]")).to_have_text("Parallel")


@pytest.mark.spec("OBS-085")
def test_example_of_the_contract(page: Page, server: Server) -> None:
    feed(page, parallel())
    goto(page, server.base, "parallel")
    slots = page.locator(".slot")
    expect(slots).to_have_count(3)
    first, second, third = slots.all()
    expect(first.locator(".state")).to_have_text("writing")
    expect(first.locator(".slot-guest")).to_have_text("guest: curl's completion writes: 3 tokens")
    expect(first.locator(".slot-turn")).to_be_hidden()
    expect(second.locator(".slot-turn")).to_be_visible()
    expect(third.locator(".state")).to_have_text("no memory yet")
    expect(third).to_contain_text("open-webui's chat waits for memory: 1.5 GiB short")
    for name, words in (
        ("GPU turn", "Held byslot 1Handed over5,120"),
        ("Joint passes", "2 slots at once3,3913 slots at once128"),
        ("Side lane", "Served in writing41Served in reading3Served alone1"),
        (
            "Admission by memory",
            "Reserved1.2 GBAvailable16.6 GBFloor16.1 GBHave waited4open-webui's chat waits for memory: 1.5",
        ),
    ):
        expect(page.get_by_role("region", name=name)).to_contain_text(words)
    expect(page.get_by_role("region", name="Rounds, timed")).to_be_hidden()
    for glyph in page.locator(".slot .state svg").all():
        expect(glyph).to_be_visible()
    first.get_by_role("link").click()
    page.faults.expect("Failed to load resource")  # type: ignore[attr-defined]  # Dev is for its own tests
    page.wait_for_selector("[data-view=dev]")
    assert "#/dev/request/chatcmpl-3f9a1c0be2d4477f8a6b5c21" in page.url


@pytest.mark.spec("OBS-085", "SCH-070")
def test_timed_rounds_are_shown(page: Page, server: Server) -> None:
    document = parallel()
    document["parallel"]["meeting"] = {"1": {"rounds": 12, "round_ms": 9.25}, "2": {"rounds": 7, "round_ms": 11.5}}
    feed(page, document)
    goto(page, server.base, "parallel")
    rows = page.get_by_role("region", name="Rounds, timed").locator("tbody tr")
    expect(rows.nth(1)).to_have_text(re.compile("^2711.50"))
    expect(rows.nth(2)).to_contain_text("3")
    shot(page, "parallel")


@pytest.mark.spec("OBS-085", "OBS-082")
def test_with_one_slot_there_is_no_entry_and_the_screen_says_so(page: Page, empty: Server) -> None:
    goto(page, empty.base, "parallel")
    expect(page.locator("main")).to_contain_text("This server has one slot. Started with --parallel N")
    expect(page.locator("#nav a[href='#/parallel']")).to_be_hidden()


@pytest.mark.spec("OBS-082", "OBS-079")
def test_without_the_live_route_the_page_says_so(page: Page, faults: Faults, server: Server) -> None:
    faults.expect("Failed to load resource")
    live = feed(page, parallel())
    answer(page, "/v1/dashboard/live?follow=1", status=500)
    live.is_refusing = True
    goto(page, server.base, "parallel")
    expect(page.locator("#link")).to_contain_text("Connection lost")
    expect(page.locator("main")).to_contain_text("Waiting for the first update")
    live.is_refusing = False
    expect(page.locator(".slot")).to_have_count(3)
    live.drop()
    live.is_refusing = True
    expect(page.locator("[aria-label=Slots]")).to_have_css("opacity", "0.5")


@pytest.mark.spec("OBS-080")
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_nothing_moves_whatever_the_slots_do(open_page: OpenPage, server: Server, size: tuple[int, int]) -> None:
    page = open_page(size)
    page.add_init_script(WATCH_SHIFTS)
    live = feed(page, parallel())
    goto(page, server.base, "parallel")
    expect(page.locator(".slot")).to_have_count(3)
    before = page.evaluate(PLACES)

    def change(document: Any) -> None:
        shared = document["parallel"]
        shared["turn"] = {"slots": [0, 2], "hand_overs": 123_456_789}
        for slot, state, label in zip(
            shared["slots"],
            ("idle", "own", "gone"),
            ("free", "the service prepares a summary ahead " * 9, "x"),
            strict=True,
        ):
            slot |= {"state": state, "label": label, "request_id": None, "since_ms": None, "guests": [], "gpu_s": 9e5}
        shared["rounds"], shared["admission"] = {"3": 987_654_321}, None

    live.push(change)
    expect(page.locator(".slot .state").last).to_have_text("out of service")
    after = page.evaluate(PLACES)
    assert {key: (before[key], after[key]) for key in before if before[key][:2] != after[key][:2]} == {}
    assert page.evaluate("window.shifts") < 0.01


@pytest.mark.spec("OBS-084", "OBS-085")
def test_names_from_requests_are_shown_as_text(page: Page, server: Server) -> None:
    document = parallel()
    shared = document["parallel"]
    for slot in shared["slots"]:
        slot["label"] = slot["request_id"] = HOSTILE
    shared["slots"][0]["guests"][0]["label"] = shared["admission"]["waiting"][0] = HOSTILE
    feed(page, document)
    goto(page, server.base, "parallel")
    expect(page.locator(".request-label").first).to_have_text(HOSTILE)
    expect(page.locator(".slot-guest").first).to_have_text(f"guest: {HOSTILE}")
    expect(page.get_by_role("region", name="Admission by memory")).to_contain_text(HOSTILE)
    assert page.evaluate("[window.hit, document.querySelectorAll('main :is(img, script)').length]") == [None, 0]


@pytest.mark.spec("OBS-081")
def test_no_width_scrolls_sideways(page: Page, server: Server) -> None:
    feed(page, parallel())
    goto(page, server.base, "parallel")
    page.wait_for_selector(".slot")
    assert fill_viewport(page, [(360, 700), (761, 800), (1280, 800), (2560, 1300)]) == {}


@pytest.mark.spec("OBS-080", "OBS-084")
def test_a_longer_sentence_of_more_slots_moves_nothing(page: Page, server: Server) -> None:
    live = feed(page, parallel())
    goto(page, server.base, "live")
    expect(page.locator(".request .clip", has_text=re.compile("^(slot [012]|guest)$"))).to_have_count(4)
    for width, height in (DESKTOP, PHONE):
        page.set_viewport_size({"width": width, "height": height})
        tops = []
        for label in ("idle: nothing runs", "slot 0: opencode's chat writes: 1 token; " * 6):
            live.push(partial(saying, label))
            expect(page.locator(".engine-line strong")).to_have_text(label.strip())
            tops.append([box["y"] for each in page.locator(".tile, .request").all() if (box := each.bounding_box())])
        assert tops[0] == tops[1]


def saying(label: str, document: Any) -> None:
    document["engine"]["label"] = label
