"""A chain that a drafter draws for an answer that is drawn: how it is drawn, how long it is, and what it saves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tandem.engine.decoding.noise import Noise
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.walk import Walked, walk
from tandem.engine.decoding.work import Round, perform
from tandem.engine.drafting.calibration import Depths
from tandem.engine.drafting.combined import Combined, Proposing
from tandem.engine.drafting.drafter import Draw, Drawing
from tandem.engine.drafting.hot import HotHead
from tandem.engine.drafting.lookup import LookupDrafter
from tandem.engine.drafting.mtp import DEPTH, MtpDrafter
from tandem.engine.drafting.prices import Prices
from tandem.engine.drafting.tree import chain
from tandem.engine.verbs import Accepted, SamplingRules
from tests.engine.decoding.engines import GREEDY, PROMPT, read, tiny_engine
from tests.engine.models.mtp import TinyMtp, copying, tiny_mtp

SPREAD = SamplingRules(temperature=8.0)
"""Such that the tiny model is sure of nothing."""


def still(count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.float64)


def drafted(tiny: TinyMtp, hot: HotHead | None = None) -> tuple[MtpDrafter, list[int]]:
    """A drafter that has read a prompt, and its ids with one more."""
    drafter = MtpDrafter(tiny.layer, 256, hot=hot)
    engine = tiny_engine(model=tiny.model, drafter=drafter)
    seq = read(engine, PROMPT)
    accepted = perform(engine, seq, Round(1), GREEDY)
    assert isinstance(accepted, Accepted)
    return drafter, list(seq.history.ids)


@pytest.mark.spec("ENG-069")
@pytest.mark.parametrize("hot", [False, True])
def test_each_token_is_drawn_from_the_shares_it_comes_with(hot: bool) -> None:
    tiny = tiny_mtp()
    ids = torch.arange(0, 400, 3)
    drafter, history = drafted(tiny, HotHead(tiny.model.head, ids, 64, "fp32") if hot else None)
    width = len(ids) if hot else tiny.model.config.vocab_size
    drawn = drafter.draw(history, 31, 9, Draw(0.7, still))
    assert drawn.shares is not None
    assert drawn.shares.shape == (DEPTH, width)
    assert drawn.shares.sum(dim=1).tolist() == pytest.approx([1.0] * DEPTH)
    columns = drawn.shares.argmax(dim=1)  # without noise the likeliest is drawn
    assert drawn.tree.tokens == tuple((ids[columns] if hot else columns).tolist())
    assert (drawn.ids is None) != hot

    def loud(count: int) -> Tensor:
        return still(count).index_fill_(0, torch.tensor(5), 1e6)

    assert drafter.draw(history, 31, 2, Draw(0.7, loud)).tree.tokens == ((15, 15) if hot else (5, 5))
    likeliest = drafter.draw(history, 3, 9, Draw(0.0, loud))
    assert likeliest.shares is not None
    assert (likeliest.shares.amax(dim=1) == 1).all()
    assert likeliest.tree.tokens == drawn.tree.tokens[:3]
    flat = drafter.draw(history, 1, 9, Draw(2.0, still)).shares
    assert flat is not None
    assert flat.amax() < drawn.shares[0].amax(), "the temperature is the drafter's own"


def written(engine: TorchEngine, rules: SamplingRules, count: int = 60) -> tuple[list[int], int, int]:
    """Ids, rounds, and how many of them had a drawn chain."""
    seq, out, rounds, chains = read(engine, PROMPT), list[int](), 0, 0
    while len(out) < count:
        tree = engine.draft(seq, count - len(out))
        chains += seq.drawn is not None
        [rows] = engine.verify([(seq, tree)])
        out += engine.accept(seq, rows, rules).ids
        rounds += 1
    engine.close(seq)
    assert engine.state()["draft_faults"] == 0
    return out, rounds, chains


@pytest.mark.spec("ENG-068", "ENG-069")
def test_a_layer_that_knows_the_model_draws_what_the_model_may_write() -> None:
    """Its distribution is the model's own, so every drawn token is taken; its likeliest ones are hardly ever drawn."""
    tiny = copying()
    counts = {}
    for kind in ("chain", "det"):
        drafter = Combined([MtpDrafter(tiny.layer, 256)], proposing=Proposing(sampled_tree=kind))
        _, counts[kind], chains = written(tiny_engine(model=tiny.model, drafter=drafter), SPREAD)
        assert bool(chains) == (kind == "chain")
    assert counts["chain"] <= 60 / (DEPTH + 1) + 3  # the first rounds do not know yet how it is drawn
    assert counts["det"] > 1.5 * counts["chain"]


