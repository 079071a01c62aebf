"""Which image of a prompt is read next, as a stream's comments and the live view tell it (ENG-098)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.live import Look
from tandem.engine.fake import FakeEngine
from tests.http.images.pictures import data_url, encoded, image_of
from tests.live.samples import valid
from tests.service.harness import fake, open_harness

CHAT = "/v1/chat/completions"
GRID = 256
SIZE = (512, 256)
"""128 rows: two to a chunk."""


def asking() -> dict[str, Any]:
    """Five images, then more text than two chunks hold; a chunk takes 2 s."""
    said = fake(say="It is MARKED.", prefill_ms_per_token=2000 / GRID)
    images = [data_url(encoded(image_of(*SIZE, (number, 0, 0)))) for number in range(5)]
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in images]
    text = {"type": "text", "text": "MARKED " * 700 + said}
    return {"messages": [{"role": "user", "content": [*parts, text]}], "stream": True}


@pytest.mark.spec("ENG-098", "API-141", "OBS-065", "OBS-048")
async def test_the_image_that_comes_next_is_named_by_its_number_alone(autojump_clock: MockClock) -> None:
    engine = FakeEngine(images=True, grid=GRID)
    async with open_harness(engine=engine, prefill_heartbeat_s=1.0) as harness:
        call = harness.client.start(CHAT, asking())
        seen, labels = [], []
        for _ in range(8):
            await trio.sleep(1)
            await wait_all_tasks_blocked()
            document: bytes = await harness.service.context.live.ask(Look)
            event = valid(document)
            activity = event["requests"][0]["activity"]
            if activity["state"] == "prefilling":
                seen.append(activity["prefill"]["image"])
                labels.append(activity["label"])
                assert "MARKED" not in json.dumps(event)
        await call.finished.wait()
    assert call.text == "It is MARKED."
    numbers = [each and each["number"] for each in seen]
    assert sorted({number for number in numbers if number}) == [1, 2, 4]
    assert all(each["of"] == 5 for each in seen if each)
    assert numbers[-1] is None, "the images are read, the text is not"
    assert any(", image 4 of 5" in label for label in labels)
    told = [text for _, text in call.comments if text.startswith("prefill ")]
    assert [text.partition(", ")[2] for text in told[:3]] == ["image 2 of 5", "image 4 of 5", ""]
    assert not any("MARKED" in text or "data:" in text for text in told)
