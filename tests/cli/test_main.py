"""The command itself, and what `serve` and `pull` do before and around their work."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result

from tandem import __version__
from tandem.cli import main
from tandem.cli.app import COMMANDS
from tandem.config import SettingError, Settings, declared
from tandem.engine.errors import CheckpointError

Run = Callable[[Settings, Mapping[str, str]], int]


def tandem(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


@pytest.fixture
def serve_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], None]:
    """Put a function in the place of `tandem.serve.run`."""

    def replace(run: Run) -> None:
        module = types.ModuleType("tandem.serve")
        module.__dict__["run"] = run
        monkeypatch.setitem(sys.modules, "tandem.serve", module)

    return replace


def raising(error: BaseException) -> Run:
    def run(_: Settings, _environ: Mapping[str, str]) -> NoReturn:
        raise error

    return run


def test_version() -> None:
    assert tandem("--version").stdout == f"tandem, version {__version__}\n"


def test_the_service_of_the_fake_engine_needs_no_torch() -> None:
    code = (
        "import sys\nimport tandem.serve, tandem.asgi, tandem.engine.fake.engine\n"
        "heavy = {'torch', 'triton'} & sys.modules.keys()\nassert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_module_runs_without_torch() -> None:
    code = (
        "import sys\nfrom tandem.cli import main\n"
        "for args in (['--help'], ['serve', '--help'], ['--version']):\n"
        "    main(args, standalone_mode=False)\n"
        "heavy = {'torch', 'trio', 'quart', 'numpy'} & sys.modules.keys()\nassert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([sys.executable, "-m", "tandem", "--version"], check=True, capture_output=True, text=True)
    assert __version__ in done.stdout


@pytest.mark.parametrize("command", [(), *((each,) for each in COMMANDS)])
def test_help(command: tuple[str, ...]) -> None:
    result = tandem(*command, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.stdout


def test_bare_command_shows_the_help() -> None:
    result = tandem()
    assert result.exit_code == 2
    assert "serve" in result.output


def test_serve_help_lists_every_setting() -> None:
    text = tandem("serve", "--help").stdout
    for setting in declared().values():
        assert f"  {setting.flag}" in text
        assert f"{setting.group}:" in text
    assert len(text.splitlines()) < 4 * len(declared())  # a sentence each, and the groups' names


@pytest.mark.spec("API-008")
@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["serve", "--prot", "1"], "Error: No such option '--prot'"),
        (["serve", "--port"], "Error: Option '--port' requires an argument"),
        (["serve", "x"], "Error: Got unexpected extra argument (x)"),
        (["wash"], "Error: No such command 'wash'"),
        (["--wash"], "Error: No such option '--wash'"),
        (["pull"], "Error: Missing argument 'NAME'"),
    ],
)
def test_wrong_usage_is_one_line(args: list[str], line: str) -> None:
    result = tandem(*args)
    assert result.exit_code == 2
    assert result.stderr.startswith(line)
    assert "See tandem" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.spec("API-008")
def test_wrong_value_names_the_flag_or_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    result = tandem("serve", "--port", "70000")
    assert result.exit_code == 1
    assert result.stderr == "Error: --port: '70000' is not allowed; it takes a whole number from 0 to 65535\n"
    monkeypatch.setenv("TANDEM_MAX_QUEUE", "many")
    assert tandem("serve").stderr.startswith("Error: TANDEM_MAX_QUEUE: 'many' is not allowed")


def test_serve_hands_over_the_settings(serve_with: Callable[[Run], None], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []

    def run(settings: Settings, environ: Mapping[str, str]) -> int:
        assert environ["TANDEM_PORT"] == "9000"
        seen.append(settings)
        return 3

    serve_with(run)
    monkeypatch.setenv("TANDEM_PORT", "9000")
    monkeypatch.setenv("TANDEM_HOST", "::1")
    result = tandem("serve", "--fake", "--port", "9001", "--usage-default", "off", "--log-content")
    assert result.exit_code == 3
    assert seen == [
        Settings.from_sources({"fake": "on", "port": "9001", "usage_default": "off", "log_content": True}, os.environ)
    ]
    assert (seen[0].port, seen[0].host, seen[0].fake, seen[0].log_request_keys) == (9001, "::1", True, False)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CheckpointError("model.gguf: no such\nfile"), "model.gguf: no such file"),
        (SettingError("--url: no"), "--url: no"),
        (OSError(errno.EADDRINUSE, "in use"), "--port: another process listens there"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/state/lock"),
            "STATE cannot be used: /state/lock: Permission denied.",
        ),
        (OSError(errno.EADDRNOTAVAIL, "none"), "--host: no address of this machine"),
        (socket.gaierror(-2, "unknown"), "--host: the name is no address of this machine"),
        (BaseExceptionGroup("", [ExceptionGroup("", [CheckpointError("x: bad")])]), "x: bad"),
    ],
)
def test_errors_before_the_start_are_one_line(
    serve_with: Callable[[Run], None], error: BaseException, line: str
) -> None:
    serve_with(raising(error))
    result = tandem("serve", "--state-dir", "/state")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {line}")
    assert result.stderr.count("\n") == 1


@pytest.mark.spec("API-259")
def test_a_locked_state_is_one_line(serve_with: Callable[[Run], None]) -> None:
    from tandem.state import StateLocked

    serve_with(raising(StateLocked(Path("/state"), 4711)))
    line = tandem("serve").stderr
    assert line.startswith("Error: /state is in use by process 4711")
    assert line.count("\n") == 1


@pytest.mark.spec("API-001")
@pytest.mark.parametrize(
    ("host", "password", "warnings"), [("0.0.0.0", "", 1), ("0.0.0.0", "p" * 32, 0), ("127.0.0.1", "", 0)]
)
def test_an_address_that_others_reach_is_warned_of_once(
    host: str, password: str, warnings: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tandem import serve

    def bind(_: Settings) -> NoReturn:
        raise OSError("no socket in this test")

    monkeypatch.setattr(serve, "_bind", bind)
    with pytest.raises(OSError, match="no socket"):
        serve.run(Settings(fake=True, host=host), {"TANDEM_ADMIN_TOKEN": password})
    lines = capsys.readouterr().out.splitlines()
    assert [" WARNING " in line and host in line for line in lines].count(True) == warnings


@pytest.mark.parametrize("error", [RuntimeError("bug"), ExceptionGroup("", [CheckpointError("x"), ValueError("bug")])])
def test_a_bug_keeps_its_traceback(serve_with: Callable[[Run], None], error: Exception) -> None:
    serve_with(raising(error))
    assert tandem("serve").exception is error


def test_pull_knows_its_names() -> None:
    result = tandem("pull", "llama")
    assert result.exit_code == 1
    assert "known: smollm2-135m." in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.spec("ENG-004")
def test_pull_fetches_and_prints_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tandem.engine.checkpoints import embedded

    def fetch(state_dir: Path, progress: Callable[[int, int], None]) -> Path:
        progress(0, 0)
        progress(50, 100)
        return state_dir / "models" / "x.gguf"

    monkeypatch.setattr(embedded, "fetch", fetch)
    result = tandem("pull", "smollm2-135m", "--state-dir", str(tmp_path))
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path}/models/x.gguf\n")


@pytest.mark.spec("ENG-004")
def test_pull_without_a_network_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tandem.engine.checkpoints import embedded

    def fetch(state_dir: Path, progress: Callable[[int, int], None]) -> Path:
        raise CheckpointError("no network: tandem pull smollm2-135m")

    monkeypatch.setattr(embedded, "fetch", fetch)
    result = tandem("pull", "smollm2-135m", "--state-dir", str(tmp_path))
    assert (result.exit_code, result.stderr) == (1, "Error: no network: tandem pull smollm2-135m\n")
