"""Images in a rendered prompt: the template's markers, and a placeholder a row (API-183, ENG-178)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.errors import BadInput
from tandem.engine.models.vision.preprocess import Cutter
from tandem.engine.text.checkpoint import CheckpointText
from tandem.engine.text.images import LoadedImages, Patches, PromptImage
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt
from tests.engine.models.vision.seeing import picture

PAD = "<|image_pad|>"


@pytest.fixture(scope="module")
def text(checkpoint: Path, cutter: Cutter) -> CheckpointText:
    opened = open_checkpoint(checkpoint, vision=True)
    assert opened.config.vision is not None
    return opened.text.seeing(cutter, opened.config.vision.image_token_id)


def user(*parts: str | int) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [
            {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "index": part}
            for part in parts
        ],
    }


def loaded(*sizes: tuple[int, int], left_out: int = 0) -> LoadedImages:
    pictures = tuple(picture(*size) for size in sizes)
    return LoadedImages(left_out, pictures, (0,) * len(pictures))


def shown(text: CheckpointText, prompt: Prompt) -> str:
    return "".join(map(text.name, prompt.ids))


@pytest.mark.spec("API-183", "ENG-098")
def test_every_image_has_a_placeholder_a_row_between_its_markers(text: CheckpointText, cutter: Cutter) -> None:
    images = loaded((64, 96), (200, 130))
    messages = (user("Look: ", 0, " and"), {"role": "assistant", "content": "Yes."}, user(1, "?"))
    prompt = text.render(Conversation(messages=messages, images=images))
    first, second = (f"<|vision_start|>{PAD * rows}<|vision_end|>" for rows in (6, 24))
    whole = shown(text, prompt)
    assert f"<|im_start|>user\nLook: {first} and<|im_end|>" in whole
    assert f"<|im_start|>user\n{second}?<|im_end|>" in whole
    assert [each.patches for each in prompt.images] == [cutter.cut(each) for each in images.pictures]
    pad = text.id_of(PAD)
    for image in prompt.images:
        assert set(prompt.ids[image.start : image.stop]) == {pad}
        assert pad not in (prompt.ids[image.start - 1], prompt.ids[image.stop])
    assert prompt.client_tokens == len(prompt.ids), "rows count as the client's"
    assert prompt.thinking == "open"


def test_images_of_tool_results_and_what_was_left_out(text: CheckpointText) -> None:
    """The first of three has left: its text stands there, and numbers go on from it."""
    call = {"id": "c", "type": "function", "function": {"name": "shot", "arguments": "{}"}}
    messages = (
        user("[An earlier image was here.]", 1),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {**user(2), "role": "tool", "tool_call_id": "c"},
    )
    prompt = text.render(Conversation(messages=messages, images=loaded((64, 64), (64, 320), left_out=1)))
    assert [image.patches.rows for image in prompt.images] == [4, 20]
    assert f"<tool_response>\n<|vision_start|>{PAD}" in shown(text, prompt)


@pytest.mark.spec("ENG-178")
def test_a_client_cannot_spell_a_placeholder(text: CheckpointText) -> None:
    messages = (user(f"<|vision_start|>{PAD}<|vision_end|>", 0, PAD),)
    prompt = text.render(Conversation(messages=messages, images=loaded((64, 64))))
    assert prompt.ids.count(text.id_of(PAD)) == 4
    plain = text.render(Conversation(messages=({"role": "user", "content": PAD},)))
    assert text.id_of(PAD) not in plain.ids


@pytest.mark.spec("ENG-103")
def test_text_alone_renders_as_it_does_without_a_tower(text: CheckpointText, checkpoint: Path) -> None:
    blind = open_checkpoint(checkpoint).text
    conversation = Conversation(messages=({"role": "user", "content": "Hi"},))
    assert text.render(conversation) == blind.render(conversation)
    with pytest.raises(BadInput, match="takes no images"):
        blind.render(Conversation(messages=(user(0),), images=loaded((64, 64))))


def test_a_template_without_a_place_for_images_is_refused(text: CheckpointText, cutter: Cutter) -> None:
    plain = CheckpointText(text._tokenizer, template="{% for message in messages %}{{ message.role }}{% endfor %}")
    pad = text.id_of(PAD)
    assert pad is not None
    with pytest.raises(BadInput, match="no place for an image"):
        plain.seeing(cutter, pad).render(Conversation(messages=(user(0),), images=loaded((64, 64))))


def test_images_lie_in_the_prompt_one_behind_the_other() -> None:
    spans = Prompt.of_client(range(20)).spans
    image = Patches(2, 3, b"d", None)
    for starts in ((15,), (3, 8), (9, 2), (-1,)):
        with pytest.raises(ValueError, match="one behind the other"):
            Prompt(tuple(range(20)), spans, 20, images=tuple(PromptImage(start, image) for start in starts))
    keys = Prompt(tuple(range(20)), spans, 20, images=(PromptImage(3, image), PromptImage(9, image))).keys
    assert keys == (0, 1, 2, *[-1 - ord("d")] * 12, *range(15, 20))
