"""langchain-openai: a structured answer, tools and a stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.conftest import Installed
from tests.clients.driving import Client, Log, written
from tests.e2e.process import Server
from tests.e2e.wire import fake as scripted

pytestmark = pytest.mark.slow  # to install

PROGRAM = """
import json, os
from typing import Optional
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

class Joke(BaseModel):
    \"\"\"A joke.\"\"\"
    setup: str
    rating: Optional[int]

@tool
def add(a: int, b: int) -> int:
    \"\"\"Add two numbers.\"\"\"
    return a + b

prompts = json.loads(os.environ["PROMPTS"])
base = os.environ["BASE"] + "/v1"
model = ChatOpenAI(base_url=base, api_key="sk-local", model="TandemLLM", max_retries=0, timeout=60)
out = {}
for method in ("json_schema", "function_calling", "json_mode"):
    out[method] = model.with_structured_output(Joke, method=method).invoke(prompts[method]).model_dump()
messages = [("user", prompts["tool"])]
first = model.bind_tools([add]).invoke(messages)
out["calls"] = [(call["name"], call["args"]) for call in first.tool_calls]
results = [add.invoke(call) for call in first.tool_calls]
out["answer"] = model.bind_tools([add]).invoke([*messages, first, *results]).content
out["stream"] = [piece.content for piece in model.stream(prompts["stream"])]
print(json.dumps(out))
"""


@pytest.mark.spec("API-105", "API-117", "API-126", "API-129")
def test_structured_output_tools_and_a_stream(installed: Installed, tmp_path: Path, fake: Server) -> None:
    client, log = Client(tmp_path), Log(fake)
    joke = {"setup": "Why?", "rating": None}
    think = "<think>Hm.</think>\n\n"
    prompts = {
        "json_schema": scripted(say=think + json.dumps(joke)),
        "function_calling": scripted(say=think + written("Joke", **joke)),
        "json_mode": scripted(say=think + json.dumps(joke)),
        "tool": scripted(say=think + written("add", a=2, b=3), turns=[{"say": "It is 5."}]),
        "stream": scripted(say=think + "one two three"),
    }
    python = installed("langchain") / "bin" / "python"
    out = json.loads(client.run(python, "-c", PROGRAM, BASE=fake.base, PROMPTS=json.dumps(prompts)))
    assert [out[method] for method in ("json_schema", "function_calling", "json_mode")] == [joke] * 3
    assert out["calls"] == [["add", {"a": 2, "b": 3}]]
    assert out["answer"] == "It is 5."
    assert "".join(out["stream"]) == "one two three"
    assert len(out["stream"]) > 3
    assert {(line["client"], line["status"]) for line in log.lines(6)} == {("openai-sdk", "200")}
