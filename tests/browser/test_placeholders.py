"""Overview and Conductor in a browser: with data, without a conductor, and where the server fails."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import Faults, answer, example, fill_viewport, goto, shot
from tests.e2e.process import Server


@pytest.mark.spec("OBS-086", "OBS-116")
def test_overview_shows_what_was_decided(page: Page, server: Server) -> None:
    answer(page, "/health", example("health"))
    for name in ("overview", "decisions", "sessions"):
        answer(page, f"/v1/conductor/{name}", example(f"conductor-{name}"))
    goto(page, server.base, "overview")
    today = page.get_by_role("region", name="Since the server started")
    for words in ("raw: requests reach the model as they are", "Running1", "Waiting2", "Served1,284", "Refused4"):
        expect(today).to_contain_text(words)
    figures = page.get_by_role("region", name="What was decided")
    for words in (
        "Turns42",
        "Hidden tokens18,240",
        "Acts4 (57 % of the findings)",
        "In shadow3",
        "Given up1",
        "off (client)",
    ):
        expect(figures).to_contain_text(words)
    expect(figures.get_by_role("row", name="C3")).to_contain_text("210")
    figures.get_by_role("button", name="7 days").click()
    expect(figures).to_contain_text("Turns311")
    feed = page.get_by_role("region", name="Newest decisions")
    expect(feed).to_contain_text("◇ side")
    expect(feed.get_by_role("row", name="thinking off (client)")).to_have_count(1)
    sessions = page.get_by_role("region", name="Newest sessions")
    for words in ("opencode", "coding", "code_edit", "73,771"):
        expect(sessions).to_contain_text(words)
    expect(sessions.get_by_role("link", name="c:7f3e")).to_have_attribute("href", "#/dev/session/c%3A7f3e")
    shot(page, "overview")
    assert fill_viewport(page, [(360, 700), (2560, 1200)]) == {}


def test_conductor_says_that_there_is_none(page: Page, faults: Faults, empty: Server) -> None:
    faults.expect("status of 404")
    goto(page, empty.base, "conductor")
    expect(page.get_by_role("region", name="Today")).to_contain_text("no conductor")
    shot(page, "conductor")
    goto(page, empty.base, "overview")
    expect(page.get_by_role("region", name="Since the server started")).to_contain_text("Served0")
    expect(page.get_by_role("region", name="What was decided")).to_contain_text("No conductor")


def test_conductor_shows_its_journal(page: Page, server: Server) -> None:
    answer(page, "/v1/conductor/events", example("conductor-events"))
    answer(page, "/v1/conductor/sessions", example("conductor-sessions"))
    answer(page, "/v1/conductor/config", {"contract_version": "1.0", "documents": []})
    goto(page, server.base, "conductor")
    expect(page.get_by_role("region", name="Today")).to_contain_text("● answering")
    expect(page.get_by_role("region", name="Journal rows")).to_contain_text("held the third equal call")
    assert fill_viewport(page, [(360, 700), (2560, 1200)]) == {}


@pytest.mark.spec("OBS-076")
def test_reader_without_a_sign_in_is_told_so(page: Page, faults: Faults, server: Server) -> None:
    faults.expect("status of 404")  # it has no conductor
    answer(page, "/health", {"status": "ok", "model": "TandemLLM"})
    goto(page, server.base, "overview")
    expect(page.get_by_role("region", name="Since the server started")).to_contain_text("not told without a sign-in")


@pytest.mark.spec("OBS-082")
@pytest.mark.parametrize("view", ["overview", "conductor"])
def test_failing_api_is_said_and_can_be_tried_again(page: Page, faults: Faults, server: Server, view: str) -> None:
    faults.expect("Failed to load resource")
    answer(page, "/health", status=500)
    goto(page, server.base, view)
    expect(page.get_by_role("alert")).to_contain_text("the store is on fire")
    answer(page, "/health", example("health"))
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("raw: requests reach the model")).to_be_visible()
