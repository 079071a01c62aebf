"""Fourteen fixed requests over HTTP, and what a build once answered to them: `recorded.json` (ENG-074).

`python -m tests.service.recorded` records them anew, which is for a change that is meant to move an answer; its diff
shows which. They go to the fake engine, which reads a script out of each, and to a tiny `qwen3_5`, to which that is
text like any other. Of a response are kept status, headers and body, byte for byte but for what differs each time: ids,
the time, the timings and with them the length.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import trio
import trio.testing

from tandem.engine.load import load_engine
from tandem.engine.tiny.kinds import make_tiny
from tests.service.harness import chat, fake, open_harness

__all__ = ["ENGINES", "RECORD", "REQUESTS", "answers", "build_tiny", "masked"]

RECORD = Path(__file__).with_suffix(".json")
ENGINES = ("fake", "qwen3_5")
TOKENS = 10
TABLE = "name,colour\nquince,yellow\nmedlar,brown\nsloe,blue\n"
TOOL = {
    "type": "function",
    "function": {
        "name": "paint",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "blue"]}, "coats": {"enum": [1, 2]}},
            "required": ["colour", "coats"],
        },
    },
}
CALL = (
    "<tool_call>\n<function=paint>\n<parameter=colour>\nred\n</parameter>\n<parameter=coats>\n2\n</parameter>\n"
    "</function>\n</tool_call>"
)


def _say(words: str, question: str = "", **more: Any) -> dict[str, Any]:
    """A greedy request without reasoning, which the fake engine answers with `words`."""
    return {
        **chat(f"{question} {fake(say=words)}".strip()),
        "temperature": 0,
        "max_tokens": TOKENS,
        "chat_template_kwargs": {"enable_thinking": False},
        **more,
    }


def _second_turn() -> dict[str, Any]:
    first = [
        {"role": "system", "content": "You answer in one sentence."},
        {"role": "user", "content": "Which fruit is yellow?"},
        {"role": "assistant", "content": "The quince is."},
    ]
    asked = _say("The sloe is blue.", "And which one is blue?")
    return {**asked, "messages": [*first, *asked["messages"]]}


_WORKLOADS: Mapping[str, dict[str, Any]] = {
    "prose": _say("Once a fox met a crow, naïve and proud.", "Tell me a fable."),
    "code": _say("def twice(x):\n    return 2 * x\n", "Write a function.", stop=["\n\n\n"]),
    "copy": _say(TABLE, f"Repeat this table:\n{TABLE}"),
    "long": _say("Eighty lines.", "\n".join(f"Line {at} of many." for at in range(30))),
    "second turn": _second_turn(),
}
REQUESTS: Mapping[str, dict[str, Any]] = {
    **_WORKLOADS,
    **{f"{name}, streamed": {**asked, "stream": True} for name, asked in _WORKLOADS.items()},
    "thinking": _say(
        "<think>It is a riddle.</think>A coin.",
        "What has a head and a tail?",
        chat_template_kwargs={"enable_thinking": True},
        thinking_budget_tokens=6,
        reasoning_format="reasoning_content",
        max_tokens=40,
    ),
    "tools": _say(CALL, "Paint it.", tools=[TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=200),
    "penalties": _say(
        "a a a b a a b",
        "Say it often.",
        repetition_penalty=1.3,
        presence_penalty=0.5,
        frequency_penalty=0.4,
        no_repeat_ngram_size=2,
    ),
    "seeded": _say("A die, a card, a coin.", "Draw one.", temperature=0.9, top_p=0.9, seed=7, n=2),
}

_MASKED = (
    (re.compile(r'"id":"(chatcmpl|call)[^"]*"'), r'"id":"\1"'),
    (re.compile(r'"created":\d+'), '"created":0'),
    (re.compile(r'"timings":\{[^}]*\}'), '"timings":{}'),
    (re.compile(r'"(x-request-id|content-length)": "[^"]*"'), r'"\1": ""'),
)


def build_tiny(folder: Path) -> Path:
    return make_tiny("qwen3_5", folder / "tiny")


def masked(text: str) -> str:
    """The text without what differs each time."""
    for pattern, instead in _MASKED:
        text = pattern.sub(instead, text)
    return text


async def answers(
    engine: str,
    checkpoint: Path,
    *,
    headers: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, list[str]]:
    """Of each request, in their order and to one service: status, headers and the lines of the body, masked.

    `headers` are sent with all of them; `options` are those of `load_engine`.
    """
    served: Any = None
    if engine != "fake":
        served = load_engine(checkpoint, cpu_weights="fp32", max_len=1_024, grid=32, **options)
        served.take_elapsed = lambda: 0.0  # under the mock clock it takes no time
    found = {}
    async with open_harness(engine=served, **(settings or {})) as harness:
        for name, asked in REQUESTS.items():
            call = await harness.client.send("/v1/chat/completions", asked, headers=headers)
            whole = f"{call.status}\n{json.dumps(dict(sorted(call.headers.items())))}\n{call.body.decode()}"
            found[name] = masked(whole).split("\n")
    return found


def _main() -> None:
    torch.set_num_threads(1)
    record = {}
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = build_tiny(Path(folder))
        for engine in ENGINES:
            clock = trio.testing.MockClock(autojump_threshold=0)
            record[engine] = trio.run(answers, engine, checkpoint, clock=clock)
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _main()
