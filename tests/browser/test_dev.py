"""The Dev screen in a browser: the log as it comes, requests that have ended, and one request from all sides."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import Faults, answer, example, feed, fill_viewport, goto, shot
from tests.browser.past import HOSTILE, HOSTILE_IMAGE, ask, hits, play_log, queries, sse
from tests.e2e.process import Server

LINES = [("log", line["seq"], line) for line in example("logs")["lines"]]


def line(seq: int, **more: Any) -> tuple[str, int, Any]:
    """A line of the log, as an event of its feed."""
    plain = {"seq": seq, "ts": 1796043912.5, "level": "INFO", "source": "http", "msg": f"line {seq}"}
    return "log", seq, {**plain, "request_id": None, **more}


@pytest.mark.spec("OBS-089", "OBS-082")
def test_log_follows_and_leads_to_the_request(page: Page, faults: Faults, server: Server) -> None:
    faults.expect("status of 404")  # the browser's own note on the conductor's routes
    goto(page, server.base, "dev")
    expect(page.get_by_text("● Following")).to_be_visible()
    request_id = ask(server, HOSTILE)
    own = page.get_by_role("log").locator("li", has_text=request_id)
    expect(own).to_contain_text("[req]")
    own.get_by_role("link").click()
    one = page.get_by_role("region", name=f"Request {request_id}")
    expect(one.get_by_role("img")).to_have_attribute("aria-label", re.compile(r"^Of .+: Waited .+, Read the prompt .+"))
    expect(one).to_contain_text(HOSTILE)
    expect(one).to_contain_text("completion_tokens8")
    expect(page.get_by_role("region", name="Journal")).to_contain_text("No conductor")
    expect(page.get_by_role("list", name="Log lines of this request")).to_contain_text("finish=length")
    assert hits(page) is None
    shot(page, "dev-request")
    assert fill_viewport(page, [(360, 700), (2560, 1200)]) == {}


@pytest.mark.spec("OBS-089")
def test_log_is_filtered_and_paused(page: Page, server: Server) -> None:
    first, second = ask(server, "M", in_ledger=False), ask(server, "M", in_ledger=False)
    goto(page, server.base, "dev")
    log = page.get_by_role("log")
    expect(log).to_contain_text(second)
    page.get_by_role("searchbox", name="Request").fill(first)
    expect(log).not_to_contain_text(second)
    expect(log).to_contain_text(first)
    page.get_by_role("searchbox", name="Request").fill("")
    page.get_by_role("searchbox", name="Tag").fill("req")
    expect(log).to_contain_text(second)
    expect(log).not_to_contain_text("[stdout]")
    page.get_by_role("button", name="Following").click()
    third = ask(server, "M", in_ledger=False)
    paused = page.get_by_role("button", name=re.compile(r"Paused, \d+ new"))
    expect(paused).to_be_visible()
    assert third not in log.inner_text()
    paused.click()
    expect(log).to_contain_text(third)
    page.get_by_label("Level").select_option("ERROR")
    expect(log).to_contain_text("No line yet that these filters let through")


@pytest.mark.spec("OBS-089")
def test_lost_lines_are_marked_and_memory_refusals_stand_out(page: Page, server: Server) -> None:
    answer(page, "/v1/dashboard/requests", example("requests"))
    play_log(page, sse([*LINES, ("gap", 1220, {"dropped": 12}), line(1221, msg=HOSTILE_IMAGE)]))
    goto(page, server.base, "dev")
    log = page.get_by_role("log")
    expect(log).to_contain_text("▲ 12 lines are lost here")
    expect(log.locator("li").last).to_contain_text(HOSTILE_IMAGE)
    gate = log.locator(".gate")
    expect(gate).to_have_count(1)
    expect(gate).to_contain_text("Memory gate: refused: needed 8589934592")
    expect(gate).to_contain_text("✖ error")
    assert hits(page) is None
    shot(page, "dev")
    assert fill_viewport(page, [(360, 700), (390, 844), (768, 900), (2560, 1200)]) == {}


@pytest.mark.spec("OBS-089")
def test_log_goes_on_where_it_was_and_stays_bounded(page: Page, server: Server) -> None:
    asked = play_log(page, sse([line(seq) for seq in range(1, 1301)]), sse([line(1301), line(7)]))
    goto(page, server.base, "dev")
    log = page.get_by_role("log")
    expect(log).to_contain_text("line 1301")
    expect(log).to_contain_text("The server has started anew")
    assert log.locator("li").count() <= 1000
    assert parse_qs(urlsplit(asked[1]).query)["since"] == ["1300"]


@pytest.mark.spec("OBS-089", "OBS-081")
def test_fast_lines_are_not_read_out_and_slow_ones_are(page: Page, server: Server) -> None:
    play_log(page, sse(LINES))
    page.clock.install()
    goto(page, server.base, "dev")
    log = page.get_by_role("log")
    page.clock.run_for(100)
    expect(log).to_contain_text("a library has printed this")
    expect(log).to_have_attribute("aria-live", "off")
    page.clock.run_for(3000)
    expect(log).to_have_attribute("aria-live", "polite")


@pytest.mark.spec("OBS-089")
def test_requests_by_page_and_filter(page: Page, server: Server) -> None:
    body = example("requests")
    body["requests"][1]["model"] = HOSTILE_IMAGE
    asked = queries(page, "/v1/dashboard/requests")
    answer(page, "/v1/dashboard/requests", body)
    goto(page, server.base, "dev")
    ended = page.get_by_role("region", name="Finished requests")
    expect(ended).to_contain_text(HOSTILE_IMAGE)
    expect(ended).to_contain_text("▲ refused: queue_full")
    ended.get_by_role("button", name="Older").click()
    expect(ended).to_contain_text("Page 2")
    assert asked[-1]["before"] == [str(body["next_before"])]
    ended.get_by_label("End").select_option("refused")
    expect(ended).to_contain_text("The newest")
    assert asked[-1].items() >= {"finish": ["refused"]}.items()
    assert "before" not in asked[-1]
    assert hits(page) is None


@pytest.mark.spec("OBS-089")
def test_running_request_is_told_of_until_it_ends(page: Page, faults: Faults, server: Server) -> None:
    faults.expect("status of 404")
    live = feed(page)
    running = live.document["requests"][0]
    goto(page, server.base, f"dev/request/{running['request_id']}")
    expect(page.get_by_text("The ledger has no row of it")).to_be_visible()
    expect(page.locator("main .notice")).to_contain_text(running["activity"]["label"])
    answer(page, "/v1/dashboard/requests", example("requests"))
    live.push(lambda document: document["requests"].pop(0))
    expect(page.get_by_text("Ledger row")).to_be_visible()
    expect(page.locator("main .notice")).to_have_count(0)


@pytest.mark.spec("OBS-089")
def test_journal_of_a_request(page: Page, server: Server) -> None:
    answer(page, "/v1/conductor/events", example("conductor-events"))
    answer(page, "/v1/dashboard/requests", example("requests"))
    goto(page, server.base, "dev/request/req_00000000000000000003475c")
    expect(page.get_by_role("region", name="Monitor")).to_contain_text("held the third equal call")


@pytest.mark.spec("OBS-089", "OBS-082")
def test_empty_store(page: Page, empty: Server) -> None:
    goto(page, empty.base, "dev")
    expect(page.get_by_role("log")).to_contain_text("fake ready at")
    expect(page.get_by_text("No request has ended that these filters let through")).to_be_visible()


@pytest.mark.spec("OBS-089", "OBS-082")
def test_failing_api_is_said_and_can_be_tried_again(page: Page, faults: Faults, server: Server) -> None:
    faults.expect("Failed to load resource")
    for path in ("/v1/dashboard/requests", "/v1/dashboard/logs", "/v1/conductor/events"):
        answer(page, path, status=500)
    goto(page, server.base, "dev")
    expect(page.get_by_text("◆ Not connected: the store is on fire")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("Could not load the requests: the store is on fire")
    answer(page, "/v1/dashboard/requests", example("requests"))
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("region", name="Finished requests")).to_contain_text("TandemLLM")
    goto(page, server.base, "dev/request/chatcmpl-none")
    expect(page.get_by_role("alert")).to_have_count(2)
