"""The table of rotations: made as far as positions are asked for, the same bits however it grew."""

from __future__ import annotations

import pytest
import torch

from tandem.engine.models.rotary import Turns, inverse_frequencies
from tests.engine.models.hybrid import tiny_hybrid
from tests.engine.models.memory import tiny_llama


@pytest.mark.parametrize("pairs", [4, 32, 64])
@pytest.mark.parametrize("ends", [[10_000], [1, 4096, 4097, 9000, 10_000], [7000, 10, 10_000]], ids=str)
def test_how_it_grew_changes_no_bit(pairs: int, ends: list[int]) -> None:
    frequencies = inverse_frequencies(2 * pairs, 1e7, {})
    turns = Turns(frequencies)
    for end in ends:
        assert turns.upto(end).shape[0] >= end
    angles = torch.arange(10_000, dtype=torch.float32)[:, None] * frequencies
    whole = torch.complex(angles.cos(), angles.sin())[:, None]
    assert torch.equal(torch.view_as_real(turns.upto(10_000)[:10_000]), torch.view_as_real(whole))


def test_a_load_makes_none_of_it_and_a_prompt_its_own_part() -> None:
    for model in (tiny_llama().model, tiny_hybrid(max_position_embeddings=262_144).model):
        assert model._turns.upto(0).nbytes == 0
        with torch.inference_mode():
            model.forward(torch.arange(40), 0, model.new_state(64))
        assert model._turns.upto(0).shape[0] == 4096