@pytest.mark.spec("ENG-046", "ENG-069")
def test_the_drafts_temperature_is_how_far_the_drafter_is_from_the_model() -> None:
    tiny, rounds = copying(), {}
    for temperature in (8.0, 0.5):
        engine = tiny_engine(model=tiny.model, drafter=MtpDrafter(tiny.layer, 256))
        rules = SamplingRules(temperature=8.0, draft_temperature=temperature)
        _, rounds[temperature], _ = written(engine, rules)
    assert rounds[0.5] > 1.5 * rounds[8.0]


@pytest.mark.spec("ENG-067", "ENG-069")
@pytest.mark.parametrize("rules", [GREEDY, SamplingRules(temperature=0.8, seed=3)], ids=["greedy", "seeded"])
def test_greedy_and_seeded_answers_draw_no_chain(rules: SamplingRules) -> None:
    tiny = copying()
    plain, _, _ = written(tiny_engine(model=tiny.model), rules)
    engine = tiny_engine(model=tiny.model, drafter=MtpDrafter(tiny.layer, 256))
    seq = read(engine, PROMPT)
    perform(engine, seq, Round(1), SPREAD)  # what is drafted next was to be drawn
    engine.draft(seq, 9)
    assert seq.drawn is not None
    perform(engine, seq, Round(9), rules)
    engine.draft(seq, 9)
    assert seq.drawn is None
    engine.close(seq)
    text, _, chains = written(engine, rules)
    assert (text, chains) == (plain, 0)


@pytest.mark.spec("ENG-069")
def test_a_chain_that_was_cut_on_its_way_is_walked_as_any_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny, seen = copying(), list[object]()
    engine = tiny_engine(model=tiny.model, drafter=MtpDrafter(tiny.layer, 256))
    seq = read(engine, PROMPT)
    perform(engine, seq, Round(1), SPREAD)

    def watched(*args: Any) -> Walked:
        seen.append(args[-1])
        return walk(*args)

    monkeypatch.setattr("tandem.engine.decoding.rounds.walk", watched)
    for kept in (2, 9):
        tree = engine.draft(seq, 9)
        [rows] = engine.verify([(seq, chain(tree.tokens[:kept]) if kept == 2 else tree)])
        engine.accept(seq, rows, SPREAD)
    assert seen[0] is None
    assert seen[1] is not None


@pytest.mark.spec("ENG-069")
def test_the_length_of_a_chain_is_known_before_its_first_token() -> None:
    tiny = copying()
    costs = {1: 10.0, 2: 11.0, 8: 20.0}
    mtp, history = drafted(tiny)
    both = Combined([mtp, LookupDrafter()], Prices({(0, "chain"): costs, (0, "tree"): costs}))
    lengths = set()
    for at in range(8):
        drawn = both.draw(history, 31, 9, Draw(8.0, Noise(at).unseeded))
        assert drawn.shares is not None
        lengths.add(len(drawn.tree.tokens))
    assert len(lengths) == 1
    draw = Draw(8.0, still)
    for _ in range(60):  # nothing of it was ever taken
        both.learn(both.draw(history, 31, 9, draw).tree, 0)
    assert both.draw(history, 31, 9, draw).tree.tokens == ()


@pytest.mark.spec("ENG-069")
def test_a_running_copy_needs_no_chain() -> None:
    tiny = copying()
    mtp, _ = drafted(tiny)
    lookup = LookupDrafter()
    both = Combined([mtp, lookup])
    assert isinstance(both, Drawing)
    copied = [*range(40), *range(20)]
    mtp.start(copied, 0)
    lookup.start(copied, 0)
    drawn = both.draw(copied, 31, 31, Draw(1.0, still))
    assert drawn.shares is None
    assert drawn.tree.tokens[:3] == (20, 21, 22)


def test_chances_follow_what_was_taken_at_each_depth() -> None:
    depths = Depths()
    first = depths.chances(3)
    assert first == pytest.approx((0.6, 0.36, 0.216))
    for _ in range(200):
        depths.saw(3, 1)
    one, two, three = depths.chances(3)
    assert one > 0.95
    assert two < 0.05 * one + 0.05
    assert three < two
