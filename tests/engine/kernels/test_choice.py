"""Which of twin and kernel serves, and the graphs that replay what serves."""

from __future__ import annotations

import importlib
import importlib.util

import pytest
import torch

from tandem.engine.kernels.choice import OPS, choose, report
from tandem.engine.kernels.graphs import capture
from tests.engine.kernels.running import Way
from tests.engine.kernels.samples import delta_rows, random_state
from tests.project.tree import imports, tandem_modules, within


@pytest.mark.spec("ENG-028")
def test_the_cpu_has_the_twins_and_the_report_says_so() -> None:
    choices = [choose(op, "cpu") for op in OPS]
    assert {each.kind for each in choices} == {"torch"}
    assert report(choices)["delta_step"] == "torch: no kernels for the device cpu"
    with pytest.raises(KeyError):
        choose("fft", "cpu")


@pytest.mark.spec("ENG-028")
@pytest.mark.parametrize(
    ("op", "sizes", "reason"),
    [
        ("delta_step", {"dk": 96}, "key heads of 96"),
        ("delta_chunk", {"dk": 128, "dv": 24}, "value heads of 24"),
        ("delta_verify_tree", {"rows": 33}, "33 rows"),
        ("nvfp4_linear", {"k": 40}, "40 inputs"),
        ("decode_attention", {"size": 80}, "heads of 80"),
    ],
)
def test_a_shape_without_a_kernel_has_the_twin(
    monkeypatch: pytest.MonkeyPatch, op: str, sizes: dict[str, int], reason: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    chosen = choose(op, "cuda", sizes)
    assert chosen.kind == "torch"
    assert chosen.reason.startswith(reason)


@pytest.mark.spec("ENG-028")
def test_without_triton_cuda_has_the_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert choose("rms_norm", "cuda").reason == "triton is not installed"


@pytest.mark.spec("ENG-028")
def test_every_operation_has_both(kernel: Way) -> None:
    for op, entry in OPS.items():
        assert callable(getattr(importlib.import_module(f"tandem.engine.kernels.{entry.module}"), entry.twin))
        assert callable(kernel.function(op))
        sizes = {"dk": 128, "dv": 128, "size": 256, "rows": 32, "n": 5120, "k": 17408}
        assert choose(op, "cuda", sizes).kind == "triton"


@pytest.mark.spec("ENG-028")
def test_only_kernels_import_triton() -> None:
    """Nothing but the kernels themselves names Triton or them; `choose` imports them by name, for CUDA alone."""
    kernels = "tandem.engine.kernels.triton"
    for module in tandem_modules():
        if not within(module.name, kernels):
            names = imports(module.name, module.tree, is_package=module.path.endswith("__init__.py"))
            assert not [name for name in names if within(name, "triton", kernels)], module.path


@pytest.mark.spec("ENG-029")
def test_without_cuda_a_step_stays_eager() -> None:
    taken: list[int] = []
    step = capture(lambda: taken.append(1), "cpu")
    assert step.reason == "no CUDA device"
    assert not taken
    step()
    assert taken == [1]


@pytest.mark.gpu
@pytest.mark.spec("ENG-029")
def test_a_graph_has_the_bits_of_the_eager_step() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    rows = [each[0].cuda() for each in delta_rows(1)]
    state = random_state().cuda()
    run = choose("delta_step", "cuda").run
    step = capture(lambda: run(*rows, state), "cuda")
    assert step.reason == ""
    for seed in (3, 4):
        rows[2].copy_(delta_rows(1, seed=seed).v[0])
        for one, other in zip(step(), run(*rows, state), strict=True):
            assert torch.equal(one, other)


@pytest.mark.gpu
@pytest.mark.spec("ENG-029")
def test_a_step_that_cannot_be_captured_stays_eager_and_says_why() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x = torch.ones(4, device="cuda")
    step = capture(lambda: x.sum().item(), "cuda")  # a copy to the host, for which a capture has no place
    assert step.reason.startswith("the capture failed")
    assert step() == 4.0
