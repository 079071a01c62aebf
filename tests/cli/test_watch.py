"""`tandem watch`: what it shows of a document, how it keeps its connection, and a real server on a real terminal."""

from __future__ import annotations

import copy
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio
from click.testing import CliRunner, Result
from rich.console import Console, RenderableType
from trio.testing import MockClock

from tandem.cli import main
from tandem.cli.client import ChatError
from tandem.cli.live_client import Address, Frame, Lost
from tandem.cli.live_document import Final, Sample, read_document
from tandem.cli.live_view import clean, live_view, sparkline
from tandem.cli.watching import Events, Screen, keep_watching
from tests.e2e.process import ROOT, Server, clean_env, free_port

EXAMPLES: dict[str, dict[str, Any]] = {
    name: json.loads((ROOT / f"tandem/contract/examples/{name}.json").read_text("utf-8"))
    for name in ("live", "live-parallel")
}
EXAMPLE, PARALLEL = EXAMPLES.values()
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
ADDRESS = Address.parse("http://127.0.0.1:1")


def text_of(content: RenderableType, width: int = 120) -> str:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(content)
    return capture.get()


def shown(value: dict[str, Any], width: int = 120) -> str:
    document = read_document(value)
    return text_of(live_view(document, document.history or (), ("● live", "green"), where="box:8000"), width)


def changed(**parts: Any) -> dict[str, Any]:
    return {**copy.deepcopy(EXAMPLE), **parts}


def test_the_screen_tells_what_runs_and_why_the_others_wait() -> None:
    lines = shown(EXAMPLE).splitlines()
    assert lines[0].startswith("Tandem 0.1.0, TandemLLM (fake) at box:8000")
    assert lines[0].rstrip().endswith("● live")
    assert lines[1].rstrip() == "▸ opencode's chat thinks: 210 tokens at 31/s"
    assert re.match(r"writing +31.2 tok/s +.*[▁▂▃▄▅▆▇█]", lines[3])
    assert "1 running, 2 waiting, 4 ended in the last minute, 128 served, 3 refused, 1 failed" in shown(EXAMPLE)
    rows = [line for line in lines if re.match(r"[~◦] ", line)]
    assert [row.split()[:3] for row in rows] == [
        ["~", "thinking", "opencode"],
        ["◦", "waiting", "open-webui"],
        ["◦", "waiting", "curl"],
    ]
    assert re.search(r"1,834 \(1,792 cached\) +210 +31.2 +4 ms +12.3 s", rows[0])
    ends = [line for line in lines if re.match(r"\d\d:\d\d:\d\d", line)]
    assert re.match(r"\S+ +✓ +done: tool_calls, called get_weather, 190 tokens in 7.4 s +hermes", ends[0])
    assert re.match(r"\S+ +! +refused: the queue was full +openai-sdk", ends[1])


@pytest.mark.spec("OBS-067")
def test_what_the_monitor_did_stands_below_what_the_request_does() -> None:
    lines = [line.strip() for line in shown(EXAMPLE, 200).splitlines()]
    [at] = [at for at, line in enumerate(lines) if "◇ monitor: C3 had a call written anew, 2 acts, 62" in line]
    assert "thinks: 210 tokens" in lines[at - 1]
    evil = copy.deepcopy(EXAMPLE)
    evil["requests"][0]["activity"]["conductor"]["label"] = "a\x1b]0;owned\x07"
    assert "\x1b" not in shown(evil)
    del evil["requests"][0]["activity"]["conductor"]
    assert "◇" not in shown(evil)


@pytest.mark.spec("SCH-104")
def test_the_screen_tells_who_is_in_which_slot_and_what_they_share() -> None:
    screen = shown(PARALLEL, 160)
    lines = [re.sub(" +", " ", line).strip() for line in screen.splitlines()]
    assert lines[1].startswith("▸ slot 0: opencode's chat thinks: 257 tokens at 31/s; slot 1: curl's completion reads ")
    rows = [line for line in lines if re.match(r"[~▸≡◦] (thinking|writing|reading|waiting) ", line)]
    assert [row.split(" ")[2:5] for row in rows] == [
        ["0", "opencode", "thinks:"],
        ["└", "0", "curl"],
        ["1", "curl", "reads"],
        ["2", "open-webui", "waits"],
        ["-", "hermes", "waits:"],
    ]
    assert "waits for memory: 1.5 GiB short" in screen
    assert "GPU turn: slot 1, handed over 5,120 times. Joint passes: 3,391 of 2 slots, 128 of 3 slots." in lines
    assert "Memory: 1.1 GiB reserved, 15.5 GiB available, floor 15.0 GiB; 4 had to wait." in lines


