"""The class question inside a conversation on a real model with its caches: the turn behind it (RTR-020)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import trio.testing

from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.work import Ended, perform
from tandem.engine.load import load_engine
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.tiny.kinds import make_tiny
from tandem.engine.verbs import SamplingRules
from tests.service.test_inside import open_inside
from tests.service.test_plan import CHAT, decisions

GRID = 32
TAIL = 16
"""Rows of the turn's end and of the answer's head."""


@pytest.mark.spec("RTR-020", "RTR-021", "NOTE-002")
async def test_on_a_real_model_the_turn_is_what_it_is_unasked_and_goes_on_behind_the_question(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """Turn by turn the same prompt is written alike by an engine without caches, whom nobody has asked."""
    checkpoint = make_tiny("qwen3_5", tmp_path / "tiny")
    seen = Seen(checkpoint)
    messages: list[dict[str, str]] = []
    turns: list[tuple[Prompt, list[torch.Tensor], dict[str, Any]]] = []
    async with open_inside(tmp_path / "config", seen.engine) as harness:
        for words in ("Tell me of the fox. " * 8, "And of the crow?", "Go on."):
            messages.append({"role": "user", "content": words})
            body = {"messages": messages, "max_tokens": 6, "temperature": 0}
            seen.rows.clear()
            call = await harness.client.send(CHAT, {**body, "chat_template_kwargs": {"enable_thinking": False}})
            assert call.status == 200, call.body
            turns.append((seen.opened[-1].prompt, list(seen.rows), call.json["timings"]))
            messages.append({"role": "assistant", "content": call.text})
        rows = await decisions(harness)
    assert [seq.prompt.asks for seq in seen.opened] == [True, False, True, False, True, False]
    assert [row["detail"]["stages"][0]["stage"] for row in rows] == ["engine", "engine_context", "engine_context"]
    for (prompt, _, timings), row in zip(turns[1:], rows[1:], strict=True):
        stage = row["detail"]["stages"][0]
        assert stage.get("error") is None
        assert stage["reused"] > 0, "the question goes on from the turn before"
        note = sum(each["tokens"] for each in row["detail"].get("notes", ()) if each["kind"] == "new")
        assert len(prompt.ids) - timings["cache_n"] <= GRID + note + TAIL
    for prompt, kept, _ in turns[1:]:
        cold = Seen(checkpoint)
        cold.write(prompt, 6)
        assert len(cold.rows) == len(kept)
        assert all(torch.equal(one, other) for one, other in zip(cold.rows, kept, strict=True))


class Seen:
    """A tiny engine that keeps the sequences it opens and the rows that tokens are taken from."""

    def __init__(self, checkpoint: Path) -> None:
        engine: Any = load_engine(checkpoint, cpu_weights="fp32", max_len=4_096, grid=GRID)
        engine.take_elapsed = lambda: 0.0  # under the mock clock it takes no time
        self.engine = engine
        self.opened: list[Any] = []
        self.rows: list[torch.Tensor] = []
        self._open, self._accept = self.engine.open, self.engine.accept
        self.engine.open, self.engine.accept = self.open, self.accept

    def open(self, prompt: Prompt) -> Any:
        self.opened.append(self._open(prompt))
        return self.opened[-1]

    def accept(self, seq: Any, rows: Any, rules: Any) -> Any:
        if not seq.prompt.asks:
            self.rows.append(rows.logits.clone())
        return self._accept(seq, rows, rules)

    def write(self, prompt: Prompt, limit: int) -> None:
        """As the slot does."""
        text = self.engine.text
        generation = Generation(
            prompt,
            SamplingRules(),
            limit=limit,
            reader=PlainReader(text),
            end_ids=text.end_ids,
            grid=GRID,
            arrived_at=0,
        )
        generation.start(0)
        seq = self.engine.open(prompt)
        while not isinstance(work := generation.next(), Ended):
            generation.feed(perform(self.engine, seq, work, generation.rules), 0)
        self.engine.close(seq)
