"""Records the set that the estimators are held to (SCH-036): an evening of one coding agent, on the fake engine.

    python -m tests.bench.record_waits

writes `waits.jsonl` beside this file: of each request what `tandem bench waits` reads of a ledger's row. Lengths are
log-normal: most turns are short tool calls, one in ten explains, one in ten writes a file, and one in three thinks
first. So who waits long waits behind one of the few long turns, which is what the upper quartile of the live estimator
is for; where most answers are long it tells more than is waited.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import trio
import trio.testing

from tandem.bench.waits import COLUMNS
from tests.service.harness import chat, open_harness

__all__ = ["RECORDED", "record"]

RECORDED = Path(__file__).with_name("waits.jsonl")
REQUESTS = 240
SEED = 7
LENGTHS = {"call": (4.1, 0.6), "explain": (5.7, 0.6), "edit": (6.8, 0.6)}
"""Tokens of an answer: mean and deviation of their logarithm."""


def _request(dice: random.Random) -> dict[str, Any]:
    """One request: how much it reads, thinks and writes, and how fast."""
    kind = dice.choices(("call", "explain", "edit"), (8, 1, 1))[0]
    answer = _words(dice.lognormvariate(*LENGTHS[kind]))
    thought = _words(dice.lognormvariate(4.8, 0.8)) if dice.random() < 0.35 else ""
    script = {
        "say": f"<think>{thought}</think>{answer}" if thought else answer,
        "token_ms": round(dice.gauss(50, 4), 1),
        "prefill_ms_per_token": 1.5,
        "block": 2,
    }
    context = _words(dice.lognormvariate(6.7, 1.0))
    return chat(f"{context} @fake {json.dumps(script)}", max_tokens=8_192, enable_thinking=bool(thought))


def _words(count: float) -> str:
    return "la " * min(max(int(count), 3), 6_000)


async def record(requests: int = REQUESTS) -> list[dict[str, Any]]:
    """The rows of requests that came one after the other."""
    dice = random.Random(SEED)
    async with open_harness(max_len=32_768) as harness:
        for _ in range(requests):
            call = await harness.client.send("/v1/chat/completions", _request(dice))
            assert call.status == 200, call.body
            await trio.sleep(dice.expovariate(1 / 20))
        return [{name: getattr(outcome, name) for name in COLUMNS} for outcome in harness.outcomes]


def main() -> None:
    rows = trio.run(record, clock=trio.testing.MockClock(autojump_threshold=0))
    with RECORDED.open("w", encoding="utf-8") as file:
        for row in rows:
            rounded = {name: round(value, 1) if isinstance(value, float) else value for name, value in row.items()}
            file.write(f"{json.dumps(rounded)}\n")


if __name__ == "__main__":
    main()
