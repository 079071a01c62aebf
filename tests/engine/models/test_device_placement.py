"""Every tensor of a pass lies where its model does. On `meta`, where tensors have a place and a type but no numbers, an
operation over two places fails as it does with a GPU, which is not to be had here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from tandem.engine.kernels.choice import Choice, choose
from tandem.engine.kernels.delta import DeltaRecords
from tandem.engine.kernels.trees import chain
from tandem.engine.models.model import Sight
from tandem.engine.models.placement import Placement
from tandem.engine.models.recurrent import LayerMemory, Recurrent
from tests.engine.kernels.running import tensors_of
from tests.engine.models.device import device_model
from tests.engine.models.hybrid import tiny_hybrid

META = Placement(torch.device("meta"), torch.bfloat16, torch.bfloat16)


def attention(q: Tensor, keys: Tensor, values: Tensor, base: Tensor, parents: Tensor, limit: int) -> Tensor:
    assert all(each.is_meta for each in (q, keys, values, base, parents))
    return torch.empty_like(q)


def commit(state: Tensor, records: Tensor | DeltaRecords, path: Tensor) -> Tensor:
    assert all(each.is_meta for each in (state, path, *tensors_of(records)))
    return torch.empty_like(state)


WITH_NUMBERS = {"decode_attention": attention, "delta_commit": commit, "conv_commit": commit}
"""Twins that look at numbers have these in their places."""


def placed_choice(op: str, device: torch.device | str, sizes: Mapping[str, int]) -> Choice:
    run: Any = WITH_NUMBERS.get(op, choose(op, "cpu", sizes).run)
    return Choice(op, "torch", "", run)


@pytest.mark.spec("ENG-016")
@torch.inference_mode()
def test_a_chunk_a_step_and_a_verify_touch_nothing_elsewhere() -> None:
    made = tiny_hybrid(tied=False)
    model = device_model(made.config, made.tensors, META, choose=placed_choice)
    state = model.new_state(128)
    at, hidden = 0, []
    for rows in (70, 5, 1, 1):
        hidden.append(model.forward(torch.arange(rows), at, state))
        at += rows
    sight = Sight(torch.zeros(2, 64), torch.tensor([1, 2]), torch.arange(at, at + 4).expand(3, 4))
    hidden.append(model.forward_seen(torch.arange(4), at, state, sight))
    at += 4
    for parents in (torch.tensor([-1, 0, 0]), chain(3)):
        hidden.append(model.verify(torch.arange(3), parents, at, state))
        state.commit([0, 2] if parents[2] == 0 else [0, 1])
        at += 2
    state.load(state.copy(at))
    elsewhere = tuple(
        LayerMemory(*(torch.zeros_like(each, device="cpu") for each in layer)) for layer in state.keep().layers
    )
    state.put_back(Recurrent(at, elsewhere))
    hidden.append(model.forward(torch.arange(1), at, state))
    at += 1
    assert all(each.is_meta and each.dtype == torch.bfloat16 for each in hidden)
    kept = state.keep()
    assert kept.row == at
    assert {each.dtype for layer in kept.layers for each in layer} == {torch.float32, torch.bfloat16}
    assert all(each.is_meta for layer in kept.layers for each in layer)
