"""Overview and Conductor in a browser: what there is of them, and what is said to come."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import Faults, answer, example, fill_viewport, goto, shot
from tests.e2e.process import Server


def test_overview_shows_what_there_is(page: Page, server: Server) -> None:
    answer(page, "/health", example("health"))
    goto(page, server.base, "overview")
    today = page.get_by_role("region", name="Since the server started")
    for words in ("raw: requests reach the model as they are", "Running1", "Waiting2", "Served1,284", "Refused4"):
        expect(today).to_contain_text(words)
    expect(page.get_by_role("region", name="Not here yet")).to_contain_text("the newest sessions")
    shot(page, "overview")
    assert fill_viewport(page, [(360, 700), (2560, 1200)]) == {}


def test_conductor_says_that_there_is_none(page: Page, faults: Faults, empty: Server) -> None:
    faults.expect("status of 404")
    goto(page, empty.base, "conductor")
    expect(page.get_by_role("region", name="Today")).to_contain_text("no conductor")
    expect(page.get_by_role("region", name="Not here yet")).to_contain_text("Deciders")
    shot(page, "conductor")
    goto(page, empty.base, "overview")
    expect(page.get_by_role("region", name="Since the server started")).to_contain_text("Served0")


def test_conductor_shows_its_journal(page: Page, server: Server) -> None:
    answer(page, "/v1/conductor/events", example("conductor-events"))
    answer(page, "/v1/conductor/sessions", example("conductor-sessions"))
    answer(page, "/v1/conductor/config", {"contract_version": "1.0", "documents": []})
    goto(page, server.base, "conductor")
    expect(page.get_by_role("region", name="Today")).to_contain_text("● answering")
    expect(page.get_by_role("region", name="Journal rows")).to_contain_text("held the third equal call")
    assert fill_viewport(page, [(360, 700), (2560, 1200)]) == {}


@pytest.mark.spec("OBS-076")
def test_reader_without_a_sign_in_is_told_so(page: Page, server: Server) -> None:
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
