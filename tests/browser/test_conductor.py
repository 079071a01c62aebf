"""The conductor's decisions in a browser: what was decided and why, and what a typed message would be routed to."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import Faults, answer, example, fill_viewport, goto, shot
from tests.browser.past import HOSTILE, HOSTILE_IMAGE, ask, hits
from tests.e2e.process import Server

STAGE = {
    "stage": "engine",
    "label": "code_edit",
    "confidence": 0.83,
    "probabilities": {"code_edit": 0.83, "debug": 0.12, "chat": 0.05},
    "ms": 85.0,
}


def rows(**changes: Any) -> Any:
    """The contract's rows; the route row of id 7 has these changes."""
    body = example("conductor-events")
    next(row for row in body["events"] if row["id"] == 7).update(changes)
    return body


def decided() -> Any:
    """A route row as the planner writes it."""
    note = {"kind": "new", "parts": ["identity", HOSTILE], "hash": "0f", "tokens": 120, "position": 900}
    told = {"turn": "user", "source": "engine", "stages": [STAGE], "thinking": "on", "budget": 16384, "notes": [note]}
    return rows(**{"class": "code_edit", "score": 0.83, "effort": "high", "detail": told})


@pytest.mark.spec("OBS-116")
def test_decisions_are_readable(page: Page, conducted: Server) -> None:
    answer(page, "/v1/conductor/events", decided())
    answer(page, "/v1/conductor/sessions", example("conductor-sessions"))
    goto(page, conducted.base, "conductor")
    table = page.get_by_role("region", name="Decisions")
    line = table.get_by_role("row", name="code_edit")
    for words in (
        "83 %",
        "engine",
        "high",
        "16,384 tokens",
        f"identity, {HOSTILE} (new, 120 tok)",
        "debug 12 %",
        "85 ms",
    ):
        expect(line).to_contain_text(words)
    off = table.get_by_role("row", name="thinking off (client)")
    expect(off).to_have_count(1)
    assert "high" not in off.locator("td").nth(3).inner_text()  # the class's level, which is not what it ran with
    expect(table.get_by_role("row", name="side: title")).to_contain_text("off")
    line.get_by_text("more").click()
    expect(line).to_contain_text("small")
    link = page.get_by_role("region", name="Newest sessions").get_by_role("link", name="Markdown")
    assert (link.get_attribute("href") or "").endswith("/v1/conductor/sessions/c%3A7f3e/export?format=md")
    assert hits(page) is None
    shot(page, "conductor-decisions")
    assert fill_viewport(page, [(360, 700), (2560, 1200)]) == {}


@pytest.mark.spec("OBS-089")
def test_request_shows_what_was_decided_about_it(page: Page, conducted: Server) -> None:
    answer(page, "/v1/conductor/events", decided())
    goto(page, conducted.base, "dev/request/req_00000000000000000003475c")
    journal = page.get_by_role("region", name="Journal", exact=True)
    expect(journal.get_by_role("row", name="code_edit").first).to_contain_text("code_edit 83 %")
    expect(journal.get_by_role("region", name="Monitor")).to_contain_text("held the third equal call")


def test_real_decisions_are_shown(page: Page, conducted: Server) -> None:
    request_id = ask(conducted, "M")
    goto(page, conducted.base, "conductor")
    expect(page.get_by_role("region", name="Today")).to_contain_text("each request's profile says")
    expect(page.get_by_role("region", name="Documents in use")).to_contain_text("profiles/raw ▣ locked")
    link = page.get_by_role("region", name="Decisions").locator(f"a[href$='{request_id}']")
    expect(link).to_be_visible()
    link.click()
    expect(page.get_by_role("region", name="Decisions")).to_contain_text("user")


@pytest.mark.spec("OBS-099", "OBS-112")
def test_all_of_a_session(page: Page, faults: Faults, conducted: Server) -> None:
    """What the model read is there in full; to who may not read it the rest is shown."""
    request_id = ask(conducted, "M")
    goto(page, conducted.base, f"dev/request/{request_id}")
    page.get_by_role("region", name="Journal", exact=True).locator("a[href^='#/dev/session/']").first.click()
    session = page.get_by_role("region", name="Session h:")
    expect(session).to_contain_text("Profilegeneral")
    row = session.get_by_role("region", name="route").last
    expect(row).to_contain_text("ended: ")
    note = row.get_by_text(re.compile(r"new note at token \d+"))
    note.click()
    expect(row.locator("pre")).not_to_be_empty()
    expect(row.locator("pre")).not_to_contain_text("no longer kept")
    for name in ("Markdown", "JSON"):
        expect(page.get_by_role("link", name=name)).to_be_visible()
    shot(page, "session")
    assert fill_viewport(page, [(360, 700), (2560, 1200)]) == {}
    faults.expect("Failed to load resource")
    answer(page, "/v1/conductor/sessions/c%3A7f3e", example("conductor-session"))
    answer(page, "/v1/conductor/sessions/c%3A7f3e/export", status=403)
    goto(page, conducted.base, "dev/session/c%3A7f3e")
    expect(page.get_by_text("whoever has signed in")).to_be_visible()
    act = page.get_by_role("region", name="monitor 9")
    act.get_by_text("what the model read at token 412").click()
    expect(act.locator("pre")).to_contain_text("whoever has signed in")
    expect(page.locator(".event")).to_have_count(4)
    page.get_by_role("button", name="The monitor's").click()
    expect(page.locator(".event")).to_have_count(1)


