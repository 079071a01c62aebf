"""Loads of every tiny kind: what the engine computes, what the report says, what is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tandem.engine.checkpoints.hf_config import read_config
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.checkpoints.page_cache import drop_pages
from tandem.engine.checkpoints.safetensors import SafetensorsWeights
from tandem.engine.load import load_engine
from tandem.engine.models.formats import CPU_WEIGHTS, kernel_of
from tandem.engine.models.model import Model
from tandem.engine.models.registry import package_of
from tandem.engine.room import Budgets, needs
from tandem.engine.tiny.kinds import KINDS, make_tiny
from tests.engine.models.memory import MemoryWeights, quiet

IDS = torch.arange(60)


@torch.inference_mode()
def logits(model: Model) -> torch.Tensor:
    return model.logits(model.forward(IDS, 0, model.new_state(64)))


@pytest.mark.spec("ENG-017", "ENG-031")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_loads_and_reports_what_it_is(tmp_path: Path, kind: str) -> None:
    calls: list[tuple[int, int]] = []
    path = make_tiny(kind, tmp_path / "tiny")
    engine = load_engine(path, cpu_weights="int8", progress=lambda *call: calls.append(call))
    report = engine.card.weights
    assert report["self_check"] == "ok"
    assert report["unused"] == []
    assert report["template_lacks"] == []
    assert report["kernels"] == {
        "int8": kernel_of("int8"),
        **({} if kind.startswith("llama") else {"bf16": "torch linear, mv for one row"}),
    }
    totals = [total for done, total in calls if done == total]
    assert len(totals) == (2 if kind == "qwen3_5-vision" else 1)  # the tower after the decoder
    assert sum(totals) == len(calls)
    formats = report["formats"]
    assert isinstance(formats, dict)
    coded = {"qwen3_5-fp8": "FP8", "qwen3_5-nvfp4": "NVFP4"}.get(kind)
    assert [name for name in formats if name not in ("F32", "BF16")] == ([coded] if coded else [])
    skipped = {"qwen3_5-nvfp4": {"activation scales", "mtp"}}
    wanted = set() if kind.startswith("llama") else skipped.get(kind, {"mtp"})
    assert set(report.get("skipped", ())) == wanted  # type: ignore[call-overload]
    assert isinstance(report["read_seconds"], float)


@pytest.mark.spec("ENG-021", "ENG-022", "ENG-023")
@pytest.mark.parametrize("kind", ["qwen3_5", "qwen3_5-fp8", "qwen3_5-nvfp4"])
def test_codes_give_the_forward_of_their_values_in_memory(tmp_path: Path, kind: str) -> None:
    """Bit for bit; `tests/engine/checkpoints/test_codes.py` has what the values are."""
    path = make_tiny(kind, tmp_path / "tiny", seed=3)
    weights, config = SafetensorsWeights(path), read_config(path)
    values = {name: weights.tensor(name, each.shape) for name, each in weights.stored().items()}
    ours = package_of("qwen3_5")(config, MemoryWeights(values), quiet, "fp32")
    engine = load_engine(path, cpu_weights="fp32")
    assert torch.equal(logits(engine._model), logits(ours))


@pytest.mark.spec("ENG-022", "ENG-023")
def test_codes_are_near_the_weights_they_were_made_from(tmp_path: Path) -> None:
    plain, fp8, nvfp4 = (
        logits(load_engine(make_tiny(kind, tmp_path / kind), cpu_weights="fp32")._model)
        for kind in ("qwen3_5", "qwen3_5-fp8", "qwen3_5-nvfp4")
    )
    distances = [((each - plain).norm() / plain.norm()).item() for each in (fp8, nvfp4)]
    assert 0 < distances[0] < 0.2
    assert distances[0] < distances[1] < 0.8


@pytest.mark.spec("ENG-016")
@pytest.mark.parametrize("kind", ["qwen3_5-fp8", "qwen3_5-nvfp4"])
def test_codes_that_no_cpu_kernel_keeps_become_8_bits(tmp_path: Path, kind: str) -> None:
    assert load_engine(make_tiny(kind, tmp_path / "tiny")).card.weights["dtype"] == "int8"


@pytest.mark.spec("ENG-031")
@pytest.mark.parametrize("kind", ["llama", "qwen3_5", "qwen3_5-nvfp4"])
@pytest.mark.parametrize("cpu_weights", CPU_WEIGHTS)
def test_the_weighing_knows_what_a_load_takes(tmp_path: Path, kind: str, cpu_weights: Any) -> None:
    path = make_tiny(kind, tmp_path / "tiny")
    engine = load_engine(path, cpu_weights=cpu_weights, max_len=64, budgets=Budgets(margin=0))
    loaded = engine.card.weights["loaded_bytes"]
    assert isinstance(loaded, dict)
    # What a package keeps in more bits than asked for, and norms that it spreads over heads, are small.
    assert weigh(path, cpu_weights) == pytest.approx(sum(loaded.values()), rel=0.03)


def weigh(path: Path, cpu_weights: Any) -> int:
    checkpoint = open_checkpoint(path)
    weights, *_ = needs(checkpoint.weights.stored(), checkpoint.config, cpu_weights, 64, Budgets(margin=0))
    assert weights.setting == "--cpu-weights"
    return weights.nbytes


@pytest.mark.spec("ENG-031")
def test_a_tensor_that_nobody_asks_for_is_named(tmp_path: Path) -> None:
    path = make_tiny("llama", tmp_path / "tiny")
    file = path / "model.safetensors"
    extra = {f"model.layers.0.mlp.expert_{index}.weight": torch.ones(1) for index in range(30)}
    tensors = load_file(file)
    save_file({**tensors, "model.extra.weight": torch.ones(1)}, file)
    assert load_engine(path).card.weights["unused"] == ["extra.weight"]
    save_file({**tensors, **extra}, file)
    unused = load_engine(path).card.weights["unused"]
    assert isinstance(unused, list)
    assert len(unused) == 21
    assert unused[-1] == "and 10 more"


@pytest.mark.spec("ENG-031")
def test_a_head_that_the_config_ties_is_not_weighed(tmp_path: Path) -> None:
    path = make_tiny("llama", tmp_path / "tiny")
    before = weigh(path, "fp32")
    file = path / "model.safetensors"
    tensors = load_file(file)
    save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, file)
    assert weigh(path, "fp32") == before


@pytest.mark.spec("ENG-032")
def test_the_page_cache_is_dropped_when_nothing_is_mapped_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int, int, int]] = []
    mapped: list[str] = []

    def advise(descriptor: int, offset: int, length: int, advice: int) -> None:
        file = os.readlink(f"/proc/self/fd/{descriptor}")
        calls.append((file, offset, length, advice))
        mapped.extend(line for line in Path("/proc/self/maps").read_text().splitlines() if file in line)

    monkeypatch.setattr(os, "posix_fadvise", advise)
    path = make_tiny("qwen3_5", tmp_path / "tiny").resolve()
    report = load_engine(path, cpu_weights="fp32").card.weights
    names = [f"model-0000{shard}-of-00002.safetensors" for shard in (1, 2)]
    assert calls == [(str(path / name), 0, 0, os.POSIX_FADV_DONTNEED) for name in names]
    assert mapped == []
    assert report["pages_dropped"] == 2


@pytest.mark.spec("ENG-032")
def test_pages_that_cannot_be_dropped_are_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there"
    there.write_bytes(b"weights")
    assert drop_pages([there, tmp_path / "gone"]) == 1

    def refuse(*given: int) -> None:
        raise OSError("not here")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    assert drop_pages([there]) == 0
    monkeypatch.delattr(os, "posix_fadvise")
    assert drop_pages([there]) == 0


PEAK = """
import json, sys, threading, time
from pathlib import Path
from tandem.engine.checkpoints import rows
from tandem.engine.load import load_engine

