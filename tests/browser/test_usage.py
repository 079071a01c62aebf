"""The Usage screen in a browser: a year, sums, speed, and what is said where there is nothing."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import Faults, answer, example, fill_viewport, goto, shot
from tests.browser.past import HOSTILE, HOSTILE_IMAGE, ask, hits, queries
from tests.e2e.process import Server


@pytest.fixture
def sums(page: Page) -> Page:
    """A page that gets the contract's examples, and for a year as many days of them."""
    for name in ("summary", "usage", "requests"):
        answer(page, f"/v1/dashboard/{name}", example(name))
    last = datetime.date(2026, 11, 30)
    page.clock.set_fixed_time(datetime.datetime(2026, 11, 30, 13, 5, tzinfo=datetime.UTC))
    page.route(
        re.compile(rf"/usage\?.*from={last - datetime.timedelta(364)}"), lambda route: route.fulfill(json=year(last))
    )
    return page


def year(last: datetime.date) -> Any:
    """Usage of the 365 days up to `last`."""
    body = example("usage")
    days = body["buckets"]
    dates = [str(last - datetime.timedelta(back)) for back in range(364, -1, -1)]
    body["buckets"] = [
        {**days[(place + 6) % 7], "start": f"{day}T00:00:00+01:00"} for place, day in enumerate(dates, -364)
    ]
    return body


@pytest.mark.spec("OBS-087", "OBS-082")
def test_requests_of_today_are_there(page: Page, server: Server) -> None:
    ask(server, HOSTILE, in_ledger=False)
    ask(server, HOSTILE_IMAGE)
    goto(page, server.base, "usage")
    expect(page.get_by_role("region", name="Today")).to_contain_text(re.compile(r"\d+ requests"))
    models = page.get_by_label("Model")
    expect(models.locator("option", has_text=HOSTILE)).to_have_count(1)
    models.select_option(HOSTILE)
    history = page.get_by_role("region", name="History")
    expect(history.locator(".sum")).to_contain_text(re.compile(r"^\d+ requests?… length \d+$"))
    expect(page.get_by_label("Model")).to_have_value(HOSTILE)
    expect(history.locator(".table-wrap").first.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_text("Of the newest")).to_be_visible()
    assert hits(page) is None


@pytest.mark.spec("OBS-087")
def test_example_of_the_contract(sums: Page, server: Server) -> None:
    goto(sums, server.base, "usage")
    for name, words in (
        ("Today", ["1.1M tokens", "Input287,885", "Cached input704,821", "Answer72,000", "Reasoning59,840", "71 %"]),
        ("30 days", ["39.5M tokens", "11,240 requests"]),
        ("The last year", ["Longest row: 41 days", "In a row, up to now: 12 days", "since 2026-03-02"]),
        ("History", ["2,530 requests", "✓ stop 1,919", "Sat 28 November", "2 days without a request", "46.8"]),
        ("Latency", ["Of the newest 6 requests"]),
    ):
        region = sums.get_by_role("region", name=name, exact=True)
        for each in words:
            expect(region).to_contain_text(each)
    sums.get_by_text("Top days").click()
    expect(sums.get_by_role("region", name="Top days")).to_contain_text("Sat 28 November 2026")
    assert sums.locator(".bar-box").count() > 0
    shot(sums, "usage")


@pytest.mark.spec("OBS-081", "OBS-087")
def test_days_and_figures_by_the_keyboard(sums: Page, server: Server) -> None:
    goto(sums, server.base, "usage")
    days = sums.get_by_role("img", name=re.compile(r"^Tokens a day"))
    days.focus()
    sums.keyboard.press("End")
    said = sums.get_by_role("region", name="The last year").locator(".chart-readout")
    expect(said).to_have_text("30 November: 320 requests, 1,124,546 tokens")
    sums.keyboard.press("ArrowUp")
    expect(said).to_have_text("29 November: 512 requests, 1,799,074 tokens")
    hour = sums.get_by_role("button", name="By hour")
    hour.focus()
    sums.keyboard.press("Enter")
    expect(sums.get_by_role("button", name="By hour")).to_have_attribute("aria-pressed", "true")
    expect(sums.get_by_role("button", name="By hour")).to_be_focused()


@pytest.mark.spec("OBS-087", "OBS-113")
def test_what_the_filters_ask_for(sums: Page, server: Server) -> None:
    asked = queries(sums, "/v1/dashboard/usage")
    goto(sums, server.base, "usage")
    sums.get_by_label("Client").select_option("anon")
    sums.get_by_role("button", name="By hour").click()
    expect(sums.get_by_text("Tokens by hour")).to_be_visible()
    assert asked[-1].items() >= {"bucket": ["hour"], "client": ["anon"], "tz": ["Europe/Berlin"]}.items()
    sums.get_by_role("button", name="A year").click()
    expect(sums.get_by_role("button", name="By hour")).to_have_count(0)
    assert asked[-1]["bucket"] == ["day"]
    link = sums.get_by_role("link", name="CSV")
    expect(link).to_have_attribute("href", f"{server.base}/v1/dashboard/requests?format=csv&client=anon")
    with sums.expect_download() as download:
        link.click()
    assert download.value.path().read_text("utf-8").startswith("id,ts_ms,request_id,")


@pytest.mark.spec("OBS-081")
def test_no_width_scrolls_sideways(sums: Page, server: Server) -> None:
    goto(sums, server.base, "usage")
    expect(sums.get_by_text("Of the newest")).to_be_visible()
    assert fill_viewport(sums, [(360, 700), (390, 844), (768, 900), (2560, 1200)]) == {}


@pytest.mark.spec("OBS-087", "OBS-082")
def test_empty_store(page: Page, empty: Server) -> None:
    goto(page, empty.base, "usage")
    expect(page.get_by_text("No request in this year")).to_be_visible()
    expect(page.get_by_text("No request has ended yet")).to_be_visible()
    expect(page.get_by_role("region", name="Today")).to_contain_text("0 requests")


@pytest.mark.spec("OBS-087")
def test_without_a_ledger_it_says_how_to_get_one(page: Page, server: Server) -> None:
    summary: Any = example("summary")
    summary["ledger"]["enabled"] = False
    answer(page, "/v1/dashboard/summary", summary)
    goto(page, server.base, "usage")
    expect(page.get_by_text("No usage ledger is kept")).to_be_visible()
    expect(page.locator("main")).to_contain_text("--usage-ledger")


@pytest.mark.spec("OBS-087", "OBS-082")
def test_failing_api_is_said_and_can_be_tried_again(page: Page, faults: Faults, server: Server) -> None:
    faults.expect("Failed to load resource")
    for name in ("summary", "usage"):
        answer(page, f"/v1/dashboard/{name}", status=500)
    goto(page, server.base, "usage")
    expect(page.get_by_role("alert")).to_contain_text("Could not load usage: the store is on fire")
    answer(page, "/v1/dashboard/summary", example("summary"))
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(2)
    expect(page.get_by_role("region", name="Today")).to_contain_text("320 requests")
