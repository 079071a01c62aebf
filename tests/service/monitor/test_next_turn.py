"""The turn behind an act: what was hidden is put back, and no more is read than what is new (K-10, MON-137)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio.testing

from tandem.engine.fake.warm import WarmFakeEngine
from tests.service.cases.asking import returned
from tests.service.harness import fake
from tests.service.monitor.fixtures import FIXTURES, Fixture, written
from tests.service.monitor.stage import CODE, SYSTEM, TOOLS, open_stage
from tests.service.said import Said, said
from tests.service.test_plan import CHAT, decisions

GRID = 16
PUT_BACK = ("D1", "D2", "E1", "E2", "C1", "C2", "C3", "C4", "C5")
"""Of these the client's history and the rows differ in what was hidden alone, a set that was dropped included."""


def second(each: Fixture, answer: Said) -> list[dict[str, Any]]:
    """What a client sends behind the first answer."""
    if answer.calls:
        return [{"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in answer.calls]
    return [{"role": "user", "content": f"And now? {fake(say='That is all.', choose=CODE)}"}]


@pytest.mark.spec("MON-137", "ANS-004", "MON-134", "MON-036")
async def test_what_the_next_turn_finds(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = WarmFakeEngine(grid=GRID, max_len=60_000)
    async with open_stage(tmp_path, engine=engine) as harness:

        async def turn(session: str, messages: list[Any], mode: str = "on", **more: Any) -> Said:
            headers = {"x-tandem": mode, "x-tandem-profile": "coding", "x-session-id": session}
            body = {"model": "M", "messages": messages, "tools": TOOLS, **more}
            return said(await harness.client.send(CHAT, body, headers=headers))

        for at, each in enumerate(FIXTURES):
            if not each.rows:
                continue
            script = {"choose": CODE, **each.script}
            rounds = sum(message["role"] == "assistant" for message in each.before)
            user = {"role": "user", "content": fake(**script, turns=[*[script] * rounds, {"say": "Fine."}])}
            messages = [SYSTEM, user, *each.before]
            first = await turn(str(at), messages, **each.more)
            messages = [*messages, returned(first), *second(each, first)]
            then = await turn(str(at), messages)
            raw = await turn(str(at), messages, "raw", max_tokens=1)
            assert then.usage["prompt_tokens"] == raw.usage["prompt_tokens"], each.name
            found = then.usage["prompt_tokens_details"]["cached_tokens"]
            replayed = (await decisions(harness))[-1]["extra"].get("end_replayed", 0)
            seen = len(engine.text.encode_own(written(*each.calls))) if each.calls else first.usage["completion_tokens"]
            # Of calls that the reasoning holds, the history has the text and no markers.
            is_whole = each.task in PUT_BACK and "empty(C)" not in {reason for _, _, reason in each.rows}
            assert (replayed > 0) == is_whole, each.name
            assert found >= first.usage["prompt_tokens"] + (seen - 2 if is_whole else -GRID), each.name
            assert found <= then.usage["prompt_tokens"]
