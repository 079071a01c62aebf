"""The device forward of Qwen3.5 against the CPU's, by twins and by interpreted kernels, and what holds within it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tandem.engine.kernels.trees import chain, lineage
from tandem.engine.models.model import Sight
from tandem.engine.models.placement import CPU
from tandem.engine.models.qwen3_5 import DeviceQwen35
from tests.engine.kernels.running import absence
from tests.engine.models.device import NARROW, device_model, interpreted, replayed, teacher_forced
from tests.engine.models.hybrid import TinyHybrid, tiny_hybrid
from tests.engine.models.memory import VOCAB

PROMPT = 70
IDS = torch.randint(VOCAB, (PROMPT + 10,), generator=torch.Generator().manual_seed(7))
TREE = torch.tensor([-1, 0, 0, 1, 1, 2, 3, 3])
SMALL_TREE = torch.tensor([-1, 0, 0, 2])


@cache
def tiny(layers: int = 4) -> TinyHybrid:
    """The last layer is one of attention. The interpreter takes its time, so for it two must do."""
    return tiny_hybrid(tied=False, num_hidden_layers=layers, full_attention_interval=layers)


def on_device(layers: int = 4, **options: Any) -> DeviceQwen35:
    made = tiny(layers)
    return device_model(made.config, made.tensors, **options)


@pytest.fixture(params=["torch", "interp"])
def choices(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What serves the operations: the twins, or the kernels under the interpreter."""
    if reason := absence(request.param):
        pytest.skip(reason)
    return {} if request.param == "torch" else {"choose": interpreted}


@pytest.mark.spec("ENG-008", "ENG-011", "ENG-028")
def test_in_fp32_its_logits_are_the_cpu_models(choices: dict[str, Any]) -> None:
    layers, ids, prompt = (2, IDS[:8], 6) if choices else (4, IDS, PROMPT)
    ours = teacher_forced(on_device(layers, **choices), ids, prompt)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, teacher_forced(tiny(layers).model, ids, prompt), rtol=0, atol=1e-4)


@pytest.mark.spec("ENG-099")
@torch.inference_mode()
def test_images_stand_where_they_stand_on_the_cpu() -> None:
    """Rows of an image in a chunk, its positions on three axes, and text behind it."""
    draw = torch.Generator().manual_seed(5)
    rows, at = torch.randn(4, 64, generator=draw), torch.arange(3, 7)
    grid = torch.tensor([[3, 3, 3, 3], [3, 3, 4, 4], [3, 4, 3, 4]])
    text = torch.arange(3)
    positions = torch.cat((text.expand(3, 3), grid, (text + 5).expand(3, 3)), dim=1)
    found = []
    for model in (on_device(), tiny().model):
        state = model.new_state(32)
        seen = model.forward_seen(IDS[:10], 0, state, Sight(rows, at, positions))
        behind = [model.forward(IDS[i : i + 1], i, state) for i in (10, 11)]
        tree = model.verify(IDS[12:15], torch.tensor([-1, 0, 0]), 12, state)
        found.append(model.logits(torch.cat((seen, *behind, tree))))
    torch.testing.assert_close(*found, rtol=0, atol=1e-4)


@pytest.mark.spec("ENG-008")
def test_in_bf16_it_chooses_what_fp32_chooses_where_that_is_clear() -> None:
    narrow, wide = (teacher_forced(on_device(placement=each), IDS, PROMPT) for each in (NARROW, CPU))
    best = wide.topk(2, dim=-1).values
    clear = best[:, 0] - best[:, 1] > 0.1
    assert clear.sum() >= 5
    assert torch.equal(narrow.argmax(-1)[clear], wide.argmax(-1)[clear])
    assert 0 < (narrow - wide).abs().max() < 0.1


@pytest.mark.spec("ENG-028")
def test_the_load_report_says_what_serves(choices: dict[str, Any]) -> None:
    model = on_device(**choices)
    kinds = {how.partition(":")[0] for how in model.kernels.values()}
    assert kinds == ({"triton"} if choices else {"torch"})
    assert {"decode_attention", "delta_step", "delta_verify_tree", "head", "rms_norm"} <= model.kernels.keys()
    assert model.formats == {"fp32": 20}
    assert sum(model.nbytes.values()) == pytest.approx(sum(tiny().model.nbytes.values()), rel=0.02)


@torch.inference_mode()
def verified(model: DeviceQwen35, parents: Tensor, ids: Tensor) -> Tensor:
    state = model.new_state(len(IDS))
    model.forward(IDS[:PROMPT], 0, state)
    return model.logits(model.verify(ids, parents, PROMPT, state))


