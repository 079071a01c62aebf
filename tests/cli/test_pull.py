"""`tandem pull` as a person runs it: what it prints, on a real process where it matters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tandem.cli import main
from tandem.engine.checkpoints import hub as hub_module
from tandem.engine.checkpoints.pulled import ModelName
from tandem.engine.errors import CheckpointError
from tests.hub import Hub, running_hub
from tests.project.tree import ROOT, imports, tandem_modules, within
from tests.tiny import build_llama

REPO = "org/tiny-llama"


def tandem(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with running_hub() as running:
        running.repos = {REPO: build_llama(tmp_path / "hub")}
        yield running


@pytest.fixture
def at_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pull from the stand-in; huggingface_hub reads HF_ENDPOINT once, when it is imported."""
    monkeypatch.setattr(hub_module, "pull", partial(hub_module.pull, endpoint=hub.url))


def started_pull(hub: Hub, state: Path) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "TANDEM_"))}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(state / "hf")}
    command = [sys.executable, "-m", "tandem", "pull", REPO, "--state-dir", str(state)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )


@pytest.mark.usefixtures("at_hub")
def test_ctrl_c_says_that_the_next_pull_continues_and_it_does(hub: Hub, tmp_path: Path) -> None:
    hub.stall_after = 100_000
    process = started_pull(hub, tmp_path)
    deadline = time.monotonic() + 60
    while hub.sent.get("model.safetensors", 0) < 100_000 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err == f"Error: stopped; what came is kept, and the same command continues it: tandem pull {REPO}\n"
    hub.stall_after = None
    result = tandem("pull", REPO, "--state-dir", str(tmp_path))
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{tmp_path}/models/{REPO}\n", "")
    assert hub.requests[-1][0] == "model.safetensors"
    assert not hub.requests[-1][1].startswith("bytes=0-")


@pytest.mark.usefixtures("at_hub")
def test_an_error_of_the_hub_is_one_line(hub: Hub, tmp_path: Path) -> None:
    result = tandem("pull", "org/tiny", "--state-dir", str(tmp_path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: org/tiny is not found at {hub.url}; did you mean {REPO}? "
        "A private one needs HF_TOKEN with a token that may read it\n"
    )


def test_name_and_revision_are_handed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def pull(name: ModelName, state_dir: Path, progress: Callable[[int, int], None], *, revision: str | None) -> Path:
        progress(0, 0)
        progress(1, 2)
        assert (name, state_dir, revision) == (ModelName("org/m", "f.gguf"), tmp_path, "v1")
        return state_dir / "there"

    monkeypatch.setattr("tandem.engine.checkpoints.hub.pull", pull)
    result = tandem("pull", "org/m:f.gguf", "--revision", "v1", "--state-dir", str(tmp_path))
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path}/there\n")


def test_refusals_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def pull(*args: object, **options: object) -> Path:
        raise CheckpointError("org/m: config.json:\n no")

    monkeypatch.setattr("tandem.engine.checkpoints.hub.pull", pull)
    result = tandem("pull", "org/m", "--state-dir", str(tmp_path))
    assert (result.exit_code, result.stderr) == (1, "Error: org/m: config.json: no\n")


@pytest.mark.parametrize(
    ("args", "code", "line"),
    [
        ([], 2, "Missing argument 'NAME', the model to fetch. See tandem pull --help."),
        (["org/m", "--list"], 2, "--list takes no NAME. See"),
        (["smollm2-135m", "--revision", "v1"], 1, "--revision: smollm2-135m has none, it is one pinned file"),
        (
            ["llama"],
            1,
            "'llama' is not a model that can be fetched; known: smollm2-135m. A model of the Hugging Face hub",
        ),
    ],
)
def test_wrong_use_is_one_line(args: list[str], code: int, line: str, tmp_path: Path) -> None:
    result = tandem("pull", *args, "--state-dir", str(tmp_path))
    assert result.exit_code == code
    assert result.stderr.startswith(f"Error: {line}")
    assert result.stderr.count("\n") == 1


def test_the_list(tmp_path: Path) -> None:
    empty = tandem("pull", "--list", "--state-dir", str(tmp_path))
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert empty.stderr == f"No model is pulled into {tmp_path}/models.\n"
    (tmp_path / "models/org/m").mkdir(parents=True)
    (tmp_path / "models/org/m/config.json").write_bytes(bytes(1500))
    (tmp_path / "models/org/long-name").mkdir()
    (tmp_path / "models/org/long-name/f.gguf").write_bytes(bytes(10))
    result = tandem("pull", "--list", "--state-dir", str(tmp_path))
    assert result.stdout.splitlines() == [
        "org/long-name:f.gguf  GGUF          10 bytes",
        "org/m                 safetensors     1.5 kB",
    ]


def test_nothing_heavy_is_loaded_for_the_list(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom tandem.cli import main\n"
        f"main(['pull', '--list', '--state-dir', {str(tmp_path)!r}], standalone_mode=False)\n"
        "heavy = {'torch', 'huggingface_hub', 'httpx2', 'gguf'} & sys.modules.keys()\nassert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60, stderr=subprocess.PIPE)


def test_only_a_pull_loads_huggingface_hub() -> None:
    found = {
        module.name.rpartition(".")[2]
        for module in tandem_modules()
        for name in imports(module.name, module.tree, is_package=module.path.endswith("__init__.py"))
        if within(name, "huggingface_hub") or name == "tandem.engine.checkpoints.hub"
    }
    assert {name for name in found if not name.startswith("hub")} <= {"pull"}
