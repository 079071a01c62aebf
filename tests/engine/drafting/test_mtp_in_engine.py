"""An engine that drafts with a prediction layer writes what it writes without, in fewer rounds if the layer is good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tandem.engine.checkpoints.hf_vision import read_vision
from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Round, perform
from tandem.engine.drafting.mtp import MtpDrafter
from tandem.engine.errors import CheckpointError
from tandem.engine.load import load_engine
from tandem.engine.memory import GIB
from tandem.engine.models.vision.preprocess import Cutter
from tandem.engine.tiny.kinds import make_tiny
from tandem.engine.tiny.qwen3_5 import build_qwen3_5
from tandem.engine.verbs import Accepted, SamplingRules
from tests.engine.decoding.engines import GREEDY, ids_of, read, tiny_engine
from tests.engine.models.mtp import TinyMtp, copying, tiny_mtp
from tests.engine.models.vision.seeing import engine_of as engine_of_checkpoint
from tests.engine.models.vision.seeing import picture, prompt_of

PROMPT = ids_of(75)
DRAWN = SamplingRules(temperature=0.8, seed=11)


def engine_of(tiny: TinyMtp, *, drafting: bool = True) -> TorchEngine:
    drafter = MtpDrafter(tiny.layer, 256) if drafting else None
    return tiny_engine(model=tiny.model, drafter=drafter)


def write(engine: TorchEngine, seq: TorchSequence, count: int, rules: SamplingRules = GREEDY) -> tuple[list[int], int]:
    """`count` ids, and how many rounds they took."""
    out: list[int] = []
    rounds = 0
    while len(out) < count:
        accepted = perform(engine, seq, Round(count - len(out)), rules)
        assert isinstance(accepted, Accepted)
        out.extend(accepted.ids)
        rounds += 1
    return out, rounds


@pytest.mark.spec("ENG-052", "ENG-065")
@pytest.mark.parametrize("make", [tiny_mtp, copying])
@pytest.mark.parametrize("rules", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_no_text_changes(make: Callable[[int], TinyMtp], rules: SamplingRules) -> None:
    for seed in range(2):
        tiny = make(seed)
        texts = []
        for drafting in (True, False):
            engine = engine_of(tiny, drafting=drafting)
            texts.append(write(engine, read(engine, PROMPT), 40, rules)[0])
            assert (engine.state()["drafted_tokens"] > 40) == drafting
        assert texts[0] == texts[1]


@pytest.mark.spec("ENG-052")
def test_a_layer_that_knows_the_model_saves_rounds() -> None:
    engine = engine_of(copying())
    text, rounds = write(engine, read(engine, PROMPT), 60)
    assert len(text) == 60
    assert rounds <= 60 / 4.5  # four drafted tokens and the model's own
    assert engine.state()["accepted_tokens"] >= 45


@pytest.mark.spec("ENG-048", "ENG-065")
def test_resumes_forced_ids_questions_and_snapshots_change_no_text() -> None:
    tiny = copying(1)

    def conversation(engine: TorchEngine) -> Sequence[object]:
        seq = read(engine, PROMPT)
        told: list[object] = [write(engine, seq, 12)[0]]
        engine.force(seq, [5, 6, 7])
        told.append(write(engine, seq, 9)[0])
        told.append(engine.ask(seq, [3, 4], [8, 9]))
        kept = engine.snapshot(seq)
        told.append(write(engine, seq, 9, DRAWN)[0])
        engine.restore(seq, kept)
        told.append(write(engine, seq, 9)[0])
        engine.close(seq)
        for again in ([*PROMPT[:64], *ids_of(20, 3)], PROMPT, [*PROMPT, *ids_of(9, 4)]):
            seq = read(engine, again)
            told.append(write(engine, seq, 14)[0])
            engine.close(seq)
        return told

    drafting, plain = engine_of(tiny), engine_of(tiny, drafting=False)
    told, wanted = conversation(drafting), conversation(plain)
    assert told[2] == pytest.approx(wanted[2], rel=1e-4)
    assert [*told[:2], *told[3:]] == [*wanted[:2], *wanted[3:]]
    assert drafting.state()["rounds"] < plain.state()["rounds"] / 2
    assert drafting.state()["draft_faults"] == 0


@pytest.mark.spec("ENG-019", "ENG-031", "ENG-046")
@pytest.mark.parametrize("kind", ["qwen3_5", "qwen3_5-nvfp4"])
def test_a_load_reads_the_layer_where_it_is_to_draft(tmp_path: Path, kind: str) -> None:
    path = make_tiny(kind, tmp_path / "tiny")
    plain = load_engine(path, cpu_weights="int8").card.weights
    calls: list[tuple[int, int]] = []
    engine = load_engine(path, cpu_weights="int8", drafter="mtp", progress=lambda *call: calls.append(call))
    report = engine.card.weights
    assert (plain["drafter"], report["drafter"]) == ("none", "mtp")
    assert "mtp" in plain["skipped"]  # type: ignore[operator]
    assert "mtp" not in report.get("skipped", ())  # type: ignore[operator]
    assert report["unused"] == []
    loaded = dict(report["loaded_bytes"])  # type: ignore[call-overload]
    assert loaded.pop("mtp") > 0
    assert loaded == plain["loaded_bytes"]
    assert calls[-1] == (15, 15)
    write(engine, read(engine, list(range(20))), 10)
    assert engine.state()["draft_faults"] == 0


@pytest.mark.spec("ENG-046")
@pytest.mark.parametrize("drafter", ["lookup", "mtp+lookup"])
def test_drafters_are_chosen_and_combined(tmp_path: Path, drafter: str) -> None:
    engine = load_engine(make_tiny("qwen3_5", tmp_path / "tiny"), cpu_weights="fp32", drafter=drafter)  # type: ignore[arg-type]
    assert engine.card.weights["drafter"] == drafter
    plain = load_engine(tmp_path / "tiny", cpu_weights="fp32")
    ids = [*range(30), *range(30)]
    assert write(engine, read(engine, ids), 40)[0] == write(plain, read(plain, ids), 40)[0]
    assert engine.state()["draft_faults"] == 0


@pytest.mark.spec("ENG-047")
@pytest.mark.parametrize("drafter", ["mtp", "mtp+lookup"])
def test_a_checkpoint_without_the_layer_stops_the_start(tmp_path: Path, drafter: str) -> None:
    path = make_tiny("llama", tmp_path / "tiny-llama")
    with pytest.raises(CheckpointError, match=r"--drafter mtp.*tiny-llama \(llama\) has no layer.*mtp\.fc\.weight"):
        load_engine(path, drafter=drafter)  # type: ignore[arg-type]


@pytest.mark.spec("ENG-031")
def test_the_room_for_its_rows_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.engine.load.available", lambda: GIB // 2)
    with pytest.raises(CheckpointError, match=r"the drafter's rows and head of .* \(--drafter\)"):
        load_engine(make_tiny("qwen3_5", tmp_path / "tiny"), drafter="mtp")


@pytest.mark.spec("ENG-052", "ENG-065")
def test_behind_an_image_no_text_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build_qwen3_5(tmp_path / "tiny", seed=3, vision=True)
    # What it drafts is random: no price is to keep it from a verify.
    monkeypatch.setattr("tandem.engine.drafting.choice.Combined", lambda drafters, **_: drafters[0])
    texts = []
    for drafter in ("mtp", "none"):
        engine = engine_of_checkpoint(path, drafter=drafter)
        vision = read_vision(path)
        assert vision is not None
        asked = prompt_of(vision.image_token_id, 20, Cutter(vision).cut(picture(200, 190)), 4)
        seq = engine.open(asked)
        while engine.prefill(seq, len(asked.ids)).done < len(asked.ids):
            pass
        texts.append(write(engine, seq, 24)[0])
        assert (engine.state()["drafted_tokens"] > 24) == (drafter == "mtp")
        assert engine.state()["draft_faults"] == 0
    assert texts[0] == texts[1]