@torch.inference_mode()
def down(model: DeviceQwen35, parents: Tensor, ids: Tensor) -> Tensor:
    """The logits of plain runs down to every row."""
    rows = []
    for node in range(len(ids)):
        state = model.new_state(len(IDS))
        model.forward(IDS[:PROMPT], 0, state)
        path = enumerate(lineage(parents, node), PROMPT)
        *_, hidden = [model.forward(ids[row : row + 1], at, state) for at, row in path]
        rows.append(model.logits(hidden))
    return torch.cat(rows)


@pytest.mark.spec("ENG-057", "ENG-058")
@pytest.mark.parametrize("parents", [TREE, chain(5)], ids=["tree", "chain"])
def test_rows_of_a_verify_are_those_of_plain_runs(parents: Tensor) -> None:
    model, ids = on_device(), IDS[PROMPT : PROMPT + len(parents)]
    torch.testing.assert_close(verified(model, parents, ids), down(model, parents, ids), rtol=0, atol=1e-4)


@pytest.mark.spec("ENG-028", "ENG-057", "ENG-058")
@torch.inference_mode()
def test_the_kernels_verify_and_commit_as_the_twins_do() -> None:
    if reason := absence("interp"):
        pytest.skip(reason)
    found = []
    for options in ({}, {"choose": interpreted}):
        model, rows, at = on_device(2, **options), [], 3
        state = model.new_state(32)
        model.forward(IDS[:at], 0, state)
        for parents in (SMALL_TREE, chain(2)):
            rows.append(model.logits(model.verify(IDS[8 : 8 + len(parents)], parents, at, state)))
            path = lineage(parents, len(parents) - 1)
            state.commit(path)
            at += len(path)
        found.append(torch.cat((*rows, model.logits(model.forward(IDS[-1:], at, state)))))
    torch.testing.assert_close(*found, rtol=0, atol=1e-4)


@pytest.mark.spec("ENG-029")
def test_buffers_that_stay_give_the_bits_of_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.engine.models.device_passes.capture", replayed)
    assert torch.equal(teacher_forced(on_device(), IDS, PROMPT), teacher_forced(on_device(static=False), IDS, PROMPT))
    for parents in (TREE, chain(8)):
        ids = IDS[PROMPT : PROMPT + 8]
        one, other = (verified(on_device(static=each), parents, ids) for each in (True, False))
        assert torch.equal(one, other)


@pytest.mark.spec("ENG-029")
@torch.inference_mode()
def test_a_value_that_is_held_stays_what_it_is() -> None:
    """Graphs write the same two places again and again; whoever kept a point goes back to the bits of then."""
    model = on_device()
    state = model.new_state(len(IDS))
    model.forward(IDS[:PROMPT], 0, state)
    expected, held = teacher_forced(on_device(static=False), IDS, PROMPT)[1:], []
    for at in range(PROMPT, len(IDS)):
        held.append(state.keep())
        model.forward(IDS[at : at + 1], at, state)
    for at, value in reversed(list(enumerate(held, PROMPT))):
        state.put_back(value)
        rows = torch.cat([model.logits(model.forward(IDS[i : i + 1], i, state)) for i in range(at, len(IDS))])
        assert torch.equal(rows, expected[at - PROMPT :])


@pytest.mark.spec("ENG-029")
def test_while_nobody_holds_a_value_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[int] = []
    monkeypatch.setattr("tandem.engine.models.recurrent.Recurrent.moved", lambda value: moves.append(value.row))
    teacher_forced(on_device(), IDS, PROMPT)
    assert moves == []


@pytest.mark.spec("ENG-027")
@torch.inference_mode()
def test_a_row_has_the_same_bits_through_every_matrix_whatever_stands_beside_it() -> None:
    if reason := absence("interp"):
        pytest.skip(reason)
    model = on_device(2, choose=interpreted)
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    layer = model._layers[0]
    matrices = [layer.mixer.project, layer.mixer.gates, layer.gate_up]  # type: ignore[union-attr]
    for matrix in matrices:
        assert torch.equal(matrix(x)[3:4], matrix(x[3:4]))
    assert torch.equal(layer.mlp(x)[3:4], layer.mlp(x[3:4]))
    assert torch.equal(model.logits(x)[3:4], model.logits(x[3:4]))


@torch.inference_mode()
def test_at_the_end_of_the_window_a_tree_is_not_filled_up() -> None:
    model = on_device()
    state = model.new_state(PROMPT + 3)
    model.forward(IDS[:PROMPT], 0, state)
    rows = model.logits(model.verify(IDS[PROMPT : PROMPT + 3], chain(3), PROMPT, state))
    torch.testing.assert_close(rows, verified(on_device(), chain(3), IDS[PROMPT : PROMPT + 3]), rtol=0, atol=1e-4)
