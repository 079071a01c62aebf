"""A head over the ids that are written most, and what comes of it where a drafter does not keep its promise."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tandem.engine.drafting import choice
from tandem.engine.drafting.agreement import WINDOW, disagreement
from tandem.engine.drafting.hot import MARKS, HotHead
from tandem.engine.drafting.mtp import MtpDrafter
from tandem.engine.load import load_engine
from tandem.engine.models.formats import CPU_WEIGHTS, CpuWeights
from tandem.engine.tiny.kinds import make_tiny
from tests.engine.decoding.engines import GREEDY, PROMPT, read, rounds, tiny_engine
from tests.engine.models.mtp import copying, tiny_mtp


@pytest.mark.spec("ENG-052")
def test_the_first_ids_and_the_last_ones_are_hot() -> None:
    ids = HotHead.ids_of(4096, 1000)
    assert ids is not None
    assert ids.tolist() == [*range(1000 - MARKS), *range(4096 - MARKS, 4096)]
    assert [HotHead.ids_of(4096, count) for count in (0, MARKS, 2049, 9999)] == [None] * 4


@pytest.mark.spec("ENG-052")
@pytest.mark.parametrize("kind", CPU_WEIGHTS)
def test_its_logits_are_the_heads_own(kind: CpuWeights) -> None:
    model = tiny_mtp(cpu_weights=kind).model
    ids, hidden = torch.tensor([3, 7, 390, 399]), torch.randn(2, 64, generator=torch.Generator().manual_seed(0))
    hot = HotHead(model.head, ids, 64, kind)
    assert torch.equal(hot.logits(hidden), model.logits(hidden)[:, ids])
    assert hot.nbytes < 4 * 65 * 4


@pytest.mark.spec("ENG-052")
def test_only_what_is_hot_is_drafted_and_all_is_written() -> None:
    tiny = copying()
    plain = tiny_engine(model=tiny.model)
    text = rounds(plain, read(plain, PROMPT), 30)
    ids = torch.tensor(sorted(set(text))[::2])
    drafter = MtpDrafter(tiny.layer, 256, hot=HotHead(tiny.model.head, ids, 64, "fp32"))
    engine = tiny_engine(model=tiny.model, drafter=drafter)
    seq, written = read(engine, PROMPT), list[int]()
    while len(written) < 30:
        tree = engine.draft(seq, 30 - len(written))
        assert set(tree.tokens) <= set(ids.tolist())
        [rows] = engine.verify([(seq, tree)])
        written += engine.accept(seq, rows, GREEDY).ids
    assert written == text


@pytest.mark.spec("ENG-053")
def test_a_drafter_that_changes_a_text_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = copying()
    drafter = MtpDrafter(tiny.layer, WINDOW)
    assert disagreement(tiny.model, None, drafter) == ""  # type: ignore[arg-type]
    verify = tiny.model.verify

    def wrong(ids: torch.Tensor, parents: torch.Tensor, start: int, state: object) -> torch.Tensor:
        return -verify(ids, parents, start, state)  # type: ignore[arg-type]

    monkeypatch.setattr(tiny.model, "verify", wrong)
    assert "differs" in disagreement(tiny.model, None, drafter)  # type: ignore[arg-type]


@pytest.mark.spec("ENG-053")
@pytest.mark.parametrize(("drafter", "left"), [("mtp", "none"), ("mtp+lookup", "lookup")])
def test_it_is_switched_off_with_the_reason_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drafter: choice.DrafterKind, left: str
) -> None:
    monkeypatch.setattr("tandem.engine.drafting.hot.MARKS", 32)
    path = make_tiny("qwen3_5", tmp_path / "tiny")
    report = load_engine(path, drafter=drafter, draft_hot=100).card.weights
    assert report["drafter"] == drafter
    assert "hot head" in report["loaded_bytes"]  # type: ignore[operator]
    monkeypatch.setattr(choice, "disagreement", lambda *_: "it differs")
    report = load_engine(path, drafter=drafter, draft_hot=100).card.weights
    assert (report["drafter"], report["drafter_off"]) == (left, "mtp: it differs")
