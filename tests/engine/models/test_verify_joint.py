"""Trees of several sequences in one pass: each row is that of its sequence alone, and so is what becomes of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tandem.engine.kernels.trees import ROWS, chain, lineage
from tandem.engine.models.digits import DigitMatrix
from tandem.engine.models.llama import LlamaModel, load_llama
from tandem.engine.models.matrix import DenseMatrix
from tandem.engine.models.model import Drafts, JointModel
from tandem.engine.models.qwen3_5 import Qwen35Model
from tests.engine.models.hybrid import tiny_hybrid
from tests.engine.models.memory import VOCAB, MemoryWeights, quiet, tiny_llama, tiny_spec
from tests.engine.models.test_verify import LOGITS_RTOL, WINDOW, contents, equal, ids_of, near, trees
from tests.tiny import llama_config, llama_tensors

MODELS: dict[str, Callable[[], JointModel]] = {
    "llama": lambda: tiny_llama().model,
    "qwen3_5": lambda: tiny_hybrid().model,
    "narrow convolution": lambda: tiny_hybrid(1, linear_conv_kernel_dim=2, linear_num_key_heads=4).model,
}


BUSHY = torch.tensor([-1, *((at - 1) // 2 for at in range(1, ROWS))])
SHAPES = [chain(1), torch.tensor([-1, 0, 0, 1, 3]), chain(ROWS), BUSHY]


@pytest.fixture(params=list(MODELS), scope="module")
def model(request: pytest.FixtureRequest) -> Iterator[JointModel]:
    with torch.inference_mode():
        yield MODELS[request.param]()


def wide_llama() -> LlamaModel:
    sizes: dict[str, Any] = {
        "hidden_size": 1024,
        "intermediate_size": 1024,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
    }
    config = llama_config(VOCAB, head_dim=64, num_hidden_layers=1, **sizes)
    canonical = {name.removeprefix("model."): tensor for name, tensor in llama_tensors(config).items()}
    return load_llama(tiny_spec(config), MemoryWeights(canonical), quiet, "int8")


def wide_hybrid() -> Qwen35Model:
    sizes: dict[str, Any] = {"hidden_size": 1024, "intermediate_size": 1024, "head_dim": 64, "num_attention_heads": 16}
    sizes |= {"num_key_value_heads": 4, "linear_num_key_heads": 4, "linear_num_value_heads": 16}
    sizes |= {"linear_key_head_dim": 64, "linear_value_head_dim": 64, "num_hidden_layers": 2}
    return tiny_hybrid(cpu_weights="int8", layer_types=["linear_attention", "full_attention"], **sizes).model


def sequences(model: JointModel, parents: Sequence[Tensor], seed: int = 0) -> list[Drafts]:
    """A tree for each of so many sequences, which have prompts of different lengths."""
    made = []
    for at, each in enumerate(parents):
        state, start = model.new_state(WINDOW), 40 - 9 * at
        model.forward(ids_of(start, seed + at), 0, state)
        made.append(Drafts(ids_of(len(each), 100 + seed + at), each, start, state))
    return made


def alone(model: JointModel, drafts: Sequence[Drafts]) -> list[Tensor]:
    return [model.verify(*each) for each in drafts]


def apart(hidden: Tensor, drafts: Sequence[Drafts]) -> Sequence[Tensor]:
    return torch.split_with_sizes(hidden, [len(each.ids) for each in drafts])


def deepest(parents: Tensor) -> list[int]:
    return max((lineage(parents, node) for node in range(len(parents))), key=len)


def go_on(model: JointModel, each: Drafts) -> tuple[Tensor, list[Tensor]]:
    """The longest path is taken and a token read behind it: its hidden state, and what the sequence holds then."""
    path = deepest(each.parents)
    each.state.commit(path)
    hidden = model.forward(ids_of(1, 7), end := each.start + len(path), each.state)
    return hidden, contents(each.state, end + 1)


@pytest.mark.spec("ENG-162")
@given(parents=st.lists(trees, min_size=1, max_size=4), seed=st.integers(0, 99))
@settings(max_examples=12, deadline=None)
def test_rows_and_commits_of_a_joint_pass_are_those_of_each_sequence_alone(
    model: JointModel, parents: list[Tensor], seed: int
) -> None:
    ours, theirs = sequences(model, parents, seed), sequences(model, parents, seed)
    logits = model.logits(model.verify_joint(ours))
    for rows, lone in zip(apart(logits, ours), alone(model, theirs), strict=True):
        expected = model.logits(lone)
        assert ((rows - expected).norm(dim=-1) < LOGITS_RTOL * expected.norm(dim=-1)).all()
    for one, other in zip(ours, theirs, strict=True):
        (hidden, held), (expected, holds) = go_on(model, one), go_on(model, other)
        assert near([hidden, *held], [expected, *holds])


@pytest.mark.spec("ENG-162")
def test_a_joint_pass_that_nobody_accepts_leaves_no_trace(model: JointModel) -> None:
    drafts, untouched = sequences(model, SHAPES), sequences(model, SHAPES)
    model.verify_joint(drafts)
    for one, other in zip(drafts, untouched, strict=True):
        assert equal(contents(one.state, one.start), contents(other.state, one.start))


@pytest.mark.skipif(not DigitMatrix.takes((1024, 1024)), reason="oneDNN's integer kernels do not serve this CPU")
@pytest.mark.spec("ENG-162")
@pytest.mark.parametrize("make", [wide_llama, wide_hybrid], ids=["llama", "qwen3_5"])
@torch.inference_mode()
def test_they_are_so_bit_for_bit_where_matrices_do_not_mix_rows(make: Callable[[], LlamaModel | Qwen35Model]) -> None:
    """Up to 32 rows a sequence, single ones among them."""
    model = make()
    assert all(isinstance(matrix, DigitMatrix) for matrix in model._matrices() if min(matrix.shape) >= 1024)
    ours, theirs = sequences(model, SHAPES), sequences(model, SHAPES)
    assert equal(list(apart(model.verify_joint(ours), ours)), alone(model, theirs))
    for one, other in zip(ours, theirs, strict=True):
        (hidden, held), (expected, holds) = go_on(model, one), go_on(model, other)
        assert equal([hidden, *held], [expected, *holds])


@pytest.mark.spec("ENG-162")
def test_large_matrices_are_read_once_for_all_rows(model: JointModel, monkeypatch: pytest.MonkeyPatch) -> None:
    drafts, reads = sequences(model, [chain(3), chain(1), chain(5)]), defaultdict[DenseMatrix, list[int]](list)
    product = DenseMatrix.__call__

    def counted(matrix: DenseMatrix, x: Tensor) -> Tensor:
        reads[matrix].append(len(x))
        return product(matrix, x)

    monkeypatch.setattr(DenseMatrix, "__call__", counted)
    model.logits(model.verify_joint(drafts))
    rates = 2 * model.config.linear_num_value_heads  # features of the small matrix that goes with the recurrence
    assert len(reads) == sum(model.formats.values())
    assert all(rows == [9] or (matrix.shape[0] == rates and rows == [3, 1, 5]) for matrix, rows in reads.items())


def test_a_pass_that_fails_leaves_every_sequence_as_it_is(model: JointModel) -> None:
    drafts = sequences(model, [chain(3), chain(2)])
    before = [contents(each.state, each.start) for each in drafts]
    broken = drafts[1]._replace(ids=torch.tensor([1, VOCAB]))
    with pytest.raises(IndexError):
        model.verify_joint([drafts[0], broken])
    for each, held in zip(drafts, before, strict=True):
        assert equal(contents(each.state, each.start), held)
        with pytest.raises(RuntimeError, match="no verify"):
            each.state.commit([0])
