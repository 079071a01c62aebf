"""The tiny checkpoints: seeded, whole, and of the form that is published."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.checkpoints.safetensors import SafetensorsWeights
from tandem.engine.errors import CheckpointError
from tandem.engine.load import load_engine
from tandem.engine.text.model import Conversation
from tandem.engine.tiny.kinds import KINDS, make_tiny
from tandem.engine.tiny.qwen3_5 import qwen3_5_config, qwen3_5_tensors


def digests(directory: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in directory.iterdir()}


@pytest.mark.spec("ENG-017")
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, kind: str) -> None:
    made = [make_tiny(kind, tmp_path / name, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    one, same, other = (digests(tmp_path / name) for name in "abc")
    assert one == same
    weights = {name for name in one if name.endswith((".safetensors", ".gguf"))}
    assert {name for name in one if one[name] != other[name]} == weights
    assert made[0].exists()


@pytest.mark.spec("ENG-017")
@pytest.mark.parametrize("kind", KINDS)
def test_sizes_can_be_asked_for(tmp_path: Path, kind: str) -> None:
    path = make_tiny(kind, tmp_path / "tiny", layers=5, hidden=96)
    config = open_checkpoint(path).config
    assert (config.num_hidden_layers, config.hidden_size) == (5, 96)
    assert load_engine(path, max_len=64, cpu_weights="fp32").card.weights["self_check"] == "ok"


@pytest.mark.spec("ENG-017")
def test_every_kind_of_a_seed_has_the_same_decoder(tmp_path: Path) -> None:
    plain = qwen3_5_tensors(qwen3_5_config(416), seed=4)
    seen = qwen3_5_tensors(qwen3_5_config(416, vision=True), seed=4)
    assert all(seen[name].equal(tensor) for name, tensor in plain.items())
    fp8 = SafetensorsWeights(make_tiny("qwen3_5-fp8", tmp_path / "fp8", seed=4))
    name = "layers.0.mlp.up_proj.weight"
    values = fp8.tensor(name, fp8.stored()[name].shape)
    assert (values - plain[f"model.language_model.{name}"].float()).abs().max() < 0.05


@pytest.mark.spec("ENG-017")
def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(CheckpointError, match="is there and is no empty directory; nothing was written"):
        make_tiny("llama", tmp_path)
    with pytest.raises(CheckpointError, match="no empty directory"):
        make_tiny("llama", tmp_path / "mine")
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(CheckpointError, match=r"mine/tiny: Not a directory"):
        make_tiny("llama", tmp_path / "mine" / "tiny")
    for sizes, message in (
        ({"hidden": 48}, "multiple of 32"),
        ({"hidden": 0}, "multiple"),
        ({"layers": 0}, "at least"),
    ):
        with pytest.raises(CheckpointError, match=message):
            make_tiny("llama", tmp_path / "new", **sizes)
    assert not (tmp_path / "new").exists()


@pytest.mark.spec("ENG-017", "ENG-098")
def test_a_tiny_tower_comes_with_what_cuts_its_images(tmp_path: Path) -> None:
    path = make_tiny("qwen3_5-vision", tmp_path / "tiny")
    card = json.loads((path / "preprocessor_config.json").read_text())
    assert (card["patch_size"], card["merge_size"], card["temporal_patch_size"]) == (16, 2, 2)
    config = json.loads((path / "config.json").read_text())
    text = open_checkpoint(path).text
    for key, marker in (
        ("image_token_id", "<|image_pad|>"),
        ("video_token_id", "<|video_pad|>"),
        ("vision_start_token_id", "<|vision_start|>"),
        ("vision_end_token_id", "<|vision_end|>"),
    ):
        assert config[key] == text.id_of(marker)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = make_tiny("qwen3_5", tmp_path_factory.mktemp("tiny") / "tiny")
    return open_checkpoint(path).text


USER = {"role": "user", "content": "What is in notes.txt?"}
TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}},
    },
}
CALL = {
    "role": "assistant",
    "content": "I will look.",
    "reasoning_content": "A file is asked for.",
    "tool_calls": [
        {
            "id": "call_00001",
            "type": "function",
            "function": {"name": "read_file", "arguments": '{"path": "notes.txt", "limit": 3}'},
        }
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_00001", "content": "milk"}


def rendered(text: Any, *messages: dict[str, Any], **given: Any) -> str:
    prompt = text.render(Conversation(messages=messages, **given))
    return "".join(text.name(token) for token in prompt.ids)


@pytest.mark.spec("ENG-013", "ENG-017")
def test_the_template_opens_thinking_or_closes_it_at_once(text: Any) -> None:
    assert text.support.missing == ()
    opened = text.render(Conversation(messages=(USER,)))
    assert opened.thinking == "open"
    assert rendered(text, USER).endswith("<|im_start|>assistant\n<think>\n")
    closed: dict[str, Any] = {"template_kwargs": {"enable_thinking": False}}
    assert text.render(Conversation(messages=(USER,), **closed)).thinking == "off"
    assert rendered(text, USER, **closed).endswith("<think>\n\n</think>\n\n")
    ids = [text.id_of(marker) for marker in ("<think>", "</think>", "<tool_call>", "</tool_call>")]
    assert all(token in text.render(Conversation(messages=(USER,), **closed)).ids for token in ids[:2])
    assert None not in ids


@pytest.mark.spec("ENG-013", "ENG-179")
def test_the_template_writes_calls_as_the_reader_reads_them(text: Any) -> None:
    whole = rendered(text, {"role": "system", "content": "Be short."}, USER, CALL, RESULT, RESULT, tools=(TOOL,))
    assert '"name": "read_file"' in whole
    assert "\n\nBe short.<|im_end|>" in whole
    assert "<think>\nA file is asked for.\n</think>\n\nI will look.\n\n<tool_call>" in whole
    assert (
        "<tool_call>\n<function=read_file>\n<parameter=path>\nnotes.txt\n</parameter>\n<parameter=limit>\n3\n"
        "</parameter>\n</function>\n</tool_call><|im_end|>\n"
    ) in whole
    answers = "<|im_start|>user" + 2 * "\n<tool_response>\nmilk\n</tool_response>" + "<|im_end|>\n"
    assert answers in whole, "results in a row are one turn"
    later = rendered(text, USER, CALL, RESULT, USER, tools=(TOOL,))
    assert "A file is asked for." in later, "kept in earlier turns too"


@pytest.mark.spec("ENG-013", "ENG-017")
def test_the_template_has_a_place_for_images(text: Any) -> None:
    parts = [{"type": "text", "text": "Look: "}, {"type": "image", "image": 0}, {"type": "text", "text": "?"}]
    whole = text._template.render([{"role": "user", "content": parts}])
    assert "<|im_start|>user\nLook: <|vision_start|><|image_pad|><|vision_end|>?<|im_end|>" in whole
