"""`tandem chat`: a conversation in the terminal with a running server, or one answer where input is piped in."""

from __future__ import annotations

import os
import re
import sys
from contextlib import closing
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from tandem.cli.client import ChatClient, ChatError, Finished, Piece, Waiting
from tandem.config import SettingError, Settings
from tandem.secrets import read_secrets

__all__ = ["command"]

HISTORY_LINES = 1000
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
KEYS = "Ctrl-C stops an answer, Ctrl-D or /exit leaves, /clear starts afresh."


class Conversation:
    """The messages so far; the system message, where there is one, stays through `clear`."""

    def __init__(self, system: str | None) -> None:
        self._system = [{"role": "system", "content": system}] if system else []
        self.clear()

    def clear(self) -> None:
        self._turns: list[dict[str, str]] = []

    def with_question(self, text: str) -> list[dict[str, str]]:
        """What to send for the question `text`."""
        return [*self._system, *self._turns, {"role": "user", "content": text}]

    def add(self, question: str, answer: str) -> None:
        """Keep a turn; a question without any answer is not kept."""
        if answer:
            self._turns += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


class Answer:
    """Shows one answer as it comes and keeps its text."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("")
        self._waiting = True
        self._thinking = False
        self.text = ""
        self.end: Finished | None = None

    def show(self, event: Piece | Waiting | Finished) -> None:
        match event:
            case Waiting(text):
                if self._waiting and text != "ping":
                    self._status.update(Text(text, style="dim"))
            case Piece(text, reasoning=True):
                self._settle()
                self._thinking = True
                self._write(text, "dim")
            case Piece(text):
                self._settle()
                if self._thinking:
                    self._write("\n\n")
                    self._thinking = False
                self.text += text
                self._write(text)
            case Finished():
                self.end = event

    def _settle(self) -> None:
        if self._waiting:
            self._waiting = False
            self._status.stop()

    def _write(self, text: str, style: str | None = None) -> None:
        # A terminal obeys control characters, and the model's text is not the user's to obey.
        self._console.out(CONTROLS.sub("", text), end="", style=style, highlight=False)

    def __enter__(self) -> Answer:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._settle()
        self._console.print()


class Terminal:
    """The conversation with a person: prompt, commands, history."""

    def __init__(self, client: ChatClient, model: str, system: str | None, history: Path) -> None:
        self._client = client
        self._model = model
        self._conversation = Conversation(system)
        self._history = history
        self._console = Console(highlight=False)

    def run(self) -> None:
        self._console.print(f"{self._model} at {self._client.url}", style="bold", markup=False)
        self._console.print(KEYS, style="dim")
        _load_history(self._history)
        try:
            while (line := self._read()) is not None:
                match line.strip():
                    case "":
                        pass
                    case "/exit" | "/quit":
                        return
                    case "/clear":
                        self._conversation.clear()
                        self._console.print("The conversation starts afresh.", style="dim")
                    case "/help":
                        self._console.print(KEYS, style="dim")
                    case _:
                        self._turn(line)
        finally:
            _save_history(self._history)

    def _read(self) -> str | None:
        """The next line; None at its end. Ctrl-C drops what was typed."""
        # \001 and \002 tell readline that the colour takes no room.
        prompt = "> " if self._console.color_system is None else "\001\033[1;36m\002> \001\033[0m\002"
        while True:
            try:
                return input(prompt)
            except KeyboardInterrupt:
                self._console.print()
            except EOFError:
                self._console.print()
                return None

    def _turn(self, question: str) -> None:
        answer = Answer(self._console)
        stopped = False
        try:
            with (
                answer,
                closing(self._client.stream(self._model, self._conversation.with_question(question))) as stream,
            ):
                for event in stream:
                    answer.show(event)
        except KeyboardInterrupt:
            stopped = True
        except ChatError as error:
            self._console.print(str(error), style="red", markup=False)
        self._conversation.add(question, answer.text)
        self._console.print(_footer(answer.end, stopped), style="dim")


def _footer(end: Finished | None, stopped: bool) -> str:
    """The line below an answer: how it ended, if not by itself, and how fast it was."""
    if stopped:
        return "stopped\n"
    if end is None:
        return ""
    parts = [] if end.reason in ("", "stop") else [f"ended by {end.reason}"]
    if count := end.timings.get("predicted_n"):
        parts.append(f"{count} tokens")
    if rate := end.timings.get("predicted_per_second"):
        parts.append(f"{rate:.1f} a second")
    if first := end.timings.get("ttft_ms"):
        parts.append(f"first after {first / 1000:.2f} s")
    return ", ".join(parts) + "\n"


def _load_history(path: Path) -> None:
    try:
        import readline
    except ImportError:
        return
    readline.set_history_length(HISTORY_LINES)
    try:
        readline.read_history_file(path)
    except OSError:
        return


def _save_history(path: Path) -> None:
    """Keep the lines typed, for this user's eyes alone; a place that cannot be written to loses them silently."""
    try:
        import readline

        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        readline.write_history_file(path)
    except (ImportError, OSError):
        return


def _once(client: ChatClient, model: str, system: str | None) -> None:
    """Answer what stdin holds, on stdout as it comes."""
    question = sys.stdin.read().strip()
    if not question:
        raise click.ClickException("there is no question: pipe one in, as in: echo hi | tandem chat")
    with closing(client.stream(model, Conversation(system).with_question(question))) as stream:
        for event in stream:
            if isinstance(event, Piece) and not event.reasoning:
                click.echo(CONTROLS.sub("", event.text), nl=False)
    click.echo()


@click.command(short_help="Chat with a running server in the terminal.")
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="Address of the server.")
@click.option("--system", metavar="TEXT", help="A system message for the whole conversation.")
def command(url: str, system: str | None) -> None:
    """Chat with a running server.

    Ctrl-C stops an answer, Ctrl-D or /exit leaves, /clear starts a new conversation. The lines you type are kept in
    STATE/chat_history. A server that asks for an API key gets the one in TANDEM_API_KEY or
    STATE's secrets.env. With input from a pipe it
    prints the one answer and ends:

        echo "Name three rivers." | tandem chat
    """
    try:
        state_dir = Settings.from_sources({}, os.environ).state_dir
        client = ChatClient(url, read_secrets(os.environ, state_dir).api_key)
        model = client.model()
        if sys.stdin.isatty():
            Terminal(client, model, system, state_dir / "chat_history").run()
        else:
            _once(client, model, system)
    except (ChatError, SettingError, OSError) as error:
        raise click.ClickException(str(error)) from None