def test_with_one_slot_there_is_no_word_of_slots() -> None:
    assert "slot" not in shown(EXAMPLE, 160)


@pytest.mark.parametrize("width", [40, 60, 90, 200])
@pytest.mark.parametrize("example", ["live", "live-parallel"])
def test_no_line_is_wider_than_the_terminal(example: str, width: int) -> None:
    assert max(len(line) for line in shown(EXAMPLES[example], width).splitlines()) <= width


def test_an_idle_server_and_one_that_shows_no_activity() -> None:
    idle = shown(changed(requests=[], recent=[], sample=None, history=None))
    assert "No request is in flight." in idle
    assert "Nothing has ended lately." in idle
    rows = [{**row, "activity": None} for row in EXAMPLE["requests"]]
    assert re.search(r"▸ writing +opencode +what it does is not shown", shown(changed(requests=rows)))


def test_nothing_that_a_terminal_obeys_reaches_it() -> None:
    evil = "a\x1b]0;owned\x07\r\x9b31m\u202e\nb\x7f"

    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: spoil(each) for name, each in value.items()}
        if isinstance(value, list):
            return [spoil(each) for each in value]
        return value + evil if isinstance(value, str) else value

    spoilt = spoil(changed())
    screens: list[RenderableType] = []
    screen = Screen(f"http://{evil}", screens.append)
    screen.take({"type": "live", "data": spoilt})
    for text in (text_of(screens[-1]), shown(spoilt)):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    written: list[str] = []
    Events(written.append, written.append).take({"type": "live", "data": spoilt})
    assert written[0].isascii()
    assert written[0].isprintable()
    assert clean(" a\tb\x1b ") == "a b"


def test_sparkline() -> None:
    assert sparkline([0, 1, 4, 8], 10) == " ▂▅█"
    assert sparkline([8, 1, 2], 2) == "▅█"
    assert sparkline([0, 0], 5) == "  "
    assert sparkline([], 5) == ""


def test_the_screen_keeps_the_last_minutes() -> None:
    screens: list[RenderableType] = []
    screen = Screen("box", screens.append)
    screen.take({"type": "live", "data": changed()})
    newer = Sample(t=EXAMPLE["sample"]["t"] + 1, decode_tps=99.0, prefill_tps=0.0)
    for _ in range(2):  # the same second twice is one second
        screen.take(
            {
                "type": "live",
                "data": changed(history=None, sample={"t": newer.t, "decode_tps": 99.0, "prefill_tps": 0.0}),
            }
        )
    bars = text_of(screens[-1]).splitlines()[3].split("tok/s")[1].strip()
    assert len(bars.replace(" ", "x")) <= len(EXAMPLE["history"]) + 1
    assert bars.endswith("█")
    screen.take({"type": "gap", "data": {"dropped": 3}})
    assert len(screens) == 3


Script: TypeAlias = list[list[Frame | Exception]]


@pytest.fixture
def follows(monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], None]:
    """Plays connections: each gives its frames, then raises or ends."""

    def play(script: Script) -> None:
        connections = iter(script)

        async def follow(_: Address, take: Callable[[Frame], None]) -> None:
            for each in next(connections):
                await trio.lowlevel.checkpoint()
                if isinstance(each, Exception):
                    raise each
                take(each)

        monkeypatch.setattr("tandem.cli.watching.follow", follow)

    return play


FRAME: Frame = {"type": "live", "seq": 1, "data": EXAMPLE}


async def test_a_lost_connection_comes_back_by_itself(
    autojump_clock: MockClock, follows: Callable[[Script], None]
) -> None:
    follows(
        [
            [FRAME, Lost("the connection is lost")],
            [ChatError("no server")],
            [FRAME, {"type": "bye", "seq": 2, "data": {"reason": "draining"}}],
            [Final("the password has changed")],
        ]
    )
    screens: list[str] = []
    with pytest.raises(Final):
        await keep_watching(
            ADDRESS, Screen("box", lambda content: screens.append(text_of(content).splitlines()[0].rstrip()))
        )
    said = [line.partition("box")[2].strip() for line in screens]
    assert said == [
        *("connecting", "● live"),
        *(
            "◌ the connection is lost, next try in 1 s",
            "◌ no server answers, next try in 2 s",
            "◌ no server answers, next try in 1 s",
        ),
        *("◌ no server answers, next try in 1 s", "● live"),
        "◌ the server has left, next try in 1 s",
    ]
    assert trio.current_time() == 4


