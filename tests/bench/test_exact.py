"""`tandem bench exact` on tiny models: it finds nothing where there is nothing, and a defect where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from tandem.bench import exact
from tandem.bench.cases import CASES, QUICK, Starter
from tandem.bench.exact import Check, Found, check, open_check, table
from tandem.bench.features import FEATURES, PLAIN, Feature
from tandem.bench.subject import BenchError
from tandem.cli import main
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.tiny.kinds import make_tiny
from tandem.engine.tiny.qwen3_5 import build_qwen3_5
from tests.tiny import build_llama

FP32_TIE = 1e-3
"""All that a tiny fp32 model may be excused for (ENG-066)."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def opened(path: Path, tokens: int = 8) -> Check:
    given = open_check(path, cpu_weights="fp32", threads=1, quick=False, tie_nats=FP32_TIE)
    return replace(given, tokens=tokens)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_llama(tmp_path_factory.mktemp("tiny"), max_position_embeddings=1024)


def only(given: Check, *names: str) -> Check:
    return replace(given, features=[each for each in given.features if each.name in names])


@pytest.mark.spec("ENG-065", "ENG-066", "ENG-067", "ENG-070", "ENG-073")
def test_no_feature_changes_a_text_of_a_tiny_llama(tiny: Path) -> None:
    found = check(opened(tiny))
    assert [line for each in found for line in each.lines] == []
    assert {each.feature.name for each in found} >= {feature.name for feature in FEATURES}
    assert all(each.acted for each in found if each.feature.name not in ("plain", "lookup", "--drafter lookup"))
    assert all(len(each.verdicts) == len(CASES) == 14 for each in found)
    right = next(each for each in found if each.feature.name == "right drafter")
    assert right.tokens / right.rounds > 3


@pytest.mark.spec("ENG-065", "ENG-066", "ENG-073")
def test_no_feature_changes_a_text_of_a_tiny_hybrid(tmp_path: Path) -> None:
    given = opened(build_qwen3_5(tmp_path / "hybrid", mtp=True), tokens=6)
    given = replace(given, cases=[case for case in CASES if case.name in QUICK])
    found = check(given)
    assert [line for each in found for line in each.lines] == []
    assert "--drafter mtp" in {each.feature.name for each in found}


@pytest.mark.spec("ENG-066")
def test_a_feature_that_changes_a_text_is_a_defect(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another token is put in, as a commit of too many would: the table has it, and the command ends with 1."""

    def put_in(engine: TorchEngine, seq: Any) -> None:
        engine.force(seq, (7, 8, 9))

    broken = Feature("broken", "text", between=put_in)
    given = replace(only(opened(tiny)), features=[broken], cases=CASES[:2])
    report = table(given, check(given))
    [row] = report.rows
    assert row[-1] == "2"
    assert len(report.notes) == 2
    assert all(note.startswith("broken, ") and note.endswith("DEFECT") for note in report.notes)

    def open_broken(*_: object, **__: object) -> Check:
        return given

    monkeypatch.setattr(exact, "open_check", open_broken)
    result = CliRunner().invoke(main, ["bench", "exact", "--quick", "--model", str(tiny), "--threads", "1"])
    assert result.exit_code == 1, result.output
    assert result.output.count("DEFECT") == 2


def test_the_command_ends_with_0_where_everything_holds(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = replace(only(opened(tiny), "ask"), cases=CASES[:1])
    monkeypatch.setattr(exact, "open_check", lambda *_, **__: given)
    result = CliRunner().invoke(main, ["bench", "exact", "--model", str(tiny), "--threads", "1", "--tie-nats", "0.01"])
    assert result.exit_code == 0, result.output
    assert "bit" in result.output


def test_a_feature_that_never_acts_is_told(tiny: Path) -> None:
    given = replace(opened(tiny), features=[Feature("idle", "bit")], cases=CASES[:1])
    assert table(given, check(given)).notes == ("idle was never at work",)
    assert table(given, [Found(PLAIN)]).notes == ()


def test_a_window_without_room_is_named(tiny: Path) -> None:
    given = opened(tiny)
    with pytest.raises(BenchError, match="the case story takes"):
        check(replace(given, card=replace(given.card, max_len=64)))


@pytest.mark.spec("ENG-074")
def test_the_fourteen_requests_cover_each_way_to_choose_a_token(tiny: Path) -> None:
    assert len(CASES) == len({case.name for case in CASES}) == 14
    assert any(case.cap for case in CASES)
    assert any(case.tools for case in CASES)
    assert any(case.constraint for case in CASES)
    assert any(case.rules.seed is not None for case in CASES)
    assert any(case.rules.repetition_penalty != 1 for case in CASES)
    given = opened(tiny)
    starter = Starter(given.text, given.card, 4)
    prompts = {case.name: starter.prompt(case) for case in CASES}
    assert prompts["thinking"].thinking == "open"
    assert len({prompt.ids for prompt in prompts.values()}) >= 12


def test_make_tiny_serves_the_check_too(tmp_path: Path) -> None:
    """A template with tools, over the kinds that `tandem models make-tiny` makes."""
    path = make_tiny("llama", tmp_path / "made")
    given = only(opened(path, tokens=4), "resident prefix")
    [found] = check(replace(given, cases=[case for case in CASES if case.tools]))
    assert not found.defects
    assert found.acted
