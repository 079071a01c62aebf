"""From a path to an engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tandem.engine.checks import self_check
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.errors import CheckpointError
from tandem.engine.fake.text import FakeText
from tandem.engine.load import build_engine, load_engine
from tandem.engine.models.formats import CPU_WEIGHTS, CpuWeights
from tandem.engine.models.llama import load_llama
from tandem.engine.room import Budgets
from tests.engine.decoding.engines import read, rounds
from tests.engine.models.memory import MemoryWeights, quiet, tiny_llama, tiny_spec
from tests.tiny import build_llama, llama_config, llama_tensors


@pytest.mark.spec("ENG-002", "ENG-015", "ENG-167")
def test_a_directory_becomes_an_engine(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    path = build_llama(tmp_path / "tiny", tied=False)
    engine = load_engine(path, progress=lambda done, total: calls.append((done, total)))
    assert engine.card.architecture == "llama"
    assert engine.card.max_len == 512, "the model's context"
    assert engine.card.anchor_grid == 1024
    assert calls[-1] == (21, 21)
    prompt = engine.text.encode("the quick brown fox")
    assert len(rounds(engine, read(engine, prompt), 4)) == 4


@pytest.mark.spec("ENG-167")
def test_the_load_report_says_what_was_read(tmp_path: Path) -> None:
    report = load_engine(build_llama(tmp_path / "tiny", shards=2), cpu_weights="fp32").card.weights
    assert report["files"] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert report["formats"] == {"F32": 20}
    assert report["dtype"] == "fp32"
    assert report["loaded_formats"] == {"fp32": 9}
    assert report["drafter"] == "none"
    assert report["template_lacks"] == ["tools", "reasoning"]
    assert report["self_check"] == "ok"
    assert isinstance(report["seconds"], float)
    stored, loaded = report["bytes"], report["loaded_bytes"]
    assert isinstance(stored, dict)
    assert isinstance(loaded, dict)
    assert sum(stored.values()) == sum(loaded.values()) > 0


@pytest.mark.spec("FIT-009")
def test_a_model_that_never_thinks_is_not_told_how_hard(tmp_path: Path) -> None:
    assert load_engine(build_llama(tmp_path / "tiny")).card.conductor["effort_note"] is False
    assert build_engine(tiny_llama().model, FakeText()).card.conductor.get("effort_note") is None


@pytest.mark.spec("ENG-015", "ENG-035")
def test_window_grid_and_name_are_the_callers(tmp_path: Path) -> None:
    engine = load_engine(build_llama(tmp_path / "tiny"), max_len=64, grid=16, name="other")
    assert (engine.card.max_len, engine.card.anchor_grid, engine.card.name) == (64, 16, "other")
    assert engine.state()["kv_rows"] == 64


@pytest.mark.spec("ENG-015")
@pytest.mark.parametrize("max_len", [513, 1, 0, -4])
def test_a_window_beyond_the_context_is_refused(tmp_path: Path, max_len: int) -> None:
    with pytest.raises(CheckpointError, match=f"--max-len {max_len} must be 2 to 512"):
        load_engine(build_llama(tmp_path / "tiny"), max_len=max_len)


@pytest.mark.spec("ENG-002")
def test_an_unknown_architecture_stops_the_load_by_name(tmp_path: Path) -> None:
    path = build_llama(tmp_path / "tiny", architectures=["MambaForCausalLM"], model_type="mamba")
    with pytest.raises(CheckpointError, match=r"(?i)mamba"):
        load_engine(path)


@pytest.mark.spec("ENG-021")
def test_a_bf16_checkpoint_gives_the_forward_of_its_tensors_in_memory(tmp_path: Path) -> None:
    path = build_llama(tmp_path / "tiny", seed=5, dtype=torch.bfloat16)
    engine = load_engine(path, cpu_weights="fp32")
    config = llama_config(engine.card.vocab_size)
    tensors = {
        name.removeprefix("model."): tensor.to(torch.bfloat16) for name, tensor in llama_tensors(config, 5).items()
    }
    ours = load_llama(tiny_spec(config), MemoryWeights(tensors), quiet)
    ids = torch.arange(40)
    with torch.inference_mode():
        theirs = engine._model.forward(ids, 0, engine._model.new_state(40))
        assert torch.equal(ours.forward(ids, 0, ours.new_state(40)), theirs)


def test_a_model_that_gives_nan_fails_its_self_check() -> None:
    tiny = tiny_llama()
    self_check(tiny.model)
    tiny.model._norm.fill_(torch.nan)
    with pytest.raises(CheckpointError, match="self-check"):
        self_check(tiny.model)


@pytest.mark.spec("ENG-016", "ENG-031")
def test_the_report_says_what_the_weights_became(tmp_path: Path) -> None:
    path = build_llama(tmp_path / "tiny", tied=False)
    sizes = {}
    for kind in CPU_WEIGHTS:
        report = load_engine(path, cpu_weights=kind).card.weights
        assert report["dtype"] == kind
        assert report["loaded_formats"] == ({"int4": 8, "int8": 1} if kind == "int4" else {kind: 9})
        loaded = report["loaded_bytes"]
        assert isinstance(loaded, dict)
        sizes[kind] = loaded["attention"] + loaded["mlp"]
    assert sizes["fp32"] == 2 * sizes["bf16"]
    assert sizes["bf16"] > 1.8 * sizes["int8"] > 2.4 * sizes["int4"]
    assert load_engine(path).card.weights["dtype"] == "int8", "the default of a file without 4-bit blocks"


@pytest.mark.spec("ENG-031", "ENG-189")
def test_a_load_that_cannot_fit_is_refused_before_the_first_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build_llama(tmp_path / "tiny")
    calls: list[tuple[int, int]] = []

    def load(kind: CpuWeights, margin: int | None = None) -> TorchEngine:
        return load_engine(
            path,
            cpu_weights=kind,
            budgets=Budgets(margin=margin),
            progress=lambda *call: calls.append(call),
        )

    weights, loaded = load("fp32", 0), load("int4", 0).card.weights["loaded_bytes"]
    assert isinstance(loaded, dict)
    calls.clear()
    # No room for fp32 beside the window, and just enough for int4.
    room = sum(loaded.values()) + weights.state()["kv_bytes"]
    monkeypatch.setattr("tandem.engine.load.available", lambda: room)
    with pytest.raises(CheckpointError, match=r"does not fit: weights in fp32 of .*--cpu-weights.*--max-len"):
        load("fp32", 0)
    with pytest.raises(CheckpointError, match="a margin of"):
        load("int4", 1)
    with pytest.raises(CheckpointError, match="a margin of"):
        load("int4")
    assert not calls
    assert load("int4", 0).card.weights["self_check"] == "ok"
    monkeypatch.setattr("tandem.engine.load.available", lambda: None)
    load("fp32")


@pytest.mark.spec("ENG-033")
def test_a_window_that_memory_cannot_hold_ends_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_llama().model

    def no_memory(max_len: int) -> None:
        raise RuntimeError("can't allocate memory")

    monkeypatch.setattr(model, "new_state", no_memory)
    with pytest.raises(CheckpointError, match="--max-len"):
        build_engine(model, FakeText())


def test_the_cpu_path_imports_neither_cuda_nor_triton() -> None:
    code = (
        "import sys, tandem.engine.load; assert 'triton' not in sys.modules; assert 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_are_set_only_when_asked(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    path = build_llama(tmp_path / "tiny")
    try:
        load_engine(path)
        assert torch.get_num_threads() == before
        load_engine(path, threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
