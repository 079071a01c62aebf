"""The System screen in a browser."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import Faults, answer, example, feed, goto, shot
from tests.e2e.process import Server

NONE = "\u2013"
START = datetime.datetime(2026, 11, 30, 6, 0, tzinfo=datetime.UTC)


@pytest.mark.spec("OBS-083")
def test_what_the_server_tells_is_shown(page: Page, server: Server) -> None:
    goto(page, server.base, "system")
    panel = page.get_by_role("region", name="Server")
    expect(panel).to_contain_text("ok")
    expect(page.get_by_role("region", name="Ledger")).to_contain_text("Rows")
    ledger = page.locator(".settings tr", has_text="--usage-ledger")
    expect(ledger).to_contain_text("usage/ledger.sqlite3")
    expect(ledger).to_have_class("changed")


@pytest.mark.spec("OBS-083", "OBS-053")
def test_example_of_the_contract(page: Page, server: Server) -> None:
    feed(page)
    answer(page, "/v1/dashboard/system", example("system"))
    goto(page, server.base, "system")
    for name, words in (
        ("Model", "SmolLM2-135M-Instruct"),
        ("Memory and disk", "914 MB"),
        ("Queue and totals", "2, at most 8"),
        ("Lane and slots", "Served in itdecode 41, prefill 3, self 2"),
        ("Lane and slots", "Slot 0writing, 13 m 32 s of GPU time"),
        ("Lane and slots", "GPU turnslot 1, handed over 5,120 times"),
        ("Lane and slots", "Joint passes3,391 of 2"),
        ("Lane and slots", "Memory reserved1.2 GB, floor 16.1 GB, 4 had to wait"),
        ("Caches", "63 %, 811 of 1,284"),
        ("Ledger", "41,237"),
        ("Server", "TANDEM_MAX_QUEU"),
        ("Watch and access", "1.3 ms"),
    ):
        expect(page.get_by_role("region", name=name)).to_contain_text(words)
    expect(page.locator(".settings tr", has_text="--log-request-keys")).to_contain_text("<redacted>")
    assert page.locator("main :is(input:not([type=search], [type=checkbox]), select, textarea)").count() == 0
    shot(page, "system")


@pytest.mark.spec("OBS-083")
def test_nothing_asked_yet(page: Page, empty: Server) -> None:
    goto(page, empty.base, "system")
    expect(page.get_by_role("region", name="Queue and totals")).to_contain_text("Served0")
    lane = page.get_by_role("region", name="Lane and slots")
    expect(lane).to_contain_text("Side laneonWait in it0Served in it0")
    expect(lane).not_to_contain_text("GPU")
    expect(page.get_by_role("region", name="Last 30 minutes")).to_be_visible()


@pytest.mark.spec("OBS-083")
def test_failing_api_is_said_and_old_facts_are_dimmed(page: Page, faults: Faults, server: Server) -> None:
    faults.expect("Failed to load resource")
    page.clock.install()
    feed(page)
    answer(page, "/v1/dashboard/system", status=500)
    goto(page, server.base, "system")
    expect(page.get_by_role("alert")).to_contain_text("the store is on fire")
    answer(page, "/v1/dashboard/system", example("system"))
    page.clock.run_for(5500)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("region", name="Server")).to_contain_text("f5e037d1c2ab")


def test_settings_can_be_filtered(page: Page, server: Server) -> None:
    feed(page)
    answer(page, "/v1/dashboard/system", example("system"))
    goto(page, server.base, "system")
    rows = page.locator(".settings tbody tr:not(.group)")
    page.get_by_label("Filter").fill("LEDGER")
    expect(rows).to_have_count(3)  # a group, a flag and a variable of that name
    page.get_by_label("only what differs").check()
    expect(rows).to_have_count(1)
    expect(page.get_by_text("1 of 17")).to_be_visible()


@pytest.mark.spec("OBS-083")
def test_page_keeps_half_an_hour_by_itself(page: Page, server: Server) -> None:
    """Ten seconds apart, whichever view is open; a time without connection leaves a gap."""
    document = at(0)(example("live"))
    live = feed(page, document)
    goto(page, server.base, "live")
    page.wait_for_selector(".request")
    for second in (1, 5, 10, 20, 31, 600, 610):
        live.push(at(second))
    page.evaluate("location.hash = '#/system'")
    page.wait_for_selector("[data-view=system]")
    figure = page.locator("figure", has_text="Memory of the process")
    figure.locator("summary").click()
    expect(figure.locator("tbody tr")).to_have_count(7)  # at 0, 10, 20, 31, the gap, 600, 610
    assert figure.locator("tbody td").all_inner_texts().count(NONE) == 1


def test_chart_can_be_read_by_keys(page: Page, server: Server) -> None:
    live = feed(page, at(0)(example("live")))
    goto(page, server.base, "system")
    page.wait_for_selector("figure")
    live.push(at(10))
    plot = page.get_by_role("img", name="Memory of the process")
    expect(plot).to_have_accessible_name(re.compile(r"2 values; the last, now: 413 MB"))
    page.locator("figure", has_text="Requests").locator("summary").focus()
    page.keyboard.press("Tab")
    expect(plot).to_be_focused()
    readout = page.locator("figure", has_text="Memory of the process").locator(".chart-readout")
    expect(readout).to_have_text("now: 413 MB")
    page.keyboard.press("ArrowLeft")
    expect(readout).to_have_text("10 s ago: 413 MB")


def test_phone(open_page: OpenPage, server: Server) -> None:
    page = open_page((390, 844))
    answer(page, "/v1/dashboard/system", example("system"))
    goto(page, server.base, "system")
    row = page.locator(".settings tr", has_text="--allowed-hosts")
    expect(row).to_contain_text("box.example, box.lan")
    box = row.bounding_box()
    assert box is not None
    assert box["height"] < 160


def at(second: int) -> Any:
    def change(document: Any) -> Any:
        document["generated_at"] = (START + datetime.timedelta(seconds=second)).isoformat()
        return document

    return change