async def test_events_tell_of_a_lost_connection_once(
    autojump_clock: MockClock, follows: Callable[[Script], None]
) -> None:
    away: Script = [[ChatError("no server")]] * 3
    follows([[FRAME, Lost("the connection is lost")], *away, [FRAME, Final("over")]])
    lines: list[str] = []
    notes: list[str] = []
    with pytest.raises(Final):
        await keep_watching(ADDRESS, Events(lines.append, notes.append))
    assert [json.loads(line)["type"] for line in lines] == ["live", "live"]
    assert notes == ["◌ the connection is lost", "◌ no server answers", "● live"]


async def test_a_first_connection_that_fails_is_an_error(follows: Callable[[Script], None]) -> None:
    for error in (ChatError("none"), Lost("the server says nothing")):
        follows([[error]])
        with pytest.raises(ChatError):
            await keep_watching(ADDRESS, Screen("box", lambda _: None))


@contextmanager
def answering(status: int, body: str) -> Iterator[str]:
    """A server that answers everything alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def watch(*options: str) -> Result:
    return CliRunner().invoke(main, ["watch", *options])


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize(
    ("status", "body", "line"),
    [
        (401, "{}", "the server asks for its password: put it into TANDEM_ADMIN_TOKEN"),
        (404, "<html>", "what answers there is no Tandem (status 404); does --url name the right port?"),
        (429, '{"error": {"message": "too many\\nreaders"}}', "too many readers (status 429)"),
    ],
)
def test_refusals_are_one_line(status: int, body: str, line: str, options: tuple[str, ...]) -> None:
    with answering(status, body) as url:
        result = watch("--url", url, *options)
    assert (result.exit_code, result.stderr) == (1, f"Error: {line}\n")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("<html>", "what answers there is no Tandem; does --url name the right port?"),
        ("[]", "the server sent something that is not Tandem's live view; does --url name the right port?"),
        ('{"contract_version": "2.0"}', "the server's live view is of another version"),
        ('{"contract_version": "1.0"}', "the server's live view cannot be read: Object missing required field"),
    ],
)
def test_an_answer_that_is_no_live_view_is_one_line(body: str, line: str) -> None:
    with answering(200, body) as url:
        result = watch("--url", url, "--once")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {line}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_no_server(options: tuple[str, ...]) -> None:
    result = watch("--url", f"127.0.0.1:{free_port()}", *options)
    assert result.exit_code == 1
    assert re.fullmatch(r"Error: no server answers at 127.0.0.1:\d+: start one with .*\n", result.stderr)
    assert watch("--url", "ftp://x").stderr.startswith("Error: --url: 'ftp://x' is no address")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    token = "watch-" * 6
    server = Server.tandem(
        tmp_path_factory.mktemp("watched"),
        *("--fake", "--api-key-loopback", "off", "--dashboard-login", "on"),
        env={"TANDEM_ADMIN_TOKEN": token},
    )
    yield server
    assert server.stop() == 0, server.shown_log


def test_a_pipe_gets_one_snapshot(server: Server) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tandem", "watch", "--url", server.base],
        env=clean_env(server.home),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.startswith("Tandem ")
    assert "‖ idle: nothing runs" in done.stdout
    assert "\x1b" not in done.stdout
    once = watch("--url", server.base, "--once", "--json")
    assert json.loads(once.stdout)["contract_version"] == "1.2"


def test_events_go_into_a_pipe_until_it_closes(server: Server) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tandem", "watch", "--json", "--url", f"{server.base}/v1"],
        env=clean_env(server.home),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    first = json.loads(process.stdout.readline())
    assert (first["type"], "history" in first["data"]) == ("live", True)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    assert process.stderr.read() == b""
    process.stdout.close()
    process.stderr.close()


def test_a_terminal_gets_the_live_screen_until_ctrl_c(server: Server, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tandem", "watch", "--url", server.base],
        env=clean_env(tmp_path, TERM="xterm", COLUMNS="120", LINES="40"),
        cwd=ROOT,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        seen = ""
        deadline = time.monotonic() + 20
        while "● live" not in CODES.sub("", seen) or "idle: nothing runs" not in seen:
            assert time.monotonic() < deadline, seen
            if select.select([master], [], [], 0.1)[0]:
                seen += os.read(master, 65536).decode(errors="replace")
        assert "\x1b[?1049h" in seen  # a screen of its own, given back at the end
        process.send_signal(signal.SIGINT)
        while "\x1b[?1049l" not in seen:
            assert time.monotonic() < deadline, seen
            seen += os.read(master, 65536).decode(errors="replace")
        assert process.wait(10) == 0
        assert "Traceback" not in seen
    finally:
        process.kill()
        process.wait()
        os.close(master)
