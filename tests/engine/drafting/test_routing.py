"""The length router: what it asks for, when it decides, and that it never goes back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tandem.engine.drafting.combined import Combined, Proposing
from tandem.engine.drafting.lookup import LookupDrafter
from tandem.engine.drafting.mtp import MtpDrafter
from tandem.engine.drafting.prices import Prices, Shape
from tandem.engine.drafting.routing import NARROW, PROBES, WIDE, WIDE_ROUNDS, FixedRows, LengthRouter, Trial
from tandem.engine.drafting.tree import NODES, chain
from tandem.engine.load import load_engine
from tandem.engine.models.model import DraftLayer
from tandem.engine.tiny.kinds import make_tiny
from tandem.engine.verbs import EMPTY_TREE, Tree
from tests.engine.decoding.engines import PROMPT, read, tiny_engine
from tests.engine.drafting.target import rounds as rounds_over
from tests.engine.drafting.test_mtp_in_engine import write
from tests.engine.models.mtp import copying

CHEAP, DEAR = 10.0, 30.0


def route(
    wide: Sequence[tuple[int, float]], narrow: Sequence[tuple[int, float]], as_narrow: float = CHEAP
) -> list[int]:
    """The widths asked for, round by round, where rounds commit and cost this; a narrow draft stops at 7 nodes."""
    router, widths, ahead, probes = LengthRouter(), list[int](), iter(wide), iter(narrow)
    for _ in range(12):
        widths.append(router.width)
        if router.decided:
            break
        tokens, ms = next(ahead if router.width == WIDE else probes)
        router.saw(Trial(tokens, ms), Trial(min(tokens, NARROW + 1), as_narrow))
    return widths


@pytest.mark.spec("ENG-060")
def test_four_wide_rounds_decide_where_narrow_cannot_win() -> None:
    assert route([(16, DEAR)] * 4, [], as_narrow=20.0) == [WIDE] * 5
    assert route([(4, CHEAP)] * 4, []) == [WIDE] * 5, "for the same price nothing is lost by asking for more"


@pytest.mark.spec("ENG-060")
def test_four_probes_follow_where_narrow_could_win() -> None:
    assert route([(4, DEAR)] * 4, [(4, CHEAP)] * 4) == [WIDE] * 4 + [NARROW] * 5
    dear_after_all = [(2, 28.0)] * 4
    assert route([(4, DEAR)] * 4, dear_after_all)[-1] == WIDE
    # The first two already show that the rest cannot make up for them.
    hopeless = [(1, 90.0), (1, 90.0), (8, 90.0), (8, 90.0)]
    assert route([(4, DEAR)] * 4, hopeless) == [WIDE] * 4 + [NARROW, WIDE]


@pytest.mark.spec("ENG-060")
@pytest.mark.parametrize(("rows", "nodes"), [(8, NARROW), (16, WIDE)])
def test_it_can_be_pinned(rows: FixedRows, nodes: int) -> None:
    router = LengthRouter(rows)
    for _ in range(20):
        assert (router.width, router.decided) == (nodes, True)
        router.saw(Trial(1, DEAR), Trial(1, CHEAP))


trials = st.builds(Trial, st.integers(1, 16), st.floats(1, 50))


@pytest.mark.spec("ENG-060")
@given(st.lists(st.tuples(trials, trials), min_size=12, max_size=20))
def test_one_decision_holds(seen: list[tuple[Trial, Trial]]) -> None:
    router, widths = LengthRouter(), list[int]()
    for taken, as_narrow in seen:
        widths.append(router.width)
        router.saw(taken, as_narrow)
    groups = [(width, len(list(group))) for width, group in itertools.groupby(widths)]
    assert groups[0][0] == WIDE
    assert groups[0][1] >= WIDE_ROUNDS
    assert len(groups) <= 3, "wide, perhaps narrow, and back at most once"
    assert router.decided
    if len(groups) == 3:
        assert groups[1][1] <= PROBES


class Block:
    """Drafts a chain of which the first `right` tokens are those of `text`, as wide as it is asked for."""

    name, reads_hidden, widths = "block", True, (NARROW, WIDE)

    def __init__(self, text: Sequence[int], right: int) -> None:
        self.text, self.right, self.asked = list(text), right, list[int]()

    def start(self, ids: Sequence[int], valid: int) -> None:
        self.begin = len(ids)

    def read(self, start: int, hidden: Tensor) -> None:
        """It needs none."""

    def propose(self, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        self.asked.append(nodes)
        ahead = self.text[len(ids) - self.begin :][: min(nodes, depth, WIDE)]
        tokens = [token if at < self.right else token + 1 for at, token in enumerate(ahead)]
        return chain(tokens, [0.99] * len(tokens)) if tokens else EMPTY_TREE

    def learn(self, tree: Tree, accepted: int) -> None:
        """It learns nothing."""

    def end(self) -> None:
        """It keeps nothing."""


COSTS = {1: 10.0, 8: 12.0, 16: 16.0}


@pytest.mark.spec("ENG-060")
@pytest.mark.parametrize(("right", "width"), [(15, WIDE), (3, NARROW)])
def test_a_drafter_of_two_widths_is_routed_and_each_request_anew(right: int, width: int) -> None:
    text = [(7 * at) % 1_000 for at in range(400)]
    block, prices = Block(text, right), Prices({(0, "chain"): COSTS, (0, "tree"): COSTS})
    both = Combined([block], prices)
    for _ in range(2):
        block.asked.clear()
        list(rounds_over(both, [1], text))
        probes = 0 if width == WIDE else PROBES
        assert block.asked[: WIDE_ROUNDS + probes] == [NODES] * WIDE_ROUNDS + [NARROW] * probes
        assert set(block.asked[WIDE_ROUNDS:]) == {NARROW if width == NARROW else NODES}


@pytest.mark.spec("ENG-060")
@pytest.mark.parametrize(("rows", "nodes"), [(8, NARROW), (16, NODES)])
def test_a_pinned_width_is_all_that_is_asked_for(rows: FixedRows, nodes: int) -> None:
    block = Block(range(100), 15)
    list(rounds_over(Combined([block], proposing=Proposing(len_fixed=rows)), [1], range(100)))
    assert set(block.asked) == {nodes}


class Known(Prices):
    """Prices that no clock changes, and that cut nothing."""

    def saw(self, rows: int, ms: float, context: int = 0, shape: Shape = "chain") -> None:
        """What a round took here is not looked at."""

    def worth(self, tree: Tree, *, draft_ms: float = 0.0, context: int = 0) -> Tree:
        return tree


class Asked(MtpDrafter):
    """Notes how many nodes it was asked for."""

    def __init__(self, layer: DraftLayer, max_len: int) -> None:
        super().__init__(layer, max_len)
        self.asked: list[int] = []

    def propose(self, ids: Sequence[int], nodes: int, depth: int) -> Tree:
        self.asked.append(nodes)
        return super().propose(ids, nodes, depth)


@pytest.mark.spec("ENG-060", "ENG-065")
@pytest.mark.parametrize("rows", [None, 8, 16])
def test_the_prediction_layer_is_routed_and_no_text_changes(rows: FixedRows | None) -> None:
    """Behind the chain of four that it always knows come runners-up that nobody takes: narrow is enough."""
    tiny, costs = copying(), {1: 1e6, 8: 1e6, 16: 2e6}
    plain = tiny_engine(model=tiny.model)
    text, _ = write(plain, read(plain, PROMPT), 60)
    drafter, prices = Asked(tiny.layer, 256), Known({(0, "chain"): costs, (0, "tree"): costs})
    engine = tiny_engine(model=tiny.model, drafter=Combined([drafter], prices, proposing=Proposing(len_fixed=rows)))
    assert write(engine, read(engine, PROMPT), 60)[0] == text
    assert engine.state()["draft_faults"] == 0
    first, then = {None: (WIDE, NARROW), 8: (NARROW, NARROW), 16: (WIDE, WIDE)}[rows]
    assert [asked if asked == NARROW else WIDE for asked in drafter.asked[:9]] == [first] * 4 + [then] * 5


@pytest.mark.spec("ENG-060")
def test_a_drafter_of_one_width_is_not_asked_for_less() -> None:
    ids = list(range(40))
    wide = Combined([LookupDrafter()], proposing=Proposing(len_fixed=8))
    assert max(len(each.tree.tokens) for each in rounds_over(wide, [*ids, 99], ids)) > WIDE


@pytest.mark.spec("ENG-060")
def test_a_load_takes_the_settings(tmp_path: Path) -> None:
    engine = load_engine(make_tiny("qwen3_5", tmp_path / "tiny"), drafter="mtp", proposing=Proposing("det", 8))
    drafter = engine._guide._drafter
    assert isinstance(drafter, Combined)
    assert drafter._proposing == Proposing("det", 8)
