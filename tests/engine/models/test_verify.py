"""A verify of a tree of drafts and what becomes of it, on the state of both kinds of model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tandem.engine.kernels.trees import chain, lineage
from tandem.engine.models.model import Model
from tandem.engine.models.state import State
from tests.engine.models.hybrid import tiny_hybrid
from tests.engine.models.memory import VOCAB, tiny_llama

PREFIX = torch.randint(VOCAB, (40,), generator=torch.Generator().manual_seed(1))
NEAR = 1e-4
LOGITS_RTOL = 1e-5
"""Of ENG-057: between two rows of logits, as a share of their norm."""
WINDOW = 128


MODELS: dict[str, Callable[[], Model]] = {
    "llama": lambda: tiny_llama().model,
    "qwen3_5": lambda: tiny_hybrid().model,
    "narrow convolution": lambda: tiny_hybrid(1, linear_conv_kernel_dim=2, linear_num_key_heads=4).model,
}


@pytest.fixture(params=list(MODELS), scope="module")
def model(request: pytest.FixtureRequest) -> Iterator[Model]:
    with torch.inference_mode():
        yield MODELS[request.param]()


def read(model: Model, ids: Tensor = PREFIX) -> State:
    state = model.new_state(WINDOW)
    model.forward(ids, 0, state)
    return state


def contents(state: State, length: int) -> list[Tensor]:
    """What a state holds of a sequence; a pending commit is settled."""
    copy = state.copy(length)
    return [copy.rows.keys, copy.rows.values, *(each for layer in copy.recurrent.layers for each in layer)]


def near(one: list[Tensor], other: list[Tensor]) -> bool:
    return all((a - b).abs().max() < NEAR for a, b in zip(one, other, strict=True))


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def ids_of(count: int, seed: int) -> Tensor:
    return torch.randint(VOCAB, (count,), generator=torch.Generator().manual_seed(seed))


trees = st.integers(1, 12).flatmap(
    lambda rows: st.tuples(*(st.integers(-1, at - 1) for at in range(rows))).map(lambda ways: torch.tensor(ways))
)


@pytest.mark.spec("ENG-057")
@given(parents=trees, seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_each_row_of_a_tree_is_that_of_a_plain_run_down_its_path(model: Model, parents: Tensor, seed: int) -> None:
    ids, state = ids_of(len(parents), seed), read(model)
    before = contents(state, 40)
    hidden = model.verify(ids, parents, 40, state)
    for node in range(len(parents)):
        path = lineage(parents, node)
        plain = model.logits(model.forward(ids[path], 40, read(model)))
        assert ((model.logits(hidden[path]) - plain).norm(dim=-1) < LOGITS_RTOL * plain.norm(dim=-1)).all()
    assert equal(contents(state, 40), before), "a verify that nobody accepts leaves no trace"


@pytest.mark.spec("ENG-039", "ENG-058")
@given(parents=trees, seed=st.integers(0, 99), data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_committed_path_is_a_plain_run_of_its_ids(
    model: Model, parents: Tensor, seed: int, data: st.DataObject
) -> None:
    ids, state = ids_of(len(parents), seed), read(model)
    model.verify(ids, parents, 40, state)
    path = lineage(parents, data.draw(st.integers(0, len(parents) - 1)))
    count = data.draw(st.integers(0, len(path)))
    state.commit(path)
    state.trim(count)
    if data.draw(st.booleans()):
        state.settle()
        state.settle()
    plain = read(model)
    for at, token in enumerate(ids[path[:count]]):
        model.forward(token[None], 40 + at, plain)
    follow, length = ids_of(1, seed + 1), 40 + count
    assert (model.forward(follow, length, state) - model.forward(follow, length, plain)).abs().max() < NEAR
    assert near(contents(state, length + 1), contents(plain, length + 1))


@pytest.mark.spec("ENG-039")
def test_trimmed_is_committed_short_and_discarded_is_never_verified(model: Model) -> None:
    ids, parents = ids_of(6, 3), torch.tensor([-1, 0, 1, 1, 0, 2])
    short, trimmed, discarded = (read(model) for _ in range(3))
    for state in (short, trimmed, discarded):
        model.verify(ids, parents, 40, state)
    short.commit([0, 1])
    trimmed.commit([0, 1, 3])
    trimmed.trim(2)
    discarded.commit([0, 1, 3])
    discarded.discard()
    assert equal(contents(short, 42), contents(trimmed, 42))
    assert equal(contents(discarded, 40), contents(read(model), 40))
    with pytest.raises(RuntimeError, match="no verify"):
        discarded.commit([0])


@pytest.mark.spec("ENG-039", "ENG-041")
def test_a_point_kept_behind_a_pending_commit_holds_it(model: Model) -> None:
    state, ids = read(model), ids_of(5, 4)
    model.verify(ids, chain(5), 40, state)
    state.commit([0, 1, 2])
    copy, kept = state.copy(43), state.keep()
    wanted = model.forward(ids[3:], 43, state)
    state.put_back(kept)
    assert torch.equal(model.forward(ids[3:], 43, state), wanted)
    state.load(copy)
    assert torch.equal(model.forward(ids[3:], 43, state), wanted)


@pytest.mark.spec("ENG-039")
def test_a_copy_holds_the_rows_of_a_pending_path(model: Model) -> None:
    ids, parents = ids_of(6, 3), torch.tensor([-1, 0, 0, 2, 0, 2])
    copied, settled = read(model), read(model)
    for state in (copied, settled):
        model.verify(ids, parents, 40, state)
        state.commit([0, 2, 5])
    settled.settle()
    assert equal(contents(copied, 43), contents(settled, 43))


def test_rounds_of_verifies_give_the_text_of_single_steps(model: Model) -> None:
    """Drafts that are right for a while: the walk takes what the model says and leaves the rest."""
    plain, state = read(model), read(model)
    token, at, text = PREFIX[-1:], 40, []
    hidden = model.forward(token, at, plain)
    for step in range(24):
        text.append(int(model.logits(hidden[-1:]).argmax()))
        hidden = model.forward(torch.tensor(text[-1:]), at + 1 + step, plain)
    out: list[int] = []
    newest = int(PREFIX[-1])
    while len(out) < 20:
        wrong = (text[len(out) + 2] + 1) % VOCAB
        drafts = torch.tensor([newest, text[len(out)], text[len(out) + 1], wrong])
        chosen = model.logits(model.verify(drafts, chain(4), 40 + len(out), state)).argmax(dim=-1).tolist()
        assert chosen[:3] == text[len(out) : len(out) + 3]
        state.commit([0, 1, 2])
        out += chosen[:3]
        newest = out[-1]
    assert out == text[: len(out)]
