"""`tandem models make-tiny`: what it writes, what it says, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tandem.cli.app import main
from tandem.cli.models import KINDS
from tandem.engine.checkpoints.load import open_checkpoint, resolve_model
from tandem.engine.tiny import kinds


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["models", "make-tiny", *args], prog_name="tandem")


def test_the_kinds_of_the_help_are_those_there_are() -> None:
    assert tuple(kinds.KINDS) == KINDS
    shown = " ".join(run("--help").output.split())
    for kind, (words, _) in kinds.KINDS.items():
        assert f"{kind} {words}" in shown


@pytest.mark.spec("ENG-017")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_can_be_served_as_the_last_line_says(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "tiny"
    result = run(kind, "--out", str(out))
    assert result.exit_code == 0, result.output
    [line] = result.stdout.splitlines()
    assert line.startswith(f"{kind}, ")
    model = line.split("tandem serve --model ")[1]
    assert open_checkpoint(resolve_model(model, tmp_path)).config.num_hidden_layers in (2, 4)
    assert result.stderr == ""


@pytest.mark.spec("ENG-017")
def test_seed_and_sizes_are_taken(tmp_path: Path) -> None:
    result = run("llama", "--out", str(tmp_path / "a"), "--seed", "3", "--layers", "1", "--hidden", "32")
    assert result.exit_code == 0, result.output
    config = open_checkpoint(tmp_path / "a").config
    assert (config.num_hidden_layers, config.hidden_size) == (1, 32)
    run("llama", "--out", str(tmp_path / "b"), "--seed", "4", "--layers", "1", "--hidden", "32")
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert one != other


def test_a_path_with_a_blank_is_quoted(tmp_path: Path) -> None:
    result = run("llama", "--out", str(tmp_path / "my model"))
    assert result.stdout.rstrip().endswith(f"--model '{tmp_path}/my model'")


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (("nothing", "--out", "x"), 2, "'nothing' is not one of 'llama', "),
        (("llama",), 2, "Missing option '--out'"),
        (("llama", "--out", "{}/x", "--layers", "0"), 2, "Invalid value for '--layers'"),
        (("llama", "--out", "{}/x", "--hidden", "40"), 1, "hidden 40: must be a multiple of 32"),
        (("llama", "--out", "{}"), 1, "is there and is no empty directory; nothing was written"),
    ],
)
def test_refusals_are_one_line(tmp_path: Path, args: tuple[str, ...], status: int, message: str) -> None:
    (tmp_path / "mine").touch()
    result = run(*(arg.format(tmp_path) for arg in args))
    assert result.exit_code == status
    [line] = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert message in line
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]
