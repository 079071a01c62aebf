"""The fourteen fixed requests are answered as the recorded build answered them, byte for byte (ENG-074)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import trio.testing

from tests.service.recorded import ENGINES, RECORD, REQUESTS, answers, build_tiny

VECTORS = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
AGAIN = "record them anew with python -m tests.service.recorded where that was meant"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny(tmp_path_factory.mktemp("recorded"))


def recorded(engine: str) -> dict[str, list[str]]:
    kept: dict[str, list[str]] = json.loads(RECORD.read_text(encoding="utf-8"))[engine]
    return kept


@pytest.mark.spec("ENG-074")
@pytest.mark.parametrize("engine", ENGINES)
async def test_every_answer_is_the_recorded_one(
    engine: str, checkpoint: Path, autojump_clock: trio.testing.MockClock
) -> None:
    if engine != "fake" and not VECTORS:
        pytest.skip("without vector kernels torch draws other random weights")
    kept, found = recorded(engine), await answers(engine, checkpoint)
    assert list(found) == list(kept) == list(REQUESTS)
    assert len(found) == 14
    for name, lines in found.items():
        assert lines == kept[name], f"{name}; {AGAIN}"


@pytest.mark.spec("ENG-074", "ENG-065")
@pytest.mark.skipif(not VECTORS, reason="without vector kernels torch draws other random weights")
async def test_a_drafter_changes_no_byte_of_a_whole_body(
    checkpoint: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Of a stream it changes where chunks end."""
    kept, found = recorded("qwen3_5"), await answers("qwen3_5", checkpoint, drafter="mtp+lookup")
    for name, lines in found.items():
        if "streamed" not in name:
            assert lines == kept[name], name


@pytest.mark.parametrize("engine", ENGINES)
def test_the_record_holds_what_it_is_to_show(engine: str) -> None:
    kept = recorded(engine)
    assert {lines[0] for lines in kept.values()} == {"200"}
    assert all(lines[-3] == "data: [DONE]" for name, lines in kept.items() if "streamed" in name)
    whole = {name: json.loads(lines[-1]) for name, lines in kept.items() if "streamed" not in name}
    message = whole["tools"]["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["name"] == "paint"
    assert whole["thinking"]["choices"][0]["message"]["reasoning_content"]
    assert len(whole["seeded"]["choices"]) == 2


@pytest.mark.spec("ENG-074", "PRF-009", "API-068")
@pytest.mark.parametrize(("engine", "mode"), [("fake", "raw"), ("fake", "shadow"), ("qwen3_5", "shadow")])
async def test_a_conductor_that_may_change_nothing_changes_no_byte(
    engine: str, mode: str, checkpoint: Path, autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    if engine != "fake" and not VECTORS:
        pytest.skip("without vector kernels torch draws other random weights")
    kept = recorded(engine)
    found = await answers(
        engine, checkpoint, headers={"x-tandem": mode}, settings={"conductor_config": tmp_path / "conductor"}
    )
    for name, (status, told, *body) in found.items():
        headers = json.loads(told)
        assert (headers.pop("x-tandem"), headers.pop("x-tandem-profile")) == (
            mode,
            "tools" if name == "tools" else "general",
        )
        plain = json.loads(kept[name][1])
        del plain["x-tandem"]
        assert (status, headers, body) == (kept[name][0], plain, kept[name][2:]), name
