"""The whole model with images against the reference, and an engine that reads them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tandem.engine.checkpoints.layout import decoder_layout
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.checkpoints.safetensors import SafetensorsWeights
from tandem.engine.decoding.asking import ask_in_prompt
from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Ended, perform
from tandem.engine.errors import CheckpointError, EngineError
from tandem.engine.models.formats import CPU_WEIGHTS, CpuWeights
from tandem.engine.models.model import Sight
from tandem.engine.models.qwen3_5 import Qwen35Model, load_qwen3_5
from tandem.engine.models.vision import load_tower, row_positions
from tandem.engine.models.vision.preprocess import Cutter
from tandem.engine.room import Budgets
from tandem.engine.text.images import Patches
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import SamplingRules
from tests.engine.decoding.engines import kept_row, rounds, same, trace
from tests.engine.models.memory import quiet
from tests.engine.models.vision.seeing import GRID, engine_of, ids_after, picture, prompt_of, seen_by

PLACEHOLDER = 386


@pytest.fixture(scope="module", autouse=True)
def _placeholder(checkpoint: Path) -> None:
    assert open_checkpoint(checkpoint, vision=True).text.id_of("<|image_pad|>") == PLACEHOLDER


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> TorchEngine:
    return engine_of(checkpoint)


@pytest.fixture
def fresh(engine: TorchEngine) -> TorchEngine:
    engine.clear()
    return engine


@pytest.fixture(scope="module")
def blind(checkpoint: Path) -> TorchEngine:
    return engine_of(checkpoint, vision=False)


def read(engine: TorchEngine, prompt: Prompt) -> Any:
    seq = engine.open(prompt)
    while engine.prefill(seq, len(prompt.ids)).done < len(prompt.ids):
        pass
    return seq


def answer(engine: TorchEngine, prompt: Prompt, count: int = 8) -> tuple[list[int], list[Tensor]]:
    seq = read(engine, prompt)
    try:
        return trace(engine, seq, count)
    finally:
        engine.close(seq)


PARTS: dict[str, tuple[Any, ...]] = {
    "image in front": ((130, 70), 9),
    "between": (11, (96, 160), 6),
    "two across chunks": (20, (200, 190), 4, (64, 320), 30),
    "at a line": (GRID, (128, 128), 3),
    "up to a line": (GRID - 16, (128, 128), 3),
}


def prompt(cutter: Cutter, *parts: Any, seed: int = 5) -> Prompt:
    def cut(part: Any) -> int | Patches:
        return part if isinstance(part, int) else cutter.cut(picture(*part))

    return prompt_of(PLACEHOLDER, *map(cut, parts), seed=seed)


@pytest.mark.spec("ENG-006", "ENG-099")
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_logits_equal_the_references_in_one_pass_and_in_chunks(
    checkpoint: Path, cutter: Cutter, oracle: Any, parts: tuple[Any, ...]
) -> None:
    opened = open_checkpoint(checkpoint, vision=True)
    model, asked = load_qwen3_5(opened.config, opened.weights, quiet), prompt(cutter, *parts)
    assert isinstance(model, Qwen35Model)
    tower = load_tower(cutter._config, opened.weights, quiet)
    rows = len(asked.ids)
    with torch.inference_mode():
        expected = oracle(**seen_by(asked, cutter)).logits[0]
        seen = torch.cat([tower(each.patches.pixels, each.patches.across, each.patches.down) for each in asked.images])
        at = torch.cat([torch.arange(each.start, each.stop) for each in asked.images])
        for size in (rows, GRID, 13):
            state, hidden = model.new_state(rows), []
            for low in range(0, rows, size):
                high = min(low + size, rows)
                here = (at >= low) & (at < high)
                ids = torch.tensor(asked.ids[low:high])
                sight = Sight(seen[here], at[here] - low, row_positions(asked.images, low, high))
                hidden.append(
                    model.forward_seen(ids, low, state, sight) if here.any() else model.forward(ids, low, state)
                )
            assert (model.logits(torch.cat(hidden)) - expected).abs().max() < 1e-4
            assert state.keep().offset == int(row_positions(asked.images, 0, rows).max()) + 1 - rows


@pytest.mark.spec("ENG-098", "ENG-099")
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_greedy_text_equals_the_references(
    fresh: TorchEngine, cutter: Cutter, oracle: Any, parts: tuple[Any, ...]
) -> None:
    asked = prompt(cutter, *parts)
    with torch.inference_mode():
        text = oracle.generate(**seen_by(asked, cutter), max_new_tokens=32, do_sample=False, eos_token_id=None)
    ids, _ = answer(fresh, asked, 32)
    assert ids == text[0, len(asked.ids) :].tolist()
    assert len(set(ids)) > 3


@pytest.mark.spec("ENG-103")
@pytest.mark.parametrize("cpu_weights", CPU_WEIGHTS)
def test_text_is_bit_for_bit_what_it_is_without_a_tower(checkpoint: Path, cpu_weights: CpuWeights) -> None:
    asked = prompt_of(PLACEHOLDER, 75)
    given: dict[str, Any] = {"cpu_weights": cpu_weights}
    sees, off = engine_of(checkpoint, **given), engine_of(checkpoint, vision=False, **given)
    assert sees.card.images
    assert not off.card.images
    (ids, rows), (others, expected) = answer(sees, asked), answer(off, asked)
    assert ids == others
    assert same(rows, expected)


@pytest.mark.spec("ENG-103")
def test_text_after_an_image_chat_is_bit_for_bit_the_same(
    fresh: TorchEngine, blind: TorchEngine, cutter: Cutter
) -> None:
    answer(fresh, prompt(cutter, 5, (128, 128), 9))
    asked = prompt_of(PLACEHOLDER, 75)
    assert same(answer(fresh, asked)[1], answer(blind, asked)[1])


@pytest.mark.spec("ENG-099", "ENG-107", "ENG-110")
def test_a_next_turn_resumes_behind_an_image_and_within_one(fresh: TorchEngine, cutter: Cutter) -> None:
    first = prompt(cutter, 20, (200, 190), 4)
    image = first.images[0]
    seq = read(fresh, first)
    said = rounds(fresh, seq, 5)
    fresh.close(seq)
    cut = replace(Prompt.of_client([*first.ids[: image.stop], 7, 7]), images=first.images)
    for resumed, asked in (
        (len(first.ids) + 4, ids_after(first, [*said, 3, 1, 4])),
        (GRID, cut),
    ):
        seq = fresh.open(asked)
        assert seq.resumed == resumed
        while fresh.prefill(seq, len(asked.ids)).done < len(asked.ids):
            pass
        warm = trace(fresh, seq)
        fresh.close(seq)
        fresh.clear()
        cold = answer(fresh, asked)
        assert warm[0] == cold[0]
        assert all((one - other).abs().max() < 1e-4 for one, other in zip(warm[1], cold[1], strict=True))
        answer(fresh, first)


@pytest.mark.spec("ENG-100")
def test_an_image_matches_by_content(fresh: TorchEngine, cutter: Cutter) -> None:
    one, other = cutter.cut(picture(128, 128)), cutter.cut(picture(128, 128, seed=1))
    again = cutter.cut(picture(128, 128))
    asked, changed, sent_again = (prompt_of(PLACEHOLDER, 24, image, 30) for image in (one, other, again))
    assert asked.ids == changed.ids == sent_again.ids
    rows = answer(fresh, asked)[1]
    seq = fresh.open(sent_again)
    assert seq.resumed == 64, "the last grid line"
    fresh.close(seq)
    seq = fresh.open(changed)
    assert seq.resumed == 0, "the first line is inside the image"
    fresh.close(seq)
    answered = answer(fresh, changed)[1]
    assert not torch.equal(rows[0], answered[0])
    fresh.clear()
    assert same(answer(fresh, changed)[1], answered)
    assert min(prompt_of(PLACEHOLDER, 1, one).keys) < 0


@pytest.mark.spec("ENG-101")
def test_an_image_sent_again_is_encoded_once_and_read_alike(checkpoint: Path, cutter: Cutter) -> None:
    engine = engine_of(checkpoint)
    asked, later = prompt(cutter, 3, (200, 190), 4), prompt(cutter, 9, (200, 190), 50)
    fresh = answer(engine, later)[1]
    engine.clear()
    assert engine.state()["encoded_images"] == 1
    answer(engine, asked)
    assert same(answer(engine, later)[1], fresh)
    state = engine.state()
    assert (state["encoded_images"], state["encoded_image_rows"]) == (2, 2 * 36)
    assert (state["image_cache_hits"], state["image_cache_saved_rows"]) == (1, 36)
    assert state["image_cache_bytes"] == 36 * 64 * 4
    assert engine.clear(["images"]) == {"images": 36 * 64 * 4}
    assert engine.state()["image_cache_bytes"] == 0
    with pytest.raises(EngineError, match="there is: images, resident"):
        engine.clear(["other"])


@pytest.mark.spec("ENG-098", "ENG-101")
def test_an_image_over_many_chunks_is_encoded_once_without_a_cache(checkpoint: Path, cutter: Cutter) -> None:
    engine = engine_of(checkpoint, budgets=Budgets(images=0, margin=0))
    asked = prompt(cutter, 10, (380, 380), 6)
    assert asked.images[0].patches.rows > 4 * GRID
    seq = engine.open(asked)
    encoded = []
    while engine.prefill(seq, len(asked.ids)).done < len(asked.ids):
        encoded.append(engine.state()["encoded_images"])
    assert set(encoded) == {1}
    engine.close(seq)
    assert engine.state()["image_cache_images"] == 0
    assert engine._eyes is not None
    assert engine._eyes._held is None


@pytest.mark.spec("ENG-098")
def test_an_image_is_encoded_with_the_first_chunk_that_holds_a_row_of_it(fresh: TorchEngine, cutter: Cutter) -> None:
    before = fresh.state()["encoded_images"]
    asked = prompt(cutter, GRID + 5, (128, 128), 50, (128, 64), 2)
    seq, encoded = fresh.open(asked), []
    while fresh.prefill(seq, len(asked.ids)).done < len(asked.ids):
        encoded.append(fresh.state()["encoded_images"] - before)
    assert encoded == [0, 1, 1]
    assert fresh.state()["encoded_images"] - before == 2
    fresh.close(seq)


@pytest.mark.spec("ENG-083", "ENG-099")
def test_a_snapshot_keeps_where_the_text_stands(fresh: TorchEngine, cutter: Cutter) -> None:
    seq = read(fresh, prompt(cutter, 8, (300, 64), 12))
    rounds(fresh, seq, 3)
    kept = fresh.snapshot(seq)
    wanted = trace(fresh, seq)
    fresh.restore(seq, kept)
    assert same(trace(fresh, seq)[1], wanted[1])
    fresh.close(seq)
    other = read(fresh, prompt_of(PLACEHOLDER, 40))
    fresh.restore(other, kept)
    assert same(trace(fresh, other)[1], wanted[1])
    fresh.close(other)


@pytest.mark.spec("ENG-041", "ENG-099")
def test_a_question_leaves_no_trace(fresh: TorchEngine, cutter: Cutter) -> None:
    asked = prompt(cutter, 8, (300, 64), 12)
    seq = read(fresh, asked)
    row = kept_row(fresh, seq)
    shares = fresh.ask(seq, [5, 6, 7], [1, 2])
    assert torch.equal(kept_row(fresh, seq), row)
    fresh.close(seq)
    fresh.clear()
    assert ask_in_prompt(fresh, asked, len(asked.ids), [5, 6, 7], [1, 2]) == pytest.approx(shares, abs=1e-5)
    with pytest.raises(ValueError, match="inside an image"):
        ask_in_prompt(fresh, asked, 10, [5], [1, 2])


@pytest.mark.spec("ENG-058", "ENG-099")
def test_a_verified_path_stands_where_rounds_would(engine: TorchEngine, cutter: Cutter) -> None:
    """The rows of a draft behind an image, by the model alone."""
    model, state = engine._model, engine._model.new_state(256)
    asked = prompt(cutter, 8, (300, 64), 12)
    assert engine._eyes is not None
    with torch.inference_mode():
        engine._eyes.read(asked, 0, len(asked.ids), state)
        at, ids = len(asked.ids), torch.tensor([5, 9, 2])
        stood = state.keep()
        wanted = [model.forward(ids[each : each + 1], at + each, state) for each in range(3)]
        state.put_back(stood)
        hidden = model.verify(ids, torch.tensor([-1, 0, 1]), at, state)
        assert (hidden - torch.cat(wanted)).abs().max() < 1e-4
        state.commit([0, 1, 2])
        assert (state.keep().row, state.keep().offset) == (at + 3, stood.offset)
    assert stood.offset < 0


@pytest.mark.spec("ENG-168")
def test_an_engine_without_a_tower_refuses_an_image(blind: TorchEngine, cutter: Cutter) -> None:
    with pytest.raises(EngineError, match="reads no images"):
        blind.open(prompt(cutter, 3, (64, 64), 2))
    assert set(blind.clear()) == {"resident"}


@pytest.mark.spec("ENG-043")
def test_a_fault_of_the_tower_ends_its_request_alone(
    fresh: TorchEngine, cutter: Cutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = prompt(cutter, 3, (64, 64), 2)
    expected = answer(fresh, asked)[1]
    fresh.clear()
    assert fresh._eyes is not None
    seq = fresh.open(asked)
    with monkeypatch.context() as patch:
        patch.setattr(fresh._eyes._tower, "_positions", torch.zeros(1, 3))
        with pytest.raises(EngineError, match="prefill failed"):
            fresh.prefill(seq, len(asked.ids))
    fresh.close(seq)
    assert same(answer(fresh, asked)[1], expected)


@pytest.mark.spec("ENG-031", "ENG-098", "ENG-102", "ENG-168")
def test_the_card_and_the_report_tell_of_the_tower(engine: TorchEngine, blind: TorchEngine, cutter: Cutter) -> None:
    assert engine.card.geometry == cutter.geometry
    assert (engine.card.geometry.min_pixels, engine.card.geometry.max_pixels) == (4096, 262_144)
    loaded = engine.card.weights["loaded_bytes"]
    assert isinstance(loaded, dict)
    assert loaded["tower"] > 0
    assert [name for name in engine.card.weights["unused"] if "visual" in name] == []  # type: ignore[attr-defined]
    assert blind.card.geometry is None
    assert blind.card.weights["skipped"]["tower"] > 0  # type: ignore[index]


def test_a_tower_whose_tensors_are_left_out_is_not_there(checkpoint: Path, tmp_path: Path) -> None:
    for file in checkpoint.iterdir():
        if not file.name.startswith("model"):
            (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = SafetensorsWeights(checkpoint, decoder_layout(vision=False))
    tensors = {
        f"model.language_model.{name}": weights.tensor(name, each.shape) for name, each in weights.stored().items()
    }
    tensors["lm_head.weight"] = tensors.pop("model.language_model.lm_head.weight")
    save_file(tensors, tmp_path / "model.safetensors")
    assert open_checkpoint(tmp_path, vision=True).config.vision is None
    card = json.loads((tmp_path / "preprocessor_config.json").read_text())
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(card | {"do_resize": False}))
    with pytest.raises(CheckpointError, match=r"do_resize .*; --vision off serves its text alone"):
        open_checkpoint(tmp_path, vision=True)


@pytest.mark.spec("ENG-098")
def test_progress_names_the_image_before_it_is_read(fresh: TorchEngine, cutter: Cutter) -> None:
    asked = prompt(cutter, GRID + 5, (128, 128), 50, (128, 64), 2)
    generation = Generation(
        asked,
        SamplingRules(),
        limit=1,
        reader=PlainReader(fresh.text),
        end_ids=fresh.text.end_ids,
        grid=GRID,
        arrived_at=0.0,
    )
    generation.start(0.0)
    seq, named = fresh.open(asked), []
    while not isinstance(work := generation.next(), Ended):
        named.append(generation.progress.image)
        generation.feed(perform(fresh, seq, work, generation.rules), 0.0)
    fresh.close(seq)
    assert named == [None, (1, 2), None, (2, 2), None]
