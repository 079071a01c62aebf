"""`python -m bench smoke`: whether a running server answers as it should, in a few seconds, and how fast it says it is.

    python -m bench smoke --url http://127.0.0.1:8000 [--key KEY] [--x-tandem raw]

With `--x-tandem raw` the figures are the engine's own, whatever profile would have answered (PRF-024).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import click
from rich.console import Console

from bench.conductor.remote import post
from tandem.bench.report import Report, render
from tandem.bench.subject import BenchError

__all__ = ["MODES", "command", "smoke"]

MODES = ("raw", "shadow", "on")
TOKENS = 16
TOOL = {"type": "function", "function": {"name": "noop", "description": "Does nothing.", "parameters": {}}}
CASES: Mapping[str, dict[str, Any]] = {
    "chat": {},
    "chat again": {},
    "thinking off": {"chat_template_kwargs": {"enable_thinking": False}},
    "tools": {"tools": [TOOL]},
}
Send: TypeAlias = Callable[[str, "str | None", dict[str, Any], dict[str, str]], dict[str, Any]]


def smoke(url: str, key: str | None = None, mode: str | None = None, *, send: Send = post) -> Report:
    """One request of each kind; raises `BenchError` for one that is not answered, or not as it should be."""
    address, headers = f"{url.rstrip('/')}/v1/chat/completions", {} if mode is None else {"X-Tandem": mode}
    rows = []
    for name, fields in CASES.items():
        body = {"model": "TandemLLM", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": TOKENS}
        told = send(address, key, {**body, "temperature": 0, **fields}, headers)
        rows.append((name, *_figures(name, told)))
    return Report(
        f"{url}, X-Tandem {mode or 'not sent'}",
        ("request", "finish", "prompt", "cached", "hidden", "written", "tok/s"),
        tuple(rows),
        ()
        if mode == "raw"
        else ("not the engine's own figures: a profile may have answered; --x-tandem raw has them",),
    )


def _figures(name: str, told: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        choice, usage = told["choices"][0], told["usage"]
        details = usage.get("prompt_tokens_details") or {}
        rate = (told.get("timings") or {}).get("predicted_per_second")
        counts = (
            usage["prompt_tokens"],
            details.get("cached_tokens", 0),
            details.get("hidden_tokens", 0),
            usage["completion_tokens"],
        )
    except (KeyError, IndexError, TypeError) as error:
        raise BenchError(f"{name}: the answer lacks {error}") from None
    if choice["finish_reason"] not in ("stop", "length", "tool_calls"):
        raise BenchError(f"{name}: it ended with {choice['finish_reason']}")
    return (choice["finish_reason"], *(f"{count:,}" for count in counts), "-" if rate is None else f"{rate:.1f}")


@click.command()
@click.option("--url", required=True, help="A server that is running.")
@click.option("--key", envvar="TANDEM_BENCH_KEY", help="Its key.")
@click.option(
    "--x-tandem", "mode", type=click.Choice(MODES), help="The request mode to ask for; raw: the engine alone."
)
def command(url: str, key: str | None, mode: str | None) -> None:
    """Ask a running server one thing of each kind. Ends with 1 where an answer is not as it should be."""
    try:
        table = smoke(url, key, mode)
    except BenchError as error:
        raise click.ClickException(str(error)) from None
    render(table, Console())
