"""The page around the views: navigation, connection, theme, banner, sizes, and what it asks of whom."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import PHONE, Faults, answer, example, feed, fill_viewport, goto
from tests.e2e.process import Server

VIEWS = ("live", "chat", "usage", "dev", "system", "overview", "conductor")
WIDTHS = ((360, 700), (390, 844), (600, 800), (761, 800), (1001, 800), (1280, 800), (2560, 1300))
CONTRAST = """() => {
  const box = document.body.appendChild(document.createElement("div"));
  const rgb = (name) => {
    box.style.color = `var(--${name})`;
    return getComputedStyle(box).color.match(/[\\d.]+/g).slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
  };
  const light = (name) => rgb(name).reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const found = {};
  for (const ink of ["ink", "muted", "accent", "good", "warn", "bad"])
    for (const ground of ["panel", "sunk", "bg"]) found[`${ink} on ${ground}`] = ratio(ink, ground);
  for (const tone of ["good", "warn", "bad"]) found[`${tone} badge`] = ratio(tone, `${tone}-bg`);
  found["primary button"] = ratio("on-accent", "accent");
  for (const line of ["s1", "s2", "s3", "s4", "s5", "s6"]) found[`${line} line`] = ratio(line, "panel") * 1.5;
  return found;
}"""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.mark.spec("OBS-074", "OBS-075")
def test_views_are_loaded_when_they_are_asked_for_and_ask_only_this_server(page: Page, server: Server) -> None:
    asked: list[str] = []
    page.faults.expect("Failed to load resource")  # type: ignore[attr-defined]  # what a view reads is for its own tests
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    goto(page, server.base, "live")
    assert not any(re.search(r"views/(?!live)|/chat/|usage|past\.css", url) for url in asked), asked
    for name in VIEWS:
        page.locator(f'#nav a[href="#/{name}"]').click()
        page.wait_for_selector(f"[data-view={name}]")
        expect(page.locator("#nav a[aria-current]")).to_have_attribute("href", f"#/{name}")
        assert "· Tandem" in page.title()
    paths = {re.sub(r"^(http|ws)://127\.0\.0\.1:\d+/", "", url) for url in asked}
    assert all(re.match(r"dashboard/|v1/(dashboard|conductor|models)|health$", path) for path in paths), paths


def test_server_root_leads_to_the_live_view(page: Page, server: Server) -> None:
    page.goto(server.base)
    page.wait_for_selector("[data-view=live]")
    assert page.url == f"{server.base}/dashboard/"


def test_view_that_does_not_exist_says_so(page: Page, server: Server) -> None:
    page.goto(f"{server.base}/dashboard/#/nowhere")
    expect(page.get_by_role("alert")).to_contain_text("no view “nowhere”")


@pytest.mark.spec("OBS-073")
def test_page_works_behind_a_prefix(page: Page, server: Server) -> None:
    """A proxy that serves the box under /box/ and passes it on without."""
    asked: list[str] = []
    live = feed(page)

    def pass_on(route: Route) -> None:
        response = route.fetch(url=route.request.url.replace("/box/", "/"), max_redirects=0)
        route.fulfill(response=response)

    page.on("request", lambda request: asked.append(request.url))
    page.route(re.compile(r"/box/"), pass_on)
    page.goto(f"{server.base}/box/dashboard/#/system")
    page.wait_for_selector("[data-view=system] .settings tbody tr")
    expect(page.locator("#link")).to_contain_text("Live")
    assert all(url.startswith(f"{server.base}/box/") for url in asked), asked
    assert live.sockets[0].url.endswith("/box/v1/dashboard/live")


@pytest.mark.spec("OBS-079")
def test_lost_connection_is_said_and_found_again(page: Page, server: Server) -> None:
    live = feed(page)
    answer(page, "/v1/dashboard/live?follow=1", status=500)
    page.faults.expect("Failed to load resource")  # type: ignore[attr-defined]
    goto(page, server.base, "live")
    link, root = page.locator("#link"), page.locator("html")
    expect(root).to_have_attribute("data-link", "streaming")
    expect(link).to_contain_text("/s")
    live.is_refusing = True
    live.drop()
    expect(link).to_contain_text("Connection lost")
    expect(page.locator("#announcer")).to_have_text("The connection to the server is lost.")
    expect(page.locator(".engine-more")).to_contain_text("These numbers are old")
    expect(page.locator(".requests").locator("..")).to_have_css("opacity", "0.5")
    live.is_refusing = False
    expect(root).to_have_attribute("data-link", "streaming")
    expect(page.locator("#announcer")).to_have_text("The connection is back.")
    expect(page.locator(".requests").locator("..")).to_have_css("opacity", "1")


@pytest.mark.spec("OBS-079")
def test_silence_is_no_idle_engine(page: Page, server: Server) -> None:
    page.clock.install()
    live = feed(page)
    goto(page, server.base, "live")
    page.wait_for_selector(".request")
    page.clock.run_for(5000)
    expect(page.locator("#link")).to_have_text(re.compile("No update for [4-6] s"))
    expect(page.locator("html")).to_have_attribute("data-link", "stale")
    live.push(lambda document: None)
    page.clock.run_for(600)
    expect(page.locator("html")).to_have_attribute("data-link", "streaming")


@pytest.mark.spec("OBS-079")
def test_hidden_tab_closes_the_socket(page: Page, server: Server) -> None:
    goto(page, server.base, "live")
    expect(page.locator("html")).to_have_attribute("data-link", "streaming")
    with page.expect_event("websocket") as again:
        page.evaluate(HIDE, True)
        expect(page.locator("#link")).to_have_text("Paused")
        page.evaluate(HIDE, False)
    assert again.value.url.endswith("/v1/dashboard/live")
    expect(page.locator("html")).to_have_attribute("data-link", "streaming")


@pytest.mark.spec("OBS-056", "OBS-079")
def test_without_websockets_events_come_over_http(page: Page, server: Server) -> None:
    live = feed(page)
    live.is_refusing = True
    goto(page, server.base, "live")
    expect(page.locator("html")).to_have_attribute("data-link", "streaming")
    expect(page.locator(".engine-state")).to_have_text(re.compile("idle|busy"))
    assert live.sockets == []


def test_refusal_is_told_in_the_servers_words(page: Page, faults: Faults, server: Server) -> None:
    live = feed(page)
    live.is_refusing = True
    answer(page, "/v1/dashboard/live?follow=1", status=500)
    faults.expect("Failed to load resource")
    goto(page, server.base, "live")
    expect(page.locator(".engine-more")).to_contain_text("the store is on fire")


@pytest.mark.spec("OBS-081")
def test_themes_can_be_chosen_and_are_legible(page: Page, server: Server) -> None:
    goto(page, server.base, "live")
    root, button = page.locator("html"), page.locator("#theme")
    assert {name: value for name, value in page.evaluate(CONTRAST).items() if value < 4.5} == {}
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for chosen in ("light", "dark"):
        button.click()
        expect(root).to_have_attribute("data-theme", chosen)
        expect(button).to_have_accessible_name(f"Theme: {chosen}")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    assert {name: value for name, value in page.evaluate(CONTRAST).items() if value < 4.5} == {}
    page.reload()
    expect(root).to_have_attribute("data-theme", "dark")
    button.click()
    assert root.get_attribute("data-theme") is None


@pytest.mark.spec("OBS-081")
def test_no_width_scrolls_sideways(page: Page, server: Server) -> None:
    feed(page, example("live"))
    answer(page, "/v1/dashboard/system", example("system"))
    for view, ready in (("live", ".request"), ("system", ".settings tbody tr")):
        goto(page, server.base, view)
        page.wait_for_selector(ready)
        assert fill_viewport(page, WIDTHS) == {}, view


@pytest.mark.spec("OBS-081")
def test_keyboard_reaches_everything(page: Page, server: Server) -> None:
    feed(page)
    goto(page, server.base, "live")
    page.wait_for_selector(".request")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    reached = []
    for _ in range(24):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.className || document.activeElement.textContent"))
    assert {"brand", "Live", "System", "details", "chart-plot", "end"} <= set(reached), reached
    page.locator("#nav a", has_text="System").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-view=system]")
    expect(page.locator("h1")).to_be_focused()  # a screen reader begins with what is new


@pytest.mark.spec("API-022", "OBS-076")
def test_banner_says_why_edits_are_refused(open_page: OpenPage, server: Server) -> None:
    states = {
        (False, False, None): None,
        (True, False, None): "edits and memory views answer 401",
        (True, True, None): "no sign-in screen",
        (True, False, 1_900_000_000): None,
    }
    page = open_page(PHONE)
    for (password, login, ends), words in states.items():
        page.unroute_all()
        answer(page, "/v1/dashboard/session", {"password_set": password, "login": login, "session_ends": ends})
        page.goto("about:blank")
        goto(page, server.base, "live")
        if words is None:
            expect(page.locator("#banner")).to_be_empty()
        else:
            expect(page.locator("#banner")).to_contain_text(words)
        expect(page.locator("input[type=password]")).to_have_count(0)
