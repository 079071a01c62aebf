"""The gated delta rule: twins against fp64, kernels against twins, and what holds between its forms."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from tandem.engine.kernels.delta import delta_chunk, delta_commit, delta_step, delta_verify
from tandem.engine.kernels.trees import chain, lineage
from tests.engine.kernels import oracle
from tests.engine.kernels.running import Way, close
from tests.engine.kernels.samples import delta_rows, parents_of, random_state, trees

BOUND = 1e-5
TREE = parents_of(-1, 0, 0, 1, 1, 2, 3, 3, 6, -1, 9)


@pytest.mark.spec("ENG-007", "ENG-028")
@pytest.mark.parametrize(("heads", "key_heads"), [(2, 1), (2, 2)])
def test_step(way: Way, heads: int, key_heads: int) -> None:
    rows = delta_rows(1, heads=heads, key_heads=key_heads)
    way.agrees("delta_step", (*rows.at(0), random_state(heads)), oracle.step, BOUND)


@pytest.mark.spec("ENG-007", "ENG-028")
def test_a_step_in_bf16(way: Way) -> None:
    q, k, v, g, beta = (each[0] for each in delta_rows(1))
    q, k, v, beta = (each.bfloat16() for each in (q, k, v, beta))
    out, new = way.agrees("delta_step", (q, k, v, g, beta, random_state()), oracle.step, 5e-3)
    assert (out.dtype, new.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.spec("ENG-007", "ENG-028")
@pytest.mark.parametrize("count", [1, 70])
def test_chunk(way: Way, count: int) -> None:
    way.agrees("delta_chunk", (*delta_rows(count), random_state()), oracle.chunk, BOUND)


@pytest.mark.spec("ENG-007", "ENG-028")
def test_a_chunk_of_rows_that_are_apart(way: Way) -> None:
    """Queries, keys and values as views of one projection, as a model has them."""
    q, k, v, g, beta = delta_rows(5)
    joined = torch.cat([each.flatten(1) for each in (q, k, v)], dim=1)
    parts = torch.split(joined, [16, 16, 64], dim=1)
    views = [part.view(5, *each.shape[1:]) for part, each in zip(parts, (q, k, v), strict=True)]
    way.agrees("delta_chunk", (*views, g, beta, random_state()), oracle.chunk, BOUND)


@pytest.mark.spec("ENG-028", "ENG-057")
@pytest.mark.parametrize("count", [1, 4, 19])
def test_verify_of_a_chain(way: Way, count: int) -> None:
    way.agrees("delta_verify_chain", (*delta_rows(count), random_state(), chain(count)), oracle.verify, BOUND)


@pytest.mark.spec("ENG-028", "ENG-057")
def test_verify_of_a_tree(way: Way) -> None:
    state = random_state()
    kept = state.clone()
    way.agrees("delta_verify_tree", (*delta_rows(len(TREE)), state, TREE), oracle.verify, BOUND)
    assert torch.equal(state, kept)


@pytest.mark.spec("ENG-028", "ENG-058")
@pytest.mark.parametrize("path", [[], [0], [0, 1, 3, 6, 8], [9, 10, -1, -1]])
def test_commit(way: Way, path: list[int]) -> None:
    state = random_state()
    _, records = delta_verify(*delta_rows(len(TREE)), state, TREE)
    rows = torch.tensor(path, dtype=torch.int32)
    way.agrees("delta_commit", (state, records, rows), oracle.commit, BOUND)


@pytest.mark.spec("ENG-058")
def test_a_kernel_writes_a_state_in_place(kernel: Way) -> None:
    state, rows = random_state().to(kernel.device), delta_rows(3)
    old = state.cpu().clone()
    _, records = delta_verify(*rows, old, chain(3))
    path, on = torch.tensor([0, 1]), kernel.device
    given = type(records)(records.keys.to(on), records.values.to(on), records.gates.to(on))
    assert kernel.function("delta_commit")(state, given, path.to(on), new=state) is state
    assert close(state.cpu(), delta_commit(old, records, path), BOUND)
    kernel.function("delta_step")(*(each.to(on) for each in rows.at(2)), state, new=state)
    assert close(state.cpu(), delta_chunk(*rows, old)[1], BOUND)


@given(trees())
@settings(max_examples=25)
@pytest.mark.spec("ENG-057", "ENG-058")
def test_every_node_and_every_commit_is_a_plain_run_down_its_path(parents: Tensor) -> None:
    rows, state = delta_rows(len(parents), heads=1, dv=16), random_state(1, dv=16)
    out, records = delta_verify(*rows, state, parents)
    for node in range(len(parents)):
        path = torch.tensor(lineage(parents, node))
        plain, after = delta_chunk(*rows.at(path), state)
        assert close(out[node], plain[-1], BOUND)
        assert close(delta_commit(state, records, path), after, BOUND)


@pytest.mark.spec("ENG-058")
def test_a_chain_is_rolled_back_to_any_of_its_rows() -> None:
    rows, state = delta_rows(12), random_state()
    _, records = delta_verify(*rows, state, chain(12))
    for count in range(13):
        stood = delta_commit(state, records, torch.arange(count))
        assert close(stood, delta_chunk(*rows.at(slice(count)), state)[1], BOUND)


@pytest.mark.spec("ENG-007")
@pytest.mark.parametrize("strength", [0.01, 2.0, 60.0])
def test_the_chunked_form_ends_where_the_steps_do(strength: float) -> None:
    rows, state = delta_rows(300, strength=strength), random_state()
    after = state
    for row in range(300):
        _, after = delta_step(*rows.at(row), after)
    _, chunked = delta_chunk(*rows, state)
    assert (chunked - after).norm() <= 1e-5 * after.norm(), "the requirement is 1e-4"


@pytest.mark.spec("ENG-007", "ENG-035")
def test_a_row_of_a_chunk_depends_on_no_later_row(way: Way) -> None:
    rows, state = delta_rows(130 if way.is_twin else 80, heads=1, dv=16), random_state(1, dv=16)
    whole, end = way.run("delta_chunk", *rows, state)
    for count in (1, 63, 64, 65) if way.is_twin else (70,):
        out, _ = way.run("delta_chunk", *rows.at(slice(count)), state)
        assert torch.equal(out, whole[:count])
    _, middle = way.run("delta_chunk", *rows.at(slice(64)), state)
    rest, after = way.run("delta_chunk", *rows.at(slice(64, None)), middle)
    assert torch.equal(rest, whole[64:])
    assert torch.equal(after, end), "a prefill that is cut on the grid ends in the same bits"


def test_no_rows_are_no_change(way: Way) -> None:
    state = random_state()
    out, new = way.run("delta_chunk", *delta_rows(0), state)
    assert out.shape == (0, 2, 32)
    assert torch.equal(new, state)
    assert new.data_ptr() != state.data_ptr()


@pytest.mark.spec("ENG-007")
def test_the_reference_agrees() -> None:
    from transformers.models.qwen3_5.modeling_qwen3_5 import torch_chunk_gated_delta_rule  # takes seconds

    rows, state = delta_rows(100, heads=4, key_heads=2), random_state(4)
    q, k, v, g, beta = (each[None] for each in rows)
    theirs, end = torch_chunk_gated_delta_rule(
        q, k, v, g, beta, initial_state=state[None], output_final_state=True, use_qk_l2norm_in_kernel=True
    )
    ours, new = delta_chunk(*rows, state)
    assert close(ours, theirs[0], BOUND)
    assert close(new, end[0], BOUND)
