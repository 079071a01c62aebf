"""Quantised files over a base checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tandem.engine.checkpoints.fp8 import Fp8Rows
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.checkpoints.nvfp4 import Nvfp4
from tandem.engine.checkpoints.overlay import BUILT, Overlays
from tandem.engine.checkpoints.rows import CHUNK_BYTES
from tandem.engine.checkpoints.safetensors import SafetensorsWeights
from tandem.engine.errors import CheckpointError
from tandem.engine.load import load_engine
from tests.tiny import build_llama
from tests.tiny_gguf import build_gguf

UP, DOWN, HEAD = "layers.0.mlp.up_proj.weight", "layers.1.mlp.down_proj.weight", "lm_head.weight"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return build_llama(tmp_path / "base", tied=False)


def values(base: Path, name: str) -> Tensor:
    weights = SafetensorsWeights(base)
    return weights.tensor(name, weights.stored()[name].shape)


def nvfp4_file(path: Path, base: Path, *names: str) -> Path:
    tensors: dict[str, Tensor] = {}
    for name in names:
        coded = Nvfp4.of(values(base, name))
        at = f"model.{name}"
        tensors |= {at: coded.codes, f"{at}_scale": coded.scales, f"{at}_scale_2": coded.scale}
    save_file(tensors, path)
    return path


def head_file(path: Path, head: Tensor) -> Path:
    coded = Fp8Rows.of(head)
    save_file({HEAD: coded.codes, f"{HEAD}_scale": coded.scales}, path)
    return path


@pytest.mark.spec("ENG-026")
def test_covered_projections_come_from_their_file_and_the_rest_from_the_base(tmp_path: Path, base: Path) -> None:
    first = nvfp4_file(tmp_path / "up.safetensors", base, UP)
    second = nvfp4_file(tmp_path / "down.safetensors", base, DOWN)
    plain = open_checkpoint(base)
    laid = open_checkpoint(base, Overlays(nvfp4=(first, second)))
    for name, stored in plain.weights.stored().items():
        tensor = laid.weights.tensor(name, stored.shape)
        if name in (UP, DOWN):
            coded = Nvfp4.of(values(base, name))
            assert torch.equal(tensor, coded.rows(0, stored.shape[0]))
            assert laid.weights.stored()[name].format == "NVFP4"
            assert laid.weights.coded(name) is not None
        else:
            assert torch.equal(tensor, values(base, name))
    assert list(laid.weights.names()) == list(plain.weights.names())
    assert laid.report["overlays"] == {"nvfp4": ["up.safetensors", "down.safetensors"]}
    assert laid.report["formats"] == {"F32": 19, "NVFP4": 2}
    files = laid.report["files"]
    assert isinstance(files, list)
    assert {"up.safetensors", "down.safetensors"} < set(files)


@pytest.mark.spec("ENG-026", "ENG-030")
def test_the_key_of_the_weights_changes_with_every_overlay(tmp_path: Path, base: Path) -> None:
    over = nvfp4_file(tmp_path / "up.safetensors", base, UP)
    keys = {
        open_checkpoint(base, overlays).weights_key
        for overlays in (Overlays(), Overlays(nvfp4=(over,)), Overlays(fp8_head=BUILT))
    }
    assert len(keys) == 3


@pytest.mark.spec("ENG-022", "ENG-026")
@pytest.mark.parametrize("source", ["file", "build"])
def test_a_head_in_8_bits_is_read_or_built(tmp_path: Path, base: Path, source: str) -> None:
    head = values(base, HEAD)
    path = head_file(tmp_path / "head.safetensors", head)
    weights = open_checkpoint(base, Overlays(fp8_head=path if source == "file" else BUILT)).weights
    coded = Fp8Rows.of(head)
    expected = coded.rows(0, head.shape[0])
    shape = (head.shape[0], head.shape[1])
    assert torch.equal(weights.tensor(HEAD, shape), expected)
    assert torch.equal(weights.rows(HEAD, shape, 7, 90), expected[7:90])
    kept = weights.coded(HEAD)
    assert isinstance(kept, Fp8Rows)
    assert torch.equal(kept.codes.view(torch.uint8), coded.codes.view(torch.uint8))
    assert torch.equal(kept.scales, coded.scales)
    assert weights.stored()[HEAD].nbytes == coded.nbytes
    with pytest.raises(CheckpointError, match=r"lm_head\.weight has shape"):
        weights.rows(HEAD, (1, 2), 0, 1)


@pytest.mark.spec("ENG-011", "ENG-026")
@pytest.mark.parametrize("source", ["file", "build"])
def test_a_tied_head_in_8_bits_is_no_longer_the_embedding(tmp_path: Path, source: str) -> None:
    base = build_llama(tmp_path / "tied")
    embedding = values(base, "embed_tokens.weight")
    path = head_file(tmp_path / "head.safetensors", embedding)
    overlays = Overlays(fp8_head=path if source == "file" else BUILT)
    assert not open_checkpoint(base, overlays).config.tie_word_embeddings
    model = load_engine(base, cpu_weights="fp32", overlays=overlays)._model
    hidden = torch.randn(3, embedding.shape[1])
    expected = hidden @ Fp8Rows.of(embedding).rows(0, embedding.shape[0]).T
    assert torch.allclose(model.logits(hidden), expected, atol=1e-5)


@pytest.mark.spec("ENG-026")
def test_a_projection_in_two_overlays_names_both_files(tmp_path: Path, base: Path) -> None:
    first = nvfp4_file(tmp_path / "a.safetensors", base, UP)
    second = nvfp4_file(tmp_path / "b.safetensors", base, DOWN, UP)
    with pytest.raises(
        CheckpointError, match=r"b\.safetensors: .*up_proj\.weight is in two overlays: first in .*a\.saf"
    ):
        open_checkpoint(base, Overlays(nvfp4=(first, second)))


@pytest.mark.spec("ENG-026")
def test_what_an_overlay_may_not_hold_is_named(tmp_path: Path, base: Path) -> None:
    over = tmp_path / "over.safetensors"

    def refused(tensors: dict[str, Tensor], overlays: Overlays, message: str) -> None:
        save_file(tensors, over)
        with pytest.raises(CheckpointError, match=message):
            open_checkpoint(base, overlays)

    nvfp4, head = Overlays(nvfp4=(over,)), Overlays(fp8_head=over)
    refused(
        {f"model.{UP}": values(base, UP)}, nvfp4, r"up_proj\.weight is F32; this overlay holds a projection in NVFP4"
    )
    nvfp4_file(over, base, UP)
    with pytest.raises(CheckpointError, match=r"up_proj\.weight is NVFP4; this overlay holds a head in e4m3"):
        open_checkpoint(base, head)
    coded = Nvfp4.of(torch.randn(32, 64))
    for name, message in (
        ("layers.9.mlp.up_proj.weight", "covers nothing that the checkpoint has"),
        (UP, r"has shape \[32, 64\], the config asks for \[96, 64\]"),
        (HEAD, "this overlay holds a projection"),
    ):
        parts = {name: coded.codes, f"{name}_scale": coded.scales, f"{name}_scale_2": coded.scale}
        refused(parts, nvfp4, message)
    with pytest.raises(CheckpointError, match=r"none\.safetensors: expected a \.safetensors file"):
        open_checkpoint(base, Overlays(nvfp4=(tmp_path / "none.safetensors",)))


@pytest.mark.spec("ENG-026")
def test_an_overlay_may_be_a_directory(tmp_path: Path, base: Path) -> None:
    (tmp_path / "over").mkdir()
    nvfp4_file(tmp_path / "over" / "model.safetensors", base, UP)
    laid = open_checkpoint(base, Overlays(nvfp4=(tmp_path / "over",)))
    assert laid.weights.stored()[UP].format == "NVFP4"


@pytest.mark.spec("ENG-026")
def test_nothing_is_laid_over_a_gguf_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nothing can be laid over a GGUF file"):
        open_checkpoint(build_gguf(tmp_path / "tiny.gguf"), Overlays(fp8_head=BUILT))


def test_a_large_head_is_built_in_parts(tmp_path: Path) -> None:
    base = build_llama(tmp_path / "wide", tied=False)
    assert values(base, HEAD).nbytes < CHUNK_BYTES, "one part; what follows takes several"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tandem.engine.checkpoints.overlay.CHUNK_BYTES", 64 * 4 * 7)
        kept = open_checkpoint(base, Overlays(fp8_head=BUILT)).weights.coded(HEAD)
    assert isinstance(kept, Fp8Rows)
    assert torch.equal(kept.rows(0, kept.shape[0]), Fp8Rows.of(values(base, HEAD)).rows(0, kept.shape[0]))
