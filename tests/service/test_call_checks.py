"""Calls are checked before they leave a whole service: what agents' loops and malformed calls have come to elsewhere.

The name of a test has the cases' numbers.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tandem.actors.store import Flush
from tests.conductor.monitor.calling import called, declare
from tests.service.harness import Harness, fake, open_harness

ORDER = {"path": {"type": "string"}, "order": {"enum": ["asc", "desc"]}}
TOOLS = [
    declare("read", parameters={"type": "object", "properties": ORDER, "required": ["path"]}),
    declare("list", "path"),
    declare("send", "to", "body"),
]
READ, LIST = ("read", '{"path": "a"}', "X"), ("list", '{"path": "b"}', "Y")
OTHER = ("list", {"path": "c"})
SESSIONS = map(str, itertools.count())


def written(*made: tuple[str, Mapping[str, str]]) -> str:
    blocks = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in made]
    return "\n".join(f"<tool_call>\n{block}\n</tool_call>" for block in blocks)


async def answered(
    harness: Harness,
    said: str,
    *before: tuple[str, str, str],
    stream: bool = False,
    headers: Mapping[str, str] = {},
) -> list[tuple[str, Any]]:
    """The calls that the client gets of an answer behind these calls; asked again the model calls OTHER."""
    script = {"say": said, "then": [written(OTHER)]}
    user = {"role": "user", "content": fake(**script, turns=[script] * len(before))}
    body = {"model": "M", "messages": [user, *called(*before)], "tools": TOOLS, "stream": stream}
    call = await harness.client.send("/v1/chat/completions", body, headers={"x-session-id": next(SESSIONS), **headers})
    assert call.status == 200, call.body
    if stream:
        deltas = [part for chunk in call.chunks for part in chunk["choices"][0]["delta"].get("tool_calls", ())]
        assert [part["index"] for part in deltas if "id" in part] == list(range(sum("id" in part for part in deltas)))
        made: Sequence[Any] = [part["function"] for part in deltas if "name" in part["function"]]
        return [(each["name"], None) for each in made]
    message = call.json["choices"][0]["message"]
    assert call.json["choices"][0]["finish_reason"] == "tool_calls"
    functions = [each["function"] for each in message["tool_calls"]]
    return [(each["name"], json.loads(each["arguments"])) for each in functions]


async def rows(harness: Harness) -> list[tuple[str, str, str | None, str]]:
    """The monitor's rows of calls, oldest first."""
    await harness.service.context.store.ask(Flush)
    call = await harness.client.send("/v1/conductor/events?kind=monitor&limit=100")
    found = [row for row in reversed(call.json["events"]) if row["task"] in ("C1", "C3", "C4", "C5", "calls")]
    return [(row["task"], row["decision"], row["action"], row["reason"]) for row in found]


@pytest.mark.spec("MON-008", "MON-074", "MON-077", "MON-094", "MON-148", "MON-157", "MON-089")
async def test_i01_i02_d13_e08_calls_are_checked_before_they_leave(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    again = [OTHER]
    read = written(("read", {"path": "a"}))
    async with open_harness(conductor_config=tmp_path) as harness:
        assert await answered(harness, read, READ) == [("read", {"path": "a"})]
        assert await answered(harness, read, READ, READ) == again
        assert await answered(harness, written(("list", {"path": "b"})), READ, LIST, READ) == again
        assert await answered(harness, written(("look", {"path": "a"}))) == again
        assert await answered(harness, written(("look", {"path": "a"})), stream=True) == [("list", None)]
        mended = await answered(harness, written(("read", {"path": "a", "order": "ASC"})))
        assert mended == [("read", {"path": "a", "order": "asc"})]
        mail = ("send", {"to": "a", "body": "b"})
        assert await answered(harness, written(mail, mail)) == again
        assert await answered(harness, written(mail, mail), headers={"x-tandem": "raw"}) == [mail, mail]
        found = await rows(harness)
        polls = []
        for count in range(5):
            polls += await answered(harness, read, *[READ] * count, headers={"x-session-id": "polls"})
            await trio.sleep(12 if count < 2 else 1)
        # The first two results were waited for; those of the next two calls came at once.
        assert polls == [("read", {"path": "a"})] * 4 + again
    assert found == [
        ("calls", "COUNTS", None, ""),
        ("C3", "REGENERATE_CALL", "REGENERATE_CALL", "repeat(3)"),
        ("calls", "COUNTS", None, ""),
        ("C3", "REGENERATE_CALL", "REGENERATE_CALL", "cycle(2)"),
        ("calls", "COUNTS", None, ""),
        *[
            ("C4", "REGENERATE_CALL", "REGENERATE_CALL", "malformed(unknown_tool)"),
            ("calls", "COUNTS", None, ""),
        ]
        * 2,
        ("C4", "REPAIR_CALL", "REPAIR_CALL", "malformed(value)"),
        ("C5", "REGENERATE_CALL", "REGENERATE_CALL", "sequence(mutations=2)"),
        ("calls", "COUNTS", None, ""),
    ]


@pytest.mark.spec("API-113", "MON-081", "MON-074", "MON-075", "MON-111")
async def test_when_calls_go_out(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """Live; with stop strings at their block's end; where a check may act behind the answer, and then at once."""
    two = f"{written(OTHER)}\n{written(('list', {'path': 'd'}))}\nThat is all, I think."
    script = {"say": two, "token_ms": 100}
    async with open_harness(conductor_config=tmp_path) as harness:

        async def parts(script: Any = script, mode: str = "on", **fields: Any) -> tuple[list[tuple[int, float]], float]:
            """Index and second of each piece of a call, and when the last of the text came."""
            message = {"role": "user", "content": fake(**script)}
            body = {"model": "M", "messages": [message], "tools": TOOLS, "stream": True, **fields}
            headers = {"x-session-id": next(SESSIONS), "x-tandem": mode}
            call = await harness.client.send("/v1/chat/completions", body, headers=headers)
            deltas = [
                (event.at, choice["delta"]) for event in call.events if event.data for choice in event.data["choices"]
            ]
            text = "".join(delta.get("content") or "" for _, delta in deltas)
            assert "tool_call" not in text
            pieces = [(part["index"], at) for at, delta in deltas for part in delta.get("tool_calls", ())]
            return pieces, max([at for at, delta in deltas if delta.get("content")], default=0.0)

        def spread(pieces: list[tuple[int, float]], index: int) -> float:
            found = [at for each, at in pieces if each == index]
            return max(found) - min(found)

        for mode in ("raw", "shadow"):
            live, text_at = await parts(mode=mode)
            assert min(spread(live, 0), spread(live, 1)) > 0.2, "piece by piece"
            stopped, text_at = await parts(mode=mode, stop=["never"])
            assert [spread(stopped, index) for index in (0, 1)] == [0, 0]
            first, second = [min(at for each, at in stopped if each == index) for index in (0, 1)]
            assert first < second < text_at, "each when its block has closed"
        held, text_at = await parts()
        assert [index for index, _ in held] == [0, 0, 1, 1], "of each its opening, and its arguments in one"
        assert len({at for _, at in held}) == 1
        assert held[0][1] >= text_at
        broken = {"say": f"{written(OTHER)}<tool_call>\n{{no\n</tool_call>", "then": [written(OTHER)]}
        assert [index for index, _ in (await parts(broken))[0]] == [0, 0], "only what was written again"
        required, _ = await parts({"say": written(OTHER), "token_ms": 100}, tool_choice="required")
        assert spread(required, 0) > 0.2, "a constrained answer is not held"
        assert {outcome.max_tokens for outcome in harness.outcomes} == {32_768}
