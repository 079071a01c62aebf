"""`tandem chat`: one answer through a pipe, and a conversation on a real terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tandem.cli import main
from tests.cli.stub import DONE, Stub, chunk, running

CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running(Stub()) as stub:
        yield stub


def piped(stub: Stub, text: str, *options: str) -> Result:
    return CliRunner().invoke(main, ["chat", "--url", stub.url, *options], input=text)


def test_pipe_prints_the_answer_and_ends(stub: Stub) -> None:
    result = piped(stub, "hi\n")
    assert (result.exit_code, result.stdout) == (0, "Hello there\n")
    assert stub.asked[0]["messages"] == [{"role": "user", "content": "hi"}]


def test_system_message(stub: Stub) -> None:
    piped(stub, "hi", "--system", "Be brief.")
    assert stub.asked[0]["messages"][0] == {"role": "system", "content": "Be brief."}


def test_control_characters_of_a_model_reach_no_terminal(stub: Stub) -> None:
    stub.events = [chunk("a\x1b]0;owned\x07\tb\n\x9bc"), DONE]
    assert piped(stub, "hi").stdout == "a]0;owned\tb\nc\n"


def test_empty_pipe(stub: Stub) -> None:
    result = piped(stub, " \n")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: there is no question")


def test_refusal_is_one_line(stub: Stub) -> None:
    stub.status = 429
    result = piped(stub, "hi")
    assert (result.exit_code, result.stderr) == (1, "Error: queue is full (status 429)\n")


def test_no_server_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        result = piped(Stub(url=f"http://127.0.0.1:{taken.getsockname()[1]}"), "hi")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "start one with tandem serve" in result.stderr


class Person:
    """Someone at a terminal: types, reads, presses Ctrl-C."""

    def __init__(self, url: str, home: Path) -> None:
        self._master, slave = pty.openpty()
        environ = {**os.environ, "HOME": str(home), "TERM": "xterm", "COLUMNS": "100"}
        command = [sys.executable, "-m", "tandem", "chat", "--url", url]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True
        )
        os.close(slave)
        self._seen = ""

    def expect(self, text: str, within: float = 20) -> str:
        """Read until `text` is on the screen; what came before it."""
        deadline = time.monotonic() + within
        while text not in self._seen:
            assert time.monotonic() < deadline, f"no {text!r} in {self._seen!r}"
            if select.select([self._master], [], [], 0.1)[0]:
                self._seen += CODES.sub("", os.read(self._master, 4096).decode())
        before, _, self._seen = self._seen.partition(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def person(stub: Stub, tmp_path: Path) -> Iterator[Person]:
    person = Person(stub.url, tmp_path)
    person.expect("> ")
    yield person
    person.close()


def test_conversation_keeps_its_turns_until_cleared(person: Person, stub: Stub, tmp_path: Path) -> None:
    for line in ("one", "two", "/clear", "three"):
        person.type(line + "\n")
        person.expect("afresh" if line == "/clear" else "Hello there")
        person.expect("> ")
    person.type("/exit\n")
    assert person.process.wait(10) == 0
    assert [len(each["messages"]) for each in stub.asked] == [1, 3, 1]
    history = tmp_path / ".tandem" / "chat_history"
    assert history.read_text().split() == ["one", "two", "/clear", "three", "/exit"]
    assert history.stat().st_mode & 0o777 == 0o600


def test_ctrl_c_stops_the_answer_and_not_the_program(person: Person, stub: Stub) -> None:
    whole = stub.events
    stub.events, stub.hold = whole[:2], True
    person.type("one\n")
    person.expect("Hello there")
    person.interrupt()
    person.expect("stopped")
    assert stub.left.wait(5)
    stub.events, stub.hold = whole, False
    person.expect("> ")
    person.type("two\n")
    person.expect("Hello there")
    person.expect("> ")
    assert [each["content"] for each in stub.asked[1]["messages"]] == ["one", "Hello there", "two"]
    person.type("\x04")
    assert person.process.wait(10) == 0


def test_an_error_leaves_the_conversation_open(person: Person, stub: Stub) -> None:
    stub.status = 503
    person.type("one\n")
    person.expect("queue is full (status 503)")
    stub.status = 200
    stub.events = [
        ": waiting, position 1\n\n",
        *stub.events[:2],
        chunk(reason="length", timings={"predicted_n": 2}),
        DONE,
    ]
    person.expect("> ")
    person.type("two\n")
    person.expect("ended by length, 2 tokens")
    assert [each["content"] for each in stub.asked[1]["messages"]] == ["two"]