@pytest.mark.spec("OBS-097", "OBS-098", "MEM-015")
def test_memory_and_deciders_show_what_there_is(page: Page, faults: Faults, conducted: Server) -> None:
    goto(page, conducted.base, "conductor/memory")
    expect(page.get_by_role("region", name="Disk tier")).to_contain_text("It does not run")
    settings = {"version": 2, "mode": "on", "budget_gb": 1, "ttl_days": 14, "admit_after": 2, "min_free_gb": 5}
    told = {"bytes": 2 * 10**8, "budget_bytes": 10**9, "free_bytes": 9 * 10**9, "floor_bytes": 5 * 10**9}
    used = {"hits": 3, "misses": 1, "hit_rate": 0.75, "entries": [{"rows": 2048, "bytes": 10**6, "uses": 7}]}
    disk = {
        "contract_version": "1.0",
        "running": True,
        "settings": settings,
        **told,
        **used,
        "events": ["wrote 1 file"],
    }
    answer(page, "/v1/conductor/memory/disk", disk)
    page.get_by_role("button", name="Refresh").click()
    tier = page.get_by_role("region", name="Disk tier")
    for words in ("200 MB of 1.0 GB", "9.0 GB; it stops at 5.0 GB", "75 % of 4", "2,048", "wrote 1 file"):
        expect(tier).to_contain_text(words)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Clear").click()
    expect(tier.get_by_role("status")).to_contain_text("Freed 0 B")
    faults.expect("Failed to load resource")
    answer(page, "/v1/conductor/memory/disk", status=500)
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_role("alert")).to_contain_text("the store is on fire")
    goto(page, conducted.base, "conductor/deciders")
    expect(page.get_by_role("region", name="Decision models")).to_contain_text("None is loaded")
    expect(page.get_by_text("on_start", exact=True).first).to_be_visible()


@pytest.mark.spec("OBS-092")
def test_box_tries_a_message(page: Page, conducted: Server) -> None:
    goto(page, conducted.base, "conductor/routing")
    tests = page.get_by_role("region", name="Test box")
    tests.get_by_label("A user's message").fill(f"Write a parser for {HOSTILE_IMAGE}")
    tests.get_by_label("Profile").select_option("coding")
    tests.get_by_role("button", name="Classify").click()
    expect(tests).to_contain_text("profilecoding")
    expect(tests).to_contain_text("Stage engine")
    assert hits(page) is None


@pytest.mark.spec("OBS-092")
def test_box_shows_stages_and_probabilities(page: Page, faults: Faults, conducted: Server) -> None:
    faults.expect("Failed to load resource")
    found = {
        "contract_version": "1.0",
        "profile": "general",
        "mode": "on",
        "turn": "user",
        "class": "code_edit",
        "confidence": 0.83,
        "source": "engine",
        "stages": [{**STAGE, "error": None, "guard": False}],
        "effort": "high",
        "thinking": "on",
        "budget": 16384,
        "size": "small",
        "note": [{"kind": "package", "name": "coding", "text": HOSTILE}],
        "note_tokens": 42,
        "extra": {},
        "ms": 91.0,
    }
    answer(page, "/v1/conductor/test", found)
    goto(page, conducted.base, "conductor/routing")
    tests = page.get_by_role("region", name="Test box")
    tests.get_by_label("A user's message").fill("Write a parser")
    tests.get_by_role("button", name="Classify").click()
    for words in (
        "code_edit 83 % by engine",
        "high, thinking on, at most 16,384 tokens",
        "Sizesmall",
        "coding (42 tokens)",
    ):
        expect(tests).to_contain_text(words)
    expect(tests.get_by_role("row", name="debug")).to_contain_text("12 %")
    tests.get_by_text("Note: coding").click()
    expect(tests).to_contain_text(HOSTILE)
    shot(page, "conductor-routing")
    answer(page, "/v1/conductor/test", status=500)
    tests.get_by_role("button", name="Classify").click()
    expect(tests.get_by_role("alert")).to_contain_text("the store is on fire")
    assert hits(page) is None


@pytest.mark.spec("OBS-082")
def test_failing_api_is_said_and_can_be_tried_again(page: Page, faults: Faults, conducted: Server) -> None:
    faults.expect("Failed to load resource")
    paths = {"routing": "router", "profiles": "config", "packages": "packages/catalog", "settings": "schemas/settings"}
    for screen, path in paths.items():
        answer(page, f"/v1/conductor/{path}", status=500)
        goto(page, conducted.base, f"conductor/{screen}")
        alert = page.get_by_role("alert").filter(has_text="the store is on fire")
        expect(alert).to_have_count(1)
        page.unroute_all()
        alert.get_by_role("button", name="Try again").click()
        expect(alert).to_have_count(0)


def test_screen_that_is_not_there_and_server_without_a_conductor(page: Page, faults: Faults, empty: Server) -> None:
    faults.expect("status of 404")
    goto(page, empty.base, "conductor/" + "%3Cimg%20src%3Dx%20onerror%3D'window.hit%20%3D%201'%3E")
    expect(page.get_by_role("alert")).to_contain_text("has no screen “<img")
    goto(page, empty.base, "conductor/routing")
    expect(page.get_by_role("alert")).to_contain_text("Could not load the document router")
    assert hits(page) is None
