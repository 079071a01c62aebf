"""The conductor in a process of its own: documents in STATE, a session that goes on behind a restart."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.process import Server
from tests.e2e.wire import chat, post, until

WORDS = {"say": "done", "choose": {"code_edit": 0.9}}


def serve(home: Path) -> Server:
    return Server.tandem(home, "--fake", "--state-dir", str(home / "state"), "--conductor-config", "conductor")


def details(answer: Any) -> dict[str, int]:
    found: dict[str, int] = answer["usage"]["prompt_tokens_details"]
    return found


@pytest.mark.spec("PRF-001", "NOTE-009", "SES-007", "CFG-002")
def test_a_session_goes_on_behind_a_process_that_was_killed(tmp_path: Path) -> None:
    kept = tmp_path / "state" / "conductor" / "state" / "sessions.json"
    first = serve(tmp_path)
    try:
        asked = chat(WORDS, conversation_id="one")
        reply = post(first.port, asked)
        assert (reply.status, reply.headers["x-tandem"], reply.headers["x-tandem-profile"]) == (200, "on", "general")
        hidden = details(reply.json)["hidden_tokens"]
        assert hidden > 0
        until(lambda: kept.exists() and b"answered" in kept.read_bytes())
    finally:
        first.kill()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "done" not in kept.read_text()
    asked["messages"] += [{"role": "assistant", "content": "done"}, *chat(WORDS)["messages"]]
    second = serve(tmp_path)
    try:
        assert "[conductor] 1 sessions go on" in second.log
        reply = post(second.port, asked)
        assert details(reply.json)["hidden_tokens"] == hidden  # replayed, and nothing said twice
        raw = post(second.port, asked, **{"X-Tandem": "raw"})
        assert "hidden_tokens" not in details(raw.json)
        assert raw.json["usage"]["prompt_tokens"] == reply.json["usage"]["prompt_tokens"]
    finally:
        assert second.stop() == 0, second.shown_log
