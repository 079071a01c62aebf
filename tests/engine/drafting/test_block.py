"""A block drafter: its pass against float64, its state over the life of a sequence, and that it changes no token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tandem.engine.checkpoints.block import read_block_config
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.block import BUDGET, LATE_BUDGET, BlockDrafter
from tandem.engine.drafting.block_layers import BlockLayers, load_block
from tandem.engine.drafting.combined import Combined, Proposing
from tandem.engine.errors import CheckpointError
from tandem.engine.load import load_engine
from tandem.engine.models.tapped import Tapped, TappedModel
from tandem.engine.tiny.block import block_config, block_tensors, build_block
from tandem.engine.tiny.kinds import make_tiny
from tandem.engine.tiny.llama import build_llama
from tandem.engine.verbs import EMPTY_TREE, SamplingRules, Tree
from tests.engine.decoding.engines import GREEDY, KIND, KINDS, PROMPT, read, tiny, tiny_engine
from tests.engine.drafting.test_mtp_in_engine import write
from tests.engine.models.block import naive_block
from tests.engine.models.memory import VOCAB, MemoryWeights, quiet

pytestmark = pytest.mark.usefixtures("kind")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    token = KIND.set(request.param)
    yield request.param
    KIND.reset(token)


DRAWN = SamplingRules(temperature=0.8, seed=11)


def layers_of(
    tmp_path: Path, seed: int = 0, **overrides: Any
) -> tuple[BlockLayers, dict[str, Any], dict[str, torch.Tensor]]:
    path = build_block(tmp_path / f"block-{seed}", vocab_size=VOCAB, tokenizer_sha256="x", seed=seed, **overrides)
    config = block_config(VOCAB, "x", **overrides)
    tensors = block_tensors(config, seed)
    return load_block(read_block_config(path), MemoryWeights(tensors), quiet, "fp32"), config, tensors


def engine_of(
    tmp_path: Path, model: TappedModel, seed: int = 0, wrap: Callable[[BlockDrafter], Any] = lambda it: it
) -> TorchEngine:
    layers, _, _ = layers_of(tmp_path, seed)
    target = Tapped(model, layers.config.tapped_layers)
    return tiny_engine(model=target, drafter=wrap(BlockDrafter(layers, target, 256)))


@pytest.mark.spec("ENG-054")
def test_its_pass_is_that_of_float64(tmp_path: Path) -> None:
    model = tiny().model
    layers, config, tensors = layers_of(tmp_path)
    target, ids = Tapped(model, (0, 1)), torch.tensor(PROMPT[:20])
    with torch.inference_mode():
        hidden = target.forward(ids, 0, target.new_state(64))
        assert hidden.shape == (20, 3 * 64)
        cache = layers.new_cache(64)
        layers.keep(hidden[:13, 64:].contiguous(), 0, cache)  # in two parts, as a prompt is read
        layers.keep(hidden[13:, 64:].contiguous(), 13, cache)
        newest = model.embed(torch.tensor([7]))
        made = layers.forward(newest, 15, 20, 20, cache)
    wanted = naive_block(config, tensors, hidden[:, 64:].view(20, 2, 64), newest[0], 15, 20)
    assert (made.double() - wanted).abs().max() <= 1e-5 * wanted.abs().max()
    with torch.inference_mode():  # what a pass left behind the context is scratch
        assert torch.equal(layers.forward(newest, 15, 20, 20, cache), made)


@pytest.mark.spec("ENG-054", "ENG-072")
def test_taps_change_no_bit_and_cost_nothing_where_nobody_listens() -> None:
    model, ids = tiny().model, torch.tensor(PROMPT[:20])
    parents = torch.tensor([-1, 0, 1, 0])
    with torch.inference_mode():
        state = model.new_state(64)
        plain = model.forward(ids, 0, state), model.verify(ids[:4], parents, 20, state)
        assert model.taps is None
        target = Tapped(model, (model.config.num_hidden_layers - 1,))
        state = target.new_state(64)
        tapped = target.forward(ids, 0, state), target.verify(ids[:4], parents, 20, state)
        logits = [target.logits(each) for each in tapped]
    for one, other, row in zip(plain, tapped, logits, strict=True):
        assert torch.equal(one, other[:, :64])
        assert torch.equal(row, model.logits(one))
    # Behind the last layer stands what the last norm makes the hidden state of.
    last = tapped[0][:, 64:]
    shape = last / last.square().mean(dim=1, keepdim=True).sqrt()
    weight = (plain[0] / shape).median(dim=0).values
    assert torch.allclose(shape * weight, plain[0], atol=1e-3)


@pytest.mark.spec("ENG-054", "ENG-065")
@pytest.mark.parametrize("rules", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_no_text_changes(tmp_path: Path, rules: SamplingRules) -> None:
    plain = tiny_engine(model=tiny().model)
    text, _ = write(plain, read(plain, PROMPT), 50, rules)
    for at, wrap in enumerate((lambda it: it, lambda it: Combined([it]))):
        engine = engine_of(tmp_path, tiny().model, at, wrap)
        seq = read(engine, PROMPT)
        assert write(engine, seq, 50, rules)[0] == text
        engine.close(seq)
        assert engine.state()["draft_faults"] == 0
        assert engine.state()["drafted_tokens"] > (20 if at == 0 else -1)


@pytest.mark.spec("ENG-048", "ENG-054", "ENG-065")
def test_resumes_forced_ids_questions_and_snapshots_change_no_text(tmp_path: Path) -> None:
    def conversation(engine: TorchEngine) -> list[object]:
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
        for again in (PROMPT[:40], [*PROMPT, 4, 9]):
            seq = read(engine, again)
            told.append(write(engine, seq, 10)[0])
            engine.close(seq)
        return told

    engine = engine_of(tmp_path, tiny().model)
    told, wanted = conversation(engine), conversation(tiny_engine(model=tiny().model))
    assert told[2] == pytest.approx(wanted[2], rel=1e-4)
    assert [*told[:2], *told[3:]] == [*wanted[:2], *wanted[3:]]
    assert engine.state()["draft_faults"] == 0
    assert engine.state()["drafted_tokens"] > 100


@pytest.mark.spec("ENG-048")
def test_it_reads_what_a_fresh_one_would(tmp_path: Path) -> None:
    """After taken branches, trims and forced ids its next block is that of one that read the text in one go."""
    plain = tiny_engine(model=tiny().model)
    text, _ = write(plain, read(plain, PROMPT), 40)
    engine = engine_of(tmp_path, tiny().model)
    drafter: Any = engine._guide._drafter
    own = drafter.propose

    def right(ids: list[int], nodes: int, depth: int) -> Tree:
        """Behind a wrong branch three right tokens."""
        ahead = text[len(ids) - len(PROMPT) :][: min(3, depth)]
        return Tree(((ahead[0] + 1) % VOCAB, *ahead), (-1, -1, *range(1, len(ahead))))

    drafter.propose = right
    seq = read(engine, PROMPT)
    write(engine, seq, 17)
    assert engine.state()["accepted_tokens"] > 10
    drafter.propose = own
    engine.trim(seq, 0)
    engine.settle(seq)
    engine.force(seq, [9])
    ids = list(seq.history.ids)
    tree = drafter.propose(ids, 31, 31)
    fresh = engine_of(tmp_path, tiny().model)
    other: Any = fresh._guide._drafter
    read(fresh, ids)
    again = other.propose(ids, 31, 31)
    assert tree.tokens == again.tokens
    assert tree.scores == pytest.approx(again.scores, rel=1e-3)
    assert drafter.propose([*ids, 3, 4, 5], 31, 31).tokens == ()  # rows of which it knows nothing


@pytest.mark.spec("ENG-054", "ENG-056", "ENG-060")
def test_it_is_narrow_or_wide_and_has_more_nodes_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[int, int]]()

    def grown(lattice: Any, nodes: int, source: str) -> Any:
        asked.append((len(lattice.ids), nodes))
        assert all(len(each) == 16 for each in lattice.ids)
        return EMPTY_TREE

    monkeypatch.setattr("tandem.engine.drafting.block.grown", grown)
    engine = engine_of(tmp_path, tiny().model)
    drafter: Any = engine._guide._drafter
    assert drafter.widths == (7, 15)
    seq = read(engine, PROMPT)
    for nodes, depth in ((7, 31), (31, 31), (31, 4), (3, 31)):
        drafter.propose(seq.history.ids, nodes, depth)
    assert asked == [(7, 7), (15, BUDGET), (4, BUDGET), (7, 3)]
    write(engine, seq, 33)
    asked.clear()
    drafter.propose(seq.history.ids, 31, 31)
    drafter.propose(seq.history.ids, 7, 31)
    assert asked == [(15, LATE_BUDGET), (7, 7)]


def served(tmp_path: Path, kind: str, **overrides: Any) -> tuple[Path, Path]:
    path = make_tiny("qwen3_5", tmp_path / kind) if kind == "qwen3_5" else build_llama(tmp_path / kind)
    plain = load_engine(path, cpu_weights="fp32")
    sha = plain.text.sha256
    sizes = {"vocab_size": plain.card.vocab_size, "tokenizer_sha256": sha, **overrides}
    return path, build_block(tmp_path / "block", **sizes)


@pytest.mark.spec("ENG-031", "ENG-046", "ENG-054")
def test_a_load_serves_it_beside_other_drafters(tmp_path: Path, kind: str) -> None:
    path, block = served(tmp_path, kind)
    plain = load_engine(path, cpu_weights="fp32")
    ids = [*range(20), *range(20)]
    text = write(plain, read(plain, ids), 30)[0]
    for drafter, name in (("none", "block"), ("lookup", "block+lookup")):
        engine = load_engine(path, cpu_weights="fp32", drafter=drafter, proposing=Proposing(block=block))  # type: ignore[arg-type]
        report = engine.card.weights
        assert report["drafter"] == name
        assert dict(report["loaded_bytes"])["block"] > 0  # type: ignore[call-overload]
        assert write(engine, read(engine, ids), 30)[0] == text
        assert engine.state()["draft_faults"] == 0


@pytest.mark.spec("ENG-047")
@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"hidden_size": 32}, "hidden_size is 32, that of"),
        ({"vocab_size": 77}, "vocab_size is 77"),
        ({"tokenizer_sha256": "other"}, "tokenizer_sha256 is other"),
        ({"tapped_layers": [1, 99]}, "it taps layer 99"),
        ({"tapped_layers": [1, 0]}, "tapped_layers do not rise"),
        ({"tapped_layers": "all"}, "tapped_layers is no list"),
        ({"block_width": 0}, "block_width is not a whole number"),
        ({"architectures": ["Other"]}, "architectures is not"),
        ({"num_attention_heads": 3}, "heads that do not divide"),
    ],
)
def test_what_the_target_does_not_offer_stops_the_start(
    tmp_path: Path, kind: str, overrides: dict[str, Any], named: str
) -> None:
    path, block = served(tmp_path, kind, **overrides)
    with pytest.raises(CheckpointError, match=rf"--block-drafter .*{named}"):
        load_engine(path, cpu_weights="fp32", proposing=Proposing(block=block))


@pytest.mark.spec("ENG-020", "ENG-047")
def test_a_directory_that_is_none_is_named(tmp_path: Path, kind: str) -> None:
    path, block = served(tmp_path, kind)
    with pytest.raises(CheckpointError, match=r"--block-drafter .*no config\.json"):
        load_engine(path, cpu_weights="fp32", proposing=Proposing(block=tmp_path / "none"))
    tensors = block_tensors(block_config(10), 0)
    assert set(tensors) > {"slot.weight"}
    (block / "model.safetensors").unlink()
    with pytest.raises(CheckpointError):
        load_engine(path, cpu_weights="fp32", proposing=Proposing(block=block))
