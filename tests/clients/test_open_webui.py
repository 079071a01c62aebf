"""Open WebUI in a browser: thinking, a tool call, an error in a stream and the stop button, with its side requests."""

from __future__ import annotations

import json
import shutil
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from tests.clients.conftest import Installed
from tests.clients.driving import Client, Log, written
from tests.e2e.conftest import Start
from tests.e2e.process import Server, free_port
from tests.e2e.wire import Connection, until
from tests.e2e.wire import fake as scripted

pytestmark = pytest.mark.slow

START_S = 120.0
SETTINGS = {
    "WEBUI_AUTH": "False",
    "WEBUI_SECRET_KEY": "test-secret",
    "OPENAI_API_KEY": "sk-local",
    "ENABLE_OLLAMA_API": "False",
    "OFFLINE_MODE": "True",
    "HF_HUB_OFFLINE": "1",
    "RAG_EMBEDDING_ENGINE": "openai",  # else it loads a model of its own
    "ENABLE_VERSION_UPDATE_CHECK": "False",
    "ENABLE_FORWARD_USER_INFO_HEADERS": "True",
    "ANONYMIZED_TELEMETRY": "false",
}
# Types each prompt, waits for what is to be seen of its answer, and prints the conversation that the page shows.
PAGE = """
import json, os
from playwright.sync_api import TimeoutError, sync_playwright

with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=os.environ["CHROMIUM"], args=["--no-sandbox"])
    page = browser.new_page()
    page.set_default_timeout(60_000)
    page.goto(os.environ["PAGE"])
    page.wait_for_selector("#chat-input")
    try:
        page.get_by_text("Okay, Let's Go!").click(timeout=10_000)
    except TimeoutError:
        pass  # it was seen before
    for prompt, awaited, button in json.loads(os.environ["TURNS"]):
        page.click("#chat-input")
        page.keyboard.insert_text(prompt)
        page.keyboard.press("Enter")
        page.locator("#messages-container").get_by_text(awaited).last.wait_for()
        if button:
            page.get_by_label(button, exact=True).last.click()
        page.get_by_label("Stop", exact=True).wait_for(state="detached")
    print(json.dumps(page.inner_text("#messages-container")))
    browser.close()
"""


class WebUi:
    """A running Open WebUI, at `page`."""

    def __init__(self, client: Client, python: Path, page: str) -> None:
        self._client = client
        self._python = python
        self._page = page

    def chat(self, *turns: tuple[str, str, str | None]) -> str:
        """What the page shows after turns of (prompt, text to wait for, button to press then)."""
        chromium = shutil.which("chromium") or ""
        out = self._client.run(self._python, "-c", PAGE, PAGE=self._page, TURNS=json.dumps(turns), CHROMIUM=chromium)
        return str(json.loads(out))


@contextmanager
def running(installed: Installed, server: Server, folder: Path) -> Iterator[WebUi]:
    """An Open WebUI of that server."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed: apt-get install -y --no-install-recommends chromium")
    programs = installed("open-webui") / "bin"
    base, port = f"{server.base}/v1", free_port()
    client = Client(folder, DATA_DIR=str(folder), OPENAI_API_BASE_URL=base, RAG_OPENAI_API_BASE_URL=base, **SETTINGS)
    serve = ("sh", "-c", 'exec "$@" >log 2>&1', "sh", programs / "open-webui", "serve", "--host", "127.0.0.1")
    with client.started(*serve, "--port", str(port)) as process:
        deadline = time.monotonic() + START_S
        while not answers(f"http://127.0.0.1:{port}/health"):
            is_late = process.poll() is not None or time.monotonic() > deadline
            assert not is_late, (client.folder / "log").read_text()[-4_000:]
            time.sleep(0.5)
        yield WebUi(client, programs / "python", f"http://127.0.0.1:{port}")


@pytest.fixture(scope="module")
def webui(installed: Installed, fake: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebUi]:
    with running(installed, fake, tmp_path_factory.mktemp("open-webui")) as found:
        yield found


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (URLError, TimeoutError, ConnectionError):
        return False


def split(text: str) -> list[str]:
    """Its words one by one: as a prompt the text is not what the page is searched for."""
    first, *rest = text.split()
    return [first, *(f" {word}" for word in rest)]


@pytest.mark.spec("API-069", "API-075", "API-105", "API-145")
def test_thinking_a_call_and_an_error(webui: WebUi, fake: Server) -> None:
    log = Log(fake)
    say = ["<think>", "Two", ".", "</think>", "\n\n", *split("It is four.")]
    call = f"<think>Now.</think>\n\n{written('get_current_timestamp')}"
    shown = webui.chat(
        (scripted(say=say), "It is four.", None),
        (scripted(say=call, turns=[{"say": split("It is late.")}]), "It is late.", None),
        (scripted(say=split("one two three"), fail_at=2), "the server failed", None),
    )
    assert "Thought for less than a second" in shown
    assert "Explored get_current_timestamp" in shown
    assert "one two\n" in shown
    lines = log.lines(8)  # title, follow-ups and tags among them
    assert {line["client"] for line in lines} == {"open-webui"}
    assert [line["status"] for line in lines].count("500") == 1
    assert {line["status"] for line in lines} == {"200", "500"}
    assert [line["finish"] for line in lines].count("tool_calls") == 1


@pytest.mark.spec("API-167", "API-168")
def test_its_stop_button_frees_the_slot(webui: WebUi, fake: Server) -> None:
    log = Log(fake)
    webui.chat((scripted(say=[*split("so it goes on"), " word"], loop=True, token_ms=50), "so it goes on", "Stop"))
    lines = log.lines(2)
    assert [line["finish"] for line in lines].count("abandoned") == 1


@pytest.mark.spec("PRF-006", "SES-001", "SES-009", "SES-011", "NOTE-002")
def test_a_chat_runs_under_its_profile(installed: Installed, start: Start, tmp_path: Path) -> None:
    server = start("--conductor-config", "conductor")
    choose = {"writing": 0.9}
    folder = tmp_path / "webui"
    folder.mkdir()
    with running(installed, server, folder) as webui:
        shown = webui.chat(
            (
                scripted(say=["<think>", "Two", ".", "</think>", "\n\n", *split("It is four.")], choose=choose),
                "It is four.",
                None,
            ),
            (scripted(say=split("It is five."), choose=choose), "It is five.", None),
        )
        assert "Thought for less than a second" in shown
        with Connection(server.port) as client:

            def rows() -> list[dict[str, Any]]:
                found: list[dict[str, Any]] = client.ask("GET", "/v1/conductor/decisions").json["decisions"]
                return found

            until(lambda: len(rows()) >= 5 and all(row["outcome"] for row in rows()))
            turns = [row for row in rows() if row["kind"] == "route"]
            sides = {row["decision"] for row in rows() if row["kind"] == "side"}
    assert sides >= {"openwebui-title", "openwebui-tags", "openwebui-followups"}
    assert {(row["profile"], row["mode"], row["class"]) for row in turns} == {("chat", "on", "writing")}
    assert len({row["session_key"] for row in turns}) == 1
    second, first = turns
    assert second["detail"]["notes"][0]["hash"] == first["detail"]["notes"][0]["hash"]