rows.CHUNK_BYTES = 2 << 20


def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def watch():
    while not done.is_set():
        seen.append(anonymous())
        time.sleep(0.0005)


load_engine(Path(sys.argv[1]), cpu_weights="int8", max_len=64)  # what torch keeps for itself
done, before = threading.Event(), anonymous()
seen = [before]
thread = threading.Thread(target=watch)
thread.start()
engine = load_engine(Path(sys.argv[2]), cpu_weights="int8", max_len=64)
done.set()
thread.join()
print(json.dumps([max(seen) - before, sum(engine.card.weights["loaded_bytes"].values()), len(seen)]))
"""


@pytest.mark.spec("ENG-031")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel does not say what a process takes")
def test_a_load_never_holds_two_copies(tmp_path: Path) -> None:
    """A model of the 27B's proportions: its embedding alone takes 67 MB on disk, 134 in fp32, 34 when it is loaded."""
    small, wide = make_tiny("qwen3_5", tmp_path / "small"), make_tiny("qwen3_5", tmp_path / "wide", layers=4)
    config = json.loads((wide / "config.json").read_text())
    config["text_config"] |= {"vocab_size": 65_536, "hidden_size": 512, "intermediate_size": 4096}
    (wide / "config.json").write_text(json.dumps(config))
    widen(wide, config["text_config"])
    run = [sys.executable, "-c", PEAK, str(small), str(wide)]
    out = subprocess.run(run, check=True, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    taken, kept, samples = json.loads(out.stdout)
    assert samples > 50
    assert kept > 80 << 20
    assert taken < kept + (48 << 20), "one copy of the embedding on its way would be 67 MB in bf16 alone"


def widen(directory: Path, text: dict[str, Any]) -> None:
    """Give the tensors of a tiny checkpoint the sizes of `text`; their values are zero, which takes no time."""
    sizes = {416: text["vocab_size"], 64: text["hidden_size"], 96: text["intermediate_size"]}
    for file in sorted(directory.glob("*.safetensors")):
        tensors = {}
        for name, tensor in load_file(file).items():
            if name.startswith("mtp."):
                continue
            shape = list(tensor.shape)
            if name.endswith(("embed_tokens.weight", "lm_head.weight")) or ".mlp." in name:
                shape = [sizes[size] for size in shape]
            elif name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")) or ".in_proj_" in name:
                shape = [shape[0], text["hidden_size"]]
            elif name.endswith(("o_proj.weight", "out_proj.weight")):
                shape = [text["hidden_size"], shape[1]]
            elif name.endswith("norm.weight") and shape == [64]:
                shape = [text["hidden_size"]]
            tensors[name] = tensor if list(tensor.shape) == shape else torch.zeros(shape, dtype=tensor.dtype)
        save_file(tensors, file)
    index = directory / "model.safetensors.index.json"
    weight_map = json.loads(index.read_text())["weight_map"]
    kept = {name: file for name, file in weight_map.items() if not name.startswith("mtp.")}
    index.write_text(json.dumps({"weight_map": kept}))
