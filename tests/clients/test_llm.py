"""simonw's llm: a schema and a tool, streamed and not. tests/e2e/test_clients.py has its plain prompt."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.clients.driving import Client, Log, written
from tests.e2e.process import Server
from tests.e2e.wire import fake as scripted

Llm: TypeAlias = Callable[..., str]
STREAMED = pytest.mark.parametrize("flags", [(), ("--no-stream",)], ids=["stream", "body"])


@pytest.fixture
def llm(fake: Server, tmp_path: Path) -> Llm:
    """`llm("--flag", …, prompt)`: what it prints."""
    client = Client(tmp_path, LLM_USER_PATH=str(tmp_path))
    model = f"- model_id: tandem\n  model_name: TandemLLM\n  api_base: {fake.base}/v1\n"
    extra = "  supports_schema: true\n  supports_tools: true\n"
    (tmp_path / "extra-openai-models.yaml").write_text(model + extra)

    def run(*arguments: str) -> str:
        return client.run(sys.executable, "-m", "llm", "-m", "tandem", "--key", "sk-local", *arguments)

    return run


@STREAMED
@pytest.mark.spec("API-125", "API-126", "API-130")
def test_a_schema(llm: Llm, flags: tuple[str, ...]) -> None:
    made = {"name": "Ada", "age": 36}
    out = llm(*flags, "--schema", "name, age int", scripted(say=f"<think>Who?</think>\n\n{json.dumps(made)}"))
    assert json.loads(out) == made


@STREAMED
@pytest.mark.spec("API-104", "API-105", "API-107")
def test_a_tool(llm: Llm, fake: Server, flags: tuple[str, ...]) -> None:
    log = Log(fake)
    prompt = scripted(say=written("llm_version"), turns=[{"say": "That is its version."}])
    out = llm(*flags, "-T", "llm_version", "--td", prompt)
    assert "That is its version." in out
    assert [line["finish"] for line in log.lines(2)] == ["tool_calls", "stop"]
