"""`python -m bench load`: throughput, first tokens, fairness and `/health` under 1 to 64 streams (issue 8).

The fake engine writes a token in 5 ms on each of four slots, so what is measured there is the service. The embedded
model runs with its default settings on two slots at most, beside llama.cpp's own slots in the same run: rounds of one
and two streams of each are interleaved, and the ratio is taken within a round.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import httpx2
import trio
from rich.console import Console

from bench.load.serving import Process, llama_streams, tandem
from bench.load.streams import Seen, Sight, jain, run_streams
from tandem.bench.prompts import WORDS
from tandem.bench.report import RESULTS, Report, keep, machine, render
from tandem.bench.stats import percentile, summary
from tandem.config import Settings
from tandem.engine.checkpoints import embedded
from tandem.engine.memory import default_threads

__all__ = ["command"]

FAKE_STREAMS, FAKE_SLOTS, FAKE_TOKENS, TOKEN_MS = (1, 4, 16, 64), 4, 100, 5
ABORT_TOKEN_MS = 50
"""Long enough that asking /health is no part of what is measured."""
MODEL_STREAMS, MODEL_TOKENS = (1, 2, 4), 96


def _fake_body(number: int, token_ms: int = TOKEN_MS) -> dict[str, Any]:
    script = f'@fake {{"say": "s{number} ", "loop": true, "token_ms": {token_ms}}}'
    return {"model": "M", "messages": [{"role": "user", "content": script}], "max_tokens": FAKE_TOKENS}


def _prompt(number: int) -> str:
    """Plain words, another beginning each, so that nobody resumes from another's rows."""
    words = WORDS.split()
    turned = words[number * 5 % len(words) :] + words[: number * 5 % len(words)]
    return f"Story {number}. Write a long story with these words: {' '.join(turned)}."


def _model_body(number: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": _prompt(number)}]
    return {"model": "M", "messages": messages, "max_tokens": MODEL_TOKENS, "temperature": 0}


def _measure(process: Process, bodies: Sequence[dict[str, Any]]) -> tuple[list[Seen], Sight, float]:
    sight = Sight()
    started = time.perf_counter()
    seen = trio.run(run_streams, process.base, bodies, sight)
    return seen, sight, time.perf_counter() - started


def _row(name: str, seen: list[Seen], sight: Sight, took: float) -> tuple[str, ...]:
    tokens = sum(each.tokens for each in seen)
    firsts = [1e3 * each.first_s for each in seen]
    return (
        name,
        f"{tokens / took:.0f}",
        f"{statistics.median(firsts):.0f}",
        f"{percentile(firsts, 0.99):.0f}",
        f"{jain([each.rate for each in seen]):.3f}",
        f"{sight.p99_ms:.1f}",
    )


def _spread(values: Sequence[float]) -> str:
    found = summary(values)
    return f"{found.median:.1f} ({found.low:.1f} to {found.high:.1f})"


COLUMNS = ("streams", "tok/s", "first token ms", "p99", "Jain's index", "/health p99 ms")


def fake_report() -> Report:
    rows = []
    with tandem("--fake", "--parallel", str(FAKE_SLOTS), "--max-queue", "64") as process:
        _measure(process, [_fake_body(0)])
        for count in FAKE_STREAMS:
            seen, sight, took = _measure(process, [_fake_body(number) for number in range(count)])
            rows.append(_row(str(count), seen, sight, took))
        freed = [trio.run(_abort, process.base, number) for number in range(10)]
    note = (
        f"{FAKE_TOKENS} tokens of {TOKEN_MS} ms each on {FAKE_SLOTS} slots; a round of n slots takes one token's time. "
        "Jain's index over each stream's rate after its first token."
    )
    steps = [each / ABORT_TOKEN_MS for each in freed]
    gone = f"A client leaves: its slot is free after {_spread(steps)} steps of {ABORT_TOKEN_MS} ms."
    return Report("The service under load, fake engine", COLUMNS, tuple(rows), (note, gone))


async def _abort(base: str, number: int) -> float:
    """Milliseconds from a client's leaving until no request runs."""
    async with httpx2.AsyncClient(base_url=base, timeout=None) as client:
        body = {**_fake_body(number, ABORT_TOKEN_MS), "max_tokens": 2_000, "stream": True}
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = response.aiter_lines()
            for _ in range(10):
                await anext(lines)
        left = time.perf_counter()
        while (await client.get("/health")).json()["inflight"]["running"]:
            pass
        return 1e3 * (time.perf_counter() - left)


def model_report(path: Path, threads: int, rounds: int) -> Report:
    """One, two and four streams over one and two slots, and llama.cpp with as many slots as streams."""
    ours: dict[int, list[float]] = {count: [] for count in MODEL_STREAMS}
    theirs: dict[int, list[float]] = {count: [] for count in MODEL_STREAMS}
    rows: dict[int, tuple[str, ...]] = {}
    version = ""
    with tandem("--parallel", "2", "--threads", str(threads)) as process:
        _measure(process, [_model_body(99)])
        for turn in range(rounds):
            for count in MODEL_STREAMS:
                numbers = [turn * 10 + count * 100 + each for each in range(count)]
                seen, sight, took = _measure(process, [_model_body(number) for number in numbers])
                ours[count].append(sum(each.tokens for each in seen) / took)
                rows[count] = _row(str(count), seen, sight, took)
                peer = llama_streams(path, threads, count, [_prompt(number) for number in numbers], MODEL_TOKENS)
                theirs[count].append(peer["tokens"] / peer["seconds"])
                version = peer["version"]
    table = tuple(
        (
            *rows[count][:1],
            f"{statistics.median(ours[count]):.0f}",
            *rows[count][2:],
            f"{statistics.median(theirs[count]):.0f}",
            f"{statistics.median(a / b for a, b in zip(ours[count], theirs[count], strict=True)):.2f}",
        )
        for count in MODEL_STREAMS
    )
    gain = statistics.median(two / one for one, two in zip(ours[1], ours[2], strict=True))
    peer_gain = statistics.median(two / one for one, two in zip(theirs[1], theirs[2], strict=True))
    notes = (
        f"{MODEL_TOKENS} tokens each, prompts of about 70 tokens, greedy, reading counted too; ours on two slots.",
        f"Two streams against one: {gain:.2f} times the tokens a second; llama.cpp ({version}) {peer_gain:.2f} times.",
    )
    return Report("The embedded model under load", (*COLUMNS, "llama.cpp tok/s", "ratio"), table, notes)


@click.command("load")
@click.option("--write", is_flag=True, help="Keep the tables under bench/results/.")
@click.option("--threads", type=int, default=None, help="Threads of each engine.")
@click.option("--rounds", type=int, default=3, show_default=True)
@click.option("--fake-only", is_flag=True, help="Leave out the embedded model.")
def command(write: bool, threads: int | None, rounds: int, fake_only: bool) -> None:
    """Throughput, first tokens, fairness and /health under 1 to 64 streams."""
    console, here = Console(), machine()
    threads = threads or default_threads()
    reports = [fake_report()]
    if not fake_only:
        reports.append(model_report(embedded.find(Settings().state_dir), threads, rounds))
    for report in reports:
        render(report, console)
    if write:
        keep("load", reports, here.lines(threads), RESULTS, here.started.date())
