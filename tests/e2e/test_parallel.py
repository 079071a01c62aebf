"""Two coding sessions and a title request on a real server with two slots: nobody waits for another's turn to end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.engine.text.side import SIDE_SHAPES
from tandem.engine.tiny.templates import TOOL_CHATML
from tandem.engine.tiny.vocabulary import SPECIALS
from tests.e2e.process import Server
from tests.e2e.wire import CHAT, Connection, Reply, health, post, until
from tests.tiny import build_llama

TITLE = next(shape for shape in SIDE_SHAPES if shape.id == "opencode-title").opens[0]
AGENT = {"User-Agent": "opencode/1.0"}
READ = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Reads a file",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home: Path = tmp_path_factory.mktemp("parallel")
    model = build_llama(home / "tiny", template=TOOL_CHATML, tied=False, max_position_embeddings=4096)
    server = Server.tandem(home, "--model", str(model), "--parallel", "2", "--parallel-floor-gb", "0")
    yield server
    assert server.stop() == 0, server.shown_log


def coding(who: str, tokens: int, *said: str) -> dict[str, Any]:
    """A turn of a session that has a system text and tools; its answer is drawn and has just so many tokens."""
    roles = ("user", "assistant")
    turns = [{"role": roles[at % 2], "content": text} for at, text in enumerate((f"{who} works on it.", *said))]
    return body(
        [{"role": "system", "content": f"You work in the folder of {who}."}, *turns],
        tokens,
        tools=[READ],
        tool_choice="none",
    )


def title(tokens: int) -> dict[str, Any]:
    said = [{"role": "system", "content": TITLE}, {"role": "user", "content": "Name this session."}]
    return body(said, tokens, reasoning_effort="none")


def body(messages: list[dict[str, str]], tokens: int, **more: Any) -> dict[str, Any]:
    ends = {str(token): -100 for token in range(len(SPECIALS))}
    drawn = {"temperature": 1, "seed": 3, "max_tokens": tokens, "logit_bias": ends}
    return {"model": "M", "messages": messages, "stream": True, **drawn, **more}


def row(server: Server, reply: Reply) -> dict[str, str]:
    name = reply.headers["x-request-id"]
    until(lambda: any(line["id"] == name for line in server.request_lines()))
    return next(line for line in server.request_lines() if line["id"] == name)


@pytest.mark.spec("SCH-110", "SCH-048", "SCH-049", "SCH-103", "API-198")
def test_two_sessions_and_a_title_run_beside_each_other(server: Server) -> None:
    with Connection(server.port) as ann:
        ann.send("POST", CHAT, coding("ann", 500), AGENT)
        answer = ann.head()
        pieces = ann.pieces()
        next(pieces)  # her answer is being written
        named = post(server.port, title(16), **AGENT)
        bob = post(server.port, coding("bob", 40), **AGENT)
        again = post(server.port, coding("bob", 40, bob.text, "And then?"), **AGENT)
        for _ in pieces:
            pass
    replies = [named, bob, again, answer]
    assert [reply.status for reply in replies] == [200] * 4
    rows = [row(server, reply) for reply in replies]
    ended = [line["id"] for line in server.request_lines()]
    assert ended == [line["id"] for line in rows], "she, who came first, ended last"
    assert rows[0]["lane"] in ("decode", "prefill")
    parallel = health(server.port)["parallel"]
    assert [slot["slot"] for slot in parallel["slots"]] == [0, 1]
    until(lambda: health(server.port)["parallel"]["rounds"].get("2", 0) > 0)
