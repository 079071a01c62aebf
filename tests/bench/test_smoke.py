"""`tandem bench` on a tiny checkpoint, and on a server that streams a few tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from bench.peers import PEERS
from tandem.bench.ours import Ours, load_ours
from tandem.bench.profile import profile
from tandem.bench.prompts import Prompts
from tandem.bench.server import LOOP, Load, costs
from tandem.bench.speculate import speculate
from tandem.bench.subject import BenchError
from tandem.bench.verifies import ROWS, verifies
from tandem.cli import main
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.load import load_engine
from tests.tiny import build_llama


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_llama(tmp_path_factory.mktemp("tiny"), max_position_embeddings=512)


def test_the_command_keeps_its_table(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        main, ["bench", "warm", "--model", str(tiny), "--threads", "1", "--rounds", "1", "--write"]
    )
    assert result.exit_code == 0, result.output
    assert "Tandem alone" in result.stderr
    [kept] = (tmp_path / "bench/results").iterdir()
    assert "Second turn of a conversation of 256 tokens" in kept.read_text(encoding="utf-8")
    assert "tandem default: tandem 0." in kept.read_text(encoding="utf-8")


def test_a_wrong_model_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["bench", "decode", "--model", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert len([line for line in result.stderr.splitlines() if line.startswith("Error: --model")]) == 1


def test_ours_and_transformers_measure_the_same_things(tiny: Path) -> None:
    ours = load_ours(tiny, 1, 512, "fp32")
    theirs = PEERS["transformers"](tiny, 1, 512)
    ids = list(range(3, 43))
    for subject in (ours, theirs):
        assert subject.prefill(ids) > 0
        assert subject.decode(ids, 4) > 0
    turn = ours.second_turn(ids, 4, [7, 8], 4)
    assert min(turn.first_token_s, turn.step_s) > 0
    assert theirs.second_turn(ids, 4, [7, 8], 4) is None


def test_a_cached_prompt_is_no_cold_prefill(tiny: Path) -> None:
    ours = Ours(load_engine(tiny, grid=32))
    ids = list(range(3, 103))
    assert ours.prefill(ids) > 0
    with pytest.raises(BenchError, match="came from a cache"):
        ours.prefill(ids)


def test_profile_of_a_token(tiny: Path) -> None:
    engine = load_engine(tiny, threads=1)
    report = profile(engine, Prompts(engine.text.encode), context=32, tokens=4)
    names = [row[0] for row in report.rows]
    assert {"layer matmuls", "head matmul", "attention", "sampler", "Python", "floor"} <= set(names)
    assert "MiB of weights" in report.notes[0]


def test_speculation_is_measured_with_and_without_drafts(tiny: Path) -> None:
    subjects = {"tandem": load_ours(tiny, 1, 512, "fp32", "auto"), "without drafts": load_ours(tiny, 1, 512, "fp32")}
    encode = open_checkpoint(tiny).text.encode
    texts = {"quoted passage": lambda number: f"{number}. " + "the quick brown fox " * 20}
    report = speculate(subjects, encode, rounds=1, tokens=24, window=512, workloads=texts)
    ours, plain = (float(row[5]) for row in report.rows)
    assert ours >= plain == 1.0


def test_rounds_by_their_rows(tiny: Path) -> None:
    engine = load_engine(tiny, threads=1, drafter="lookup")
    report = verifies(engine, Prompts(engine.text.encode), context=64, rounds=3)
    assert [row[0] for row in report.rows] == [f"{rows}" for rows in ROWS]
    assert {"layer matmuls", "head matmul", "attention", "sampler", "Python"} <= set(report.columns)
    assert "recurrence" not in report.columns
    assert engine.state()["rounds"] == 1 + 4 * len(ROWS)


def test_the_service_is_measured() -> None:
    report = costs(asks=3, loads=(Load("two", LOOP, 20, 2),))
    names = [row[0] for row in report.rows]
    assert names == ["first byte, p50", "first byte, p99", "two", "waking up every 2 ms, and nothing else"]
    assert report.rows[2][1].endswith(" us")
