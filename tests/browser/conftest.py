"""A real browser against a real server on the fake engine. A test fails where the page logs an error.

The fixtures end with the last test of this directory: playwright keeps an asyncio loop running meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.driving import CHROMIUM, DESKTOP, Faults
from tests.e2e.process import Server

__all__ = ["OpenPage"]

OpenPage: TypeAlias = Callable[..., Page]
TIMEOUT_MS = 15_000


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is missing (apt-get install chromium)")
    # Once trio-asyncio is imported, new loops run on trio, and one that playwright holds would keep every later test
    # from running trio. A policy that is set here is one that trio-asyncio leaves alone.
    asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
            )
            expect.set_options(timeout=TIMEOUT_MS)  # what is expected comes, however late a busy machine shows it
            yield browser
            browser.close()
    finally:
        asyncio.set_event_loop_policy(None)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests share, with a ledger. What it holds is whatever the tests before have asked it."""
    server = Server.tandem(tmp_path_factory.mktemp("browser"), "--fake", "--usage-ledger", "usage/ledger.sqlite3")
    yield server
    assert server.stop() == 0, server.shown_log


@pytest.fixture(scope="package")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that no test asks anything of the model: its store stays empty."""
    server = Server.tandem(tmp_path_factory.mktemp("empty"), "--fake", "--usage-ledger", "usage/ledger.sqlite3")
    yield server
    assert server.stop() == 0, server.shown_log


@pytest.fixture(scope="package")
def conducted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a conductor. Each test changes documents of its own."""
    home = tmp_path_factory.mktemp("conducted")
    server = Server.tandem(home, "--fake", "--conductor-config", "conductor", "--usage-ledger", "usage/ledger.sqlite3")
    yield server
    assert server.stop() == 0, server.shown_log


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """`open_page(size)`: a page of its own, closed at the end. `page.faults` has the errors it logged."""
    pages: list[Page] = []

    def open_one(size: tuple[int, int] = DESKTOP, *, scheme: str = "light") -> Page:
        width, height = size
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # type: ignore[arg-type]
            locale="en-GB",
            timezone_id="Europe/Berlin",
            reduced_motion="reduce",
        )
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.faults = Faults(page)  # type: ignore[attr-defined]
        pages.append(page)
        return page

    yield open_one
    unexpected = [text for page in pages for text in page.faults.unexpected]  # type: ignore[attr-defined]
    for page in pages:
        page.context.close()
    assert unexpected == []


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """A page of desktop size."""
    return open_page()


@pytest.fixture
def phone(open_page: OpenPage) -> Page:
    """A page of phone size."""
    return open_page((390, 844))


@pytest.fixture
def faults(page: Page) -> Faults:
    """The errors of `page`."""
    found: Faults = page.faults  # type: ignore[attr-defined]
    return found
