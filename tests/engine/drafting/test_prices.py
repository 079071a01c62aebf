"""Prices of a verify, the part of a tree that pays, and what is remembered of a text."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.drafting import choice
from tandem.engine.drafting.calibration import Calibration
from tandem.engine.drafting.choice import make_drafter
from tandem.engine.drafting.combined import Combined
from tandem.engine.drafting.measured import ROWS, measured
from tandem.engine.drafting.prices import CUTS, Prices, expected, shape_of
from tandem.engine.drafting.tree import chain, cut
from tandem.engine.models.state import State
from tandem.engine.verbs import EMPTY_TREE, Tree
from tests.engine.drafting.test_tree import grown
from tests.engine.models.memory import MemoryWeights, quiet
from tests.engine.models.mtp import tiny_mtp


def sure(nodes: int, rate: float = 0.9) -> Tree:
    return chain(range(nodes), [rate ** (at + 1) for at in range(nodes)])


def priced(ms: Mapping[int, float]) -> Prices:
    """The same for chains and trees."""
    return Prices({(0, "chain"): ms, (0, "tree"): ms})


@pytest.mark.spec("ENG-062")
def test_the_price_is_flat_until_it_is_measured() -> None:
    prices = Prices()
    assert prices.verify(1) == prices.verify(32)
    assert prices.worth(sure(31)) == sure(31)
    prices.saw(1, 10.0)
    assert prices.verify(1) == 1.0  # one measurement is none
    prices.saw(1, 10.0)
    assert (prices.verify(1), prices.verify(32)) == (10.0, 10.0)


@pytest.mark.spec("ENG-062")
def test_prices_are_medians_by_rows_and_context() -> None:
    prices = Prices()
    for ms in (10.0, 11.0, 900.0):
        prices.saw(1, ms)
        prices.saw(16, 2 * ms)
    assert (prices.verify(1), prices.verify(16), prices.verify(32)) == (11.0, 22.0, 22.0)
    assert 11.0 < prices.verify(8) < 22.0
    assert prices.verify(1, context=100_000) == 1.0
    for _ in range(9):
        prices.saw(1, 20.0)
    assert prices.verify(1) == 20.0
    assert Prices({(0, "chain"): {8: 3.0}}).verify(8) == 3.0


@pytest.mark.spec("ENG-062")
def test_chains_and_trees_have_prices_of_their_own() -> None:
    prices, branched = Prices(), Tree((1, 2, 3), (-1, 0, -1), (0.9, 0.8, 0.1))
    assert (shape_of(sure(3)), shape_of(branched), shape_of(EMPTY_TREE)) == ("chain", "tree", "chain")
    for _ in range(2):
        prices.saw(1, 10.0)
        prices.saw(4, 12.0)
    assert prices.verify(4, shape="tree") == 12.0  # the nearest guess
    for _ in range(2):
        prices.saw(4, 90.0, shape="tree")
    assert (prices.verify(1, shape="tree"), prices.verify(4, shape="tree"), prices.verify(4)) == (10.0, 90.0, 12.0)
    assert prices.worth(sure(3)) == sure(3)
    # Of a tree whose branch is too dear, what is a chain is left.
    wide = Tree((1, 2, 3, 4), (-1, 0, 1, -1), (0.9, 0.8, 0.7, 0.6))
    assert prices.worth(wide) == cut(wide, 3)
    assert shape_of(cut(wide, 3)) == "chain"


@pytest.mark.spec("ENG-062")
def test_a_table_serves_the_nearest_context_below_until_enough_is_measured() -> None:
    prices = Prices({(0, "chain"): {1: 10.0}, (1, "chain"): {1: 11.0}, (2, "tree"): {1: 12.0}})
    assert [prices.verify(1, context) for context in (0, 4_096, 200_000)] == [10.0, 11.0, 11.0]
    assert [prices.verify(1, context, "tree") for context in (100, 200_000)] == [1.0, 12.0]
    for _ in range(2):
        prices.saw(1, 5.0, 4_096)
    assert [prices.verify(1, context) for context in (0, 4_096)] == [10.0, 5.0]


class Ticking:
    """A clock and a model whose passes take a time that is known: by rows, by branches and by context."""

    anchor_grid = 32

    def __init__(self) -> None:
        self.now = 0.0
        self.inner = tiny_mtp().model
        self.config, self.nbytes, self.formats = self.inner.config, self.inner.nbytes, self.inner.formats

    def __call__(self) -> float:
        return self.now

    def new_state(self, max_len: int) -> State:
        self.window = max_len
        return self.inner.new_state(max_len)

    def forward(self, ids: torch.Tensor, start: int, state: State) -> torch.Tensor:
        self.now += 0.010 + start / 1e6
        return self.inner.forward(ids, start, state)

    def verify(self, ids: torch.Tensor, parents: torch.Tensor, start: int, state: State) -> torch.Tensor:
        branched = parents.tolist() != list(range(-1, len(ids) - 1))
        self.now += 0.010 + len(ids) / 1e3 + 0.005 * branched + start / 1e6
        return self.inner.verify(ids, parents, start, state)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.inner.logits(hidden)


@pytest.mark.spec("ENG-062")
def test_a_load_measures_8_to_32_rows_of_each_shape_by_context() -> None:
    ticking = Ticking()
    table = measured(ticking, 8_192, ticking)
    assert ticking.window == 4_096 + 32
    assert list(table) == [(0, "chain"), (0, "tree"), (1, "chain"), (1, "tree")]
    for at, context in ((0, 1_024), (1, 4_096)):
        more = context / 1e3
        assert table[at, "chain"] == pytest.approx({1: 10 + more} | {rows: 10 + rows + more for rows in ROWS})
        assert table[at, "tree"] == pytest.approx({1: 10 + more} | {rows: 15 + rows + more for rows in ROWS})
    assert list(measured(ticking, 100, ticking)[0, "tree"]) == [1, 8, 16, 24, 32]
    assert list(measured(ticking, 20, ticking)[0, "tree"]) == [1, 8, 16]


@pytest.mark.spec("ENG-062")
def test_on_the_cpu_nothing_is_measured_and_on_cuda_all(monkeypatch: pytest.MonkeyPatch) -> None:
    ticking, weights = Ticking(), MemoryWeights({})

    def price(rows: int) -> float:
        made = make_drafter("lookup", ticking, None, weights, quiet, "fp32", window=1_100, clock=ticking)  # type: ignore[arg-type]
        assert isinstance(made.drafter, Combined)
        return made.drafter._prices.verify(rows)

    assert (price(1), ticking.now) == (1.0, 0.0)
    monkeypatch.setattr(choice, "_is_cuda", lambda model: True)
    assert price(16) == pytest.approx(10 + 16 + 1.024)


@pytest.mark.spec("ENG-062")
def test_a_price_that_nobody_has_paid_for_long_is_tried_again() -> None:
    prices = Prices()
    for _ in range(2):
        prices.saw(1, 10.0)
        prices.saw(32, 900.0)
    assert prices.worth(sure(31)) == EMPTY_TREE
    for _ in range(300):
        prices.saw(1, 10.0)
    assert prices.worth(sure(31)) == sure(31)


@pytest.mark.spec("ENG-061")
def test_only_what_pays_is_proposed() -> None:
    steep = priced({1: 10.0, 32: 320.0})
    assert steep.worth(sure(31, 0.5)) == EMPTY_TREE
    gentle = priced({1: 10.0, 32: 20.0})
    assert len(gentle.worth(sure(31, 0.99)).tokens) == 31
    assert len(gentle.worth(sure(31, 0.6)).tokens) == 7
    assert gentle.worth(chain([1], [0.01])) == EMPTY_TREE
    assert Prices().worth(chain([1], [0.2])) == EMPTY_TREE
    assert priced({1: 10.0}).worth(chain([1], [0.2])) == chain([1], [0.2])
    unscored = chain([1, 2])
    assert steep.worth(unscored) == unscored


@given(grown, st.floats(1, 50), st.floats(1, 50), st.floats(0, 5))
@pytest.mark.spec("ENG-061")
def test_no_other_cut_is_better(tree: Tree, one: float, more: float, draft: float) -> None:
    prices = priced({1: one, 32: one + more})

    def rate(part: Tree) -> float:
        return min(expected(part), 1.0 + len(part.tokens)) / (prices.verify(len(part.tokens) + 1) + draft)

    chosen = prices.worth(tree, draft_ms=draft)
    assert all(rate(chosen) >= rate(cut(tree, nodes)) for nodes in (*CUTS, len(tree.tokens)))


@pytest.mark.spec("ENG-063")
def test_calibration_follows_the_text_and_forgets_it() -> None:
    learned = Calibration()
    before = learned.rate("own", 3)
    for _ in range(30):
        learned.saw("own", 3, hit=True)
    sure_of_it = learned.rate("own", 3)
    assert sure_of_it > 0.8 > before
    learned.reset()
    assert before < learned.rate("own", 3) < sure_of_it
    assert learned.rate("corpus", 3) == before
    assert learned.rate("own", 1_000) > learned.rate("own", 2)


@pytest.mark.spec("ENG-063")
def test_old_counts_weigh_half() -> None:
    learned = Calibration()
    for _ in range(4_000):
        learned.saw("own", 3, hit=True)
    for _ in range(4_000):
        learned.saw("own", 3, hit=False)
    learned.reset()
    assert learned.rate("own", 3) < 0.4
    assert max(counts[0] for counts in learned._server.values()) <= 4_000


class Fixed:
    """Proposes one tree, and notes what it is told."""

    def __init__(self, name: str, tree: Tree, *, reads_hidden: bool = False) -> None:
        self.name, self.tree, self.told, self.asked = name, tree, list[object](), 0
        self.reads_hidden = reads_hidden

    def start(self, ids: object, valid: int) -> None:
        self.told.append(("start", valid))

    def read(self, start: int, hidden: object) -> None:
        self.told.append("read")

    def propose(self, ids: object, nodes: int, depth: int) -> Tree:
        self.asked += 1
        return self.tree

    def learn(self, tree: Tree, accepted: int) -> None:
        self.told.append((tree, accepted))

    def end(self) -> None:
        self.told.append("end")


@pytest.mark.spec("ENG-046", "ENG-061")
def test_drafters_propose_one_tree_together() -> None:
    one = Fixed("one", chain([1, 2], [0.9, 0.8], "one"))
    two = Fixed("two", Tree((1, 3), (-1, 0), (0.95, 0.4), ("two", "two")))
    both = Combined([one, two])
    assert both.name == "one+two"
    both.start([5], 0)
    tree = both.propose([5], 31, 31)
    assert tree == Tree((1, 2, 3), (-1, 0, 0), (0.95, 0.8, 0.4), ("two", "one", "two"))
    assert len(both.propose([5], 2, 31).tokens) == 2
    both.learn(tree, 2)
    both.end()
    assert one.told == two.told == [("start", 0), (tree, 2), "end"]


@pytest.mark.spec("ENG-061")
def test_a_dear_verify_makes_it_propose_less() -> None:
    both = Combined([Fixed("one", sure(31, 0.6))])
    assert len(both.propose([5], 31, 31).tokens) == 31
    for _ in range(5):
        both.paid(1, 1.0, 10.0, 100, "chain")
        both.paid(32, 1.0, 30.0, 100, "chain")
    assert 0 < len(both.propose([5], 31, 31).tokens) < 15


@pytest.mark.spec("ENG-061")
def test_a_running_copy_skips_the_drafter_that_runs_a_model() -> None:
    light, heavy = Fixed("light", EMPTY_TREE), Fixed("heavy", sure(4), reads_hidden=True)
    both = Combined([heavy, light])
    assert both.propose([5], 31, 31) == sure(4)
    light.tree = sure(31)
    assert both.propose([5], 31, 31) == sure(31)
    both.read(0, torch.zeros(1, 1))
    assert (light.asked, heavy.asked, heavy.told) == (2, 1, ["read"])
    light.tree = sure(2)
    assert len(both.propose([5], 31, 31).tokens) == 4
    assert heavy.asked == 2
