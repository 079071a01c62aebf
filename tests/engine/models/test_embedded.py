"""The embedded model against `transformers` on the same dequantised weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tandem.engine.decoding.torch_engine import TorchEngine
from tests.engine.decoding.engines import kept_row, read, rounds

SENTENCES = (
    "The capital of France is",
    "def fibonacci(n):\n    if n < 2:\n",
    "Once upon a time, in a small village by the sea,",
    "Water boils at a temperature of",
    "To make a good cup of tea, first",
    "The three laws of thermodynamics are",
    "Dear Sir or Madam,\n\nI am writing to",
    "import numpy as np\n\ndef softmax(x):",
    "List of planets in order from the sun: Mercury,",
    "The French Revolution began in",
    "A good way to learn a language is",
    "SELECT name, age FROM users WHERE",
    "In mathematics, a prime number is",
    "The recipe calls for two cups of flour,",
    "Q: Why is the sky blue?\nA:",
    "She opened the door and saw",
    "Photosynthesis is the process by which",
    "The stock market fell sharply today after",
    "#include <stdio.h>\n\nint main(void) {",
    "My favourite book is",
)
LOGITS_ATOL = 1e-3
"""Over thirty layers; the logits are of the order of twenty."""


def check_greedy(engine: TorchEngine, oracle: Any, prompt: str, count: int) -> None:
    ids = engine.text.encode(prompt)
    seq = read(engine, ids)
    try:
        written = rounds(engine, seq, count)
    finally:
        engine.close(seq)
    batch = torch.tensor([ids])
    with torch.inference_mode():
        [text] = oracle.generate(
            batch, attention_mask=torch.ones_like(batch), max_new_tokens=count, do_sample=False, eos_token_id=None
        )
    assert written == text[len(ids) :].tolist()


@pytest.mark.spec("ENG-005")
def test_logits_equal_the_reference(embedded_engine: TorchEngine, embedded_oracle: Any) -> None:
    ids = embedded_engine.text.encode(" ".join(SENTENCES[:8]))
    seq = read(embedded_engine, ids)
    row = kept_row(embedded_engine, seq)
    embedded_engine.close(seq)
    with torch.inference_mode():
        theirs = embedded_oracle(torch.tensor([ids])).logits[0, -1]
    assert (row - theirs).abs().max() < LOGITS_ATOL


@pytest.mark.spec("ENG-005")
@pytest.mark.parametrize("prompt", SENTENCES[:3])
def test_greedy_text_equals_the_reference(embedded_engine: TorchEngine, embedded_oracle: Any, prompt: str) -> None:
    check_greedy(embedded_engine, embedded_oracle, prompt, 16)


@pytest.mark.slow
@pytest.mark.spec("ENG-005")
@pytest.mark.parametrize("prompt", SENTENCES)
def test_long_greedy_text_equals_the_reference(embedded_engine: TorchEngine, embedded_oracle: Any, prompt: str) -> None:
    check_greedy(embedded_engine, embedded_oracle, prompt, 64)


def test_a_load_reports_itself(embedded_engine: TorchEngine) -> None:
    card = embedded_engine.card
    assert card.architecture == "llama"
    assert (card.max_len, card.vocab_size, card.anchor_grid) == (512, 49_152, 1_024)
    assert card.weights["formats"] == {"Q4_1": 210, "F32": 61, "Q8_0": 1}
    assert card.weights["self_check"] == "ok"
    assert embedded_engine.cost()["bytes_per_token"] == 30 * 2 * 3 * 64 * 4
