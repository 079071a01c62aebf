"""Other real clients against the embedded model: curl, simonw's llm, and what the README tells people to type."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.process import ROOT, Server, clean_env, finish

CURL = shutil.which("curl")
needs_curl = pytest.mark.skipif(CURL is None, reason="curl is not installed")
README_BASE = "http://127.0.0.1:8000"


@needs_curl
@pytest.mark.spec("API-001")
def test_curl(real: Server, tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
    command = ["curl", "-sS", f"{real.base}/v1/chat/completions", "-H", "Content-Type: application/json"]
    code, out, err = finish([*command, "-d", json.dumps(body)], clean_env(tmp_path))
    assert code == 0, err
    assert json.loads(out)["choices"][0]["finish_reason"] == "length"


@needs_curl
@pytest.mark.spec("API-136")
def test_curl_streams(real: Server, tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "stream": True}
    command = ["curl", "-sS", "-N", "-i", f"{real.base}/v1/chat/completions", "-d", json.dumps(body)]
    code, out, err = finish(command, clean_env(tmp_path))
    assert code == 0, err
    head, _, events = out.partition("\n\n")
    assert "content-type: text/event-stream" in head.lower()
    assert events.endswith("data: [DONE]\n\n")
    assert all(line.startswith("data: ") for line in events.split("\n") if line)


def test_llm(real: Server, tmp_path: Path) -> None:
    models = tmp_path / "extra-openai-models.yaml"
    models.write_text(f"- model_id: tandem\n  model_name: TandemLLM\n  api_base: {real.base}/v1\n")
    env = clean_env(tmp_path, LLM_USER_PATH=str(tmp_path))
    llm = [sys.executable, "-m", "llm", "-m", "tandem", "--key", "sk-local", "-o", "max_tokens", "6"]
    asked = "Name a colour."
    answers = []
    for flags in ([], ["--no-stream"]):
        code, out, err = finish([*llm, *flags, asked], env)
        assert code == 0, err
        answers.append(out.strip())
    assert answers[0]
    assert answers[0] == answers[1]


def readme_blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in found if README_BASE in block]


@needs_curl
def test_the_readmes_curl_runs_as_printed(real: Server, tmp_path: Path) -> None:
    [block] = [block for block in readme_blocks("sh") if block.startswith("curl")]
    code, out, err = finish(["bash", "-euo", "pipefail", "-c", rebased(block, real)], clean_env(tmp_path))
    assert code == 0, err
    assert out.endswith("data: [DONE]\n\n")
    assert '"finish_reason":"stop"' in out


def test_the_readmes_python_runs_as_printed(real: Server, tmp_path: Path) -> None:
    [block] = readme_blocks("python")
    code, out, err = finish([sys.executable, "-c", rebased(block, real)], clean_env(tmp_path))
    assert code == 0, err
    assert "Paris" in out


@needs_curl
def test_what_the_start_prints_runs_as_printed(real: Server, tmp_path: Path) -> None:
    shown = re.search(r"^  (curl .*\\\n.*)$", real.log, re.MULTILINE)
    assert shown is not None
    code, out, err = finish(["bash", "-euo", "pipefail", "-c", shown[1]], clean_env(tmp_path))
    assert code == 0, err
    assert json.loads(out)["choices"][0]["message"]["content"]


def rebased(block: str, server: Server) -> str:
    return block.replace(README_BASE, server.base)
