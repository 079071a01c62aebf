"""A conversation goes on behind a restart: after kill -9 from the disk cache, after a stop from the session spill."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.tiny.kinds import make_tiny
from tests.e2e.process import Server
from tests.e2e.wire import Connection, post, until

GRID = 32
ANSWERED = 8
SYSTEM = {"role": "system", "content": "You answer shortly and to the point. " * 8}
ALL = ("--disk-cache-admit-after", "1", "--disk-cache-min-free-gb", "0")
FLAGS = ("--prefix-chunk", str(GRID), "--threads", "1", *ALL)


def serve(home: Path, *flags: str) -> Server:
    return Server.tandem(home, "--model", str(home / "tiny"), "--state-dir", str(home / "state"), *FLAGS, *flags)


def ask(server: Server, *messages: dict[str, str], word: int) -> Any:
    """A random model's answer is rarely text that reads back as the same ids; one word said over and over is."""
    rules = {"temperature": 0, "max_tokens": ANSWERED, "logit_bias": {str(word): 100}}
    reply = post(server.port, {"messages": [SYSTEM, *messages], **rules})
    assert reply.status == 200, reply.body
    return reply.json


def cached(answer: Any) -> int:
    count: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return count


def on_disk(server: Server) -> int:
    """Entries of the disk cache."""
    with Connection(server.port) as client:
        counts = {each["name"]: each["entries"] for each in client.ask("GET", "/v1/cache/stats").json["caches"]}
    return int(counts.get("disk", 0))


@pytest.mark.spec("ENG-116", "ENG-117", "ENG-121", "API-062", "API-063", "API-205", "SCH-097")
def test_a_conversation_outlives_its_server(tmp_path: Path) -> None:
    [word] = open_checkpoint(make_tiny("llama", tmp_path / "tiny")).text.encode(" the")
    say = partial(ask, word=word)
    asked = {"role": "user", "content": "What does the fox say?"}
    first = serve(tmp_path, "--disk-cache", "on")
    try:
        cold = say(first, asked)
        lines = cold["usage"]["prompt_tokens"] // GRID
        assert (cached(cold), lines > 2) == (0, True)
        until(lambda: on_disk(first) >= lines)
    finally:
        first.kill()

    more = ({"role": "assistant", "content": "Nothing."}, {"role": "user", "content": "And the dog?"})
    second = serve(tmp_path, "--disk-cache", "read")
    try:
        assert on_disk(second) >= lines
        warm = say(second, asked, *more)
        assert cached(warm) >= (lines - 1) * GRID
    finally:
        assert second.stop() == 0, second.shown_log
    assert "[cache] spilled" in second.log

    third = serve(tmp_path)
    try:
        answer = {"role": "assistant", "content": " the" * ANSWERED}
        next_turn = (asked, *more, answer, {"role": "user", "content": "Go on."})
        assert warm["choices"][0]["message"]["content"] == answer["content"]
        again = say(third, *next_turn)
        assert cached(again) == warm["usage"]["prompt_tokens"] + ANSWERED - 1  # where the answer ended
        assert again["timings"]["cache_source"] == "session"
        with Connection(third.port) as client:
            freed = client.ask("POST", "/v1/cache/clear", b"").json["freed_bytes"]
        assert freed["resident"] > 0
        assert cached(say(third, *next_turn)) == 0
    finally:
        assert third.stop() == 0, third.shown_log
