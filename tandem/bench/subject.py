"""An engine under test, and one that runs in a process of its own."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeAlias

__all__ = ["BenchError", "Build", "Remote", "SecondTurn", "Subject"]


class BenchError(Exception):
    """Something could not be measured; the message says what and why, in one line."""


@dataclass(frozen=True, slots=True)
class SecondTurn:
    """Seconds from the second prompt to its first token, and seconds of a decode step after it."""

    first_token_s: float
    step_s: float


class Subject(Protocol):
    """One engine with one model loaded. Everything is greedy, and no end token ends it."""

    def about(self) -> str:
        """What exactly this is: version, weights, instruction sets."""

    def prefill(self, ids: Sequence[int]) -> float:
        """Seconds to read `ids` with nothing cached, until the logits of the last one are there."""

    def decode(self, ids: Sequence[int], count: int) -> float:
        """Seconds a token, over `count` tokens after the first one that follows `ids`."""

    def second_turn(self, ids: Sequence[int], answer: int, more: Sequence[int], count: int) -> SecondTurn | None:
        """Read `ids`, write `answer` tokens; then the same conversation with `more` at its end, `count` steps of it.

        None where the engine keeps nothing between two prompts.
        """

    def rounds(self) -> int | None:
        """Rounds of decoding since the load; None where a round is a token."""

    def close(self) -> None:
        """Free it; closing twice is harmless."""


Build: TypeAlias = Callable[[], Subject]
"""Loads a subject. Crosses processes, so it is a module's function or a `partial` of one."""


class Remote:
    """A subject in its own process.

    Engines that share a process share its OpenMP runtime too, which stops spinning at barriers once it counts more
    threads than cores: each would then be measured slower than it is alone.
    """

    def __init__(self, build: Build) -> None:
        """Start loading; `wait` says when it is done."""
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, build), daemon=True)
        self._process.start()
        theirs.close()
        self._about = ""

    def wait(self) -> None:
        """Until it is loaded; `BenchError` where it cannot be."""
        self._about = str(self._receive())

    def about(self) -> str:
        return self._about

    def prefill(self, ids: Sequence[int]) -> float:
        return float(self._call("prefill", ids))

    def decode(self, ids: Sequence[int], count: int) -> float:
        return float(self._call("decode", ids, count))

    def second_turn(self, ids: Sequence[int], answer: int, more: Sequence[int], count: int) -> SecondTurn | None:
        result = self._call("second_turn", ids, answer, more, count)
        assert result is None or isinstance(result, SecondTurn)
        return result

    def rounds(self) -> int | None:
        result = self._call("rounds")
        assert result is None or isinstance(result, int)
        return result

    def close(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.join()

    def _call(self, method: str, *args: object) -> Any:
        return self._receive((method, args))

    def _receive(self, call: tuple[str, tuple[object, ...]] | None = None) -> object:
        """What the other process has to say, to `call` where there is one."""
        try:
            if call is not None:
                self._connection.send(call)
            result: object = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            raise BenchError(f"its process ended with exit code {self._process.exitcode}") from None
        if isinstance(result, BenchError):
            raise result
        return result


def _serve(connection: Connection, build: Build) -> None:
    """The other process: load, then answer calls until the pipe closes."""
    # Ctrl-C reaches the whole group; this process ends when the one that started it says so.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        subject = build()
        connection.send(subject.about())
        while True:
            method, args = connection.recv()
            connection.send(getattr(subject, method)(*args))
    except (EOFError, ConnectionError):
        return
    except Exception as error:
        connection.send(BenchError(" ".join(f"{type(error).__name__}: {error}".split())))
