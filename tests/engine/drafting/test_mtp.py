"""The drafter on a prediction layer, beside a model that is read and decoded by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tandem.engine.drafting.mtp import MtpDrafter
from tandem.engine.drafting.tree import depths
from tandem.engine.verbs import EMPTY_TREE, Tree
from tests.engine.models.memory import VOCAB
from tests.engine.models.mtp import TinyMtp, copying, naive, tiny_mtp

WINDOW = 64
IDS = torch.randint(VOCAB, (40,), generator=torch.Generator().manual_seed(1)).tolist()


@pytest.fixture(autouse=True, scope="module")
def no_autograd() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def tiny() -> TinyMtp:
    return tiny_mtp()


@pytest.fixture(scope="module")
def hidden(tiny: TinyMtp) -> Tensor:
    return states_of(tiny, IDS)


def states_of(tiny: TinyMtp, ids: Sequence[int]) -> Tensor:
    return tiny.model.forward(torch.tensor(ids), 0, tiny.model.new_state(len(ids)))


def fresh(tiny: TinyMtp, ids: Sequence[int], hidden: Tensor, window: int = WINDOW) -> MtpDrafter:
    """One that has read the whole prompt at once."""
    drafter = MtpDrafter(tiny.layer, window, budget=40, depth=12)
    drafter.start(ids, 0)
    drafter.read(0, hidden)
    return drafter


def alike(one: Tree, other: Tree) -> None:
    assert (one.tokens, one.parents, one.sources) == (other.tokens, other.parents, other.sources)
    assert one.scores == pytest.approx(other.scores, rel=1e-3)


@pytest.mark.spec("ENG-052")
@pytest.mark.parametrize("length", [2, 17])
def test_its_chain_is_the_layers_own_fed_to_itself(tiny: TinyMtp, hidden: Tensor, length: int) -> None:
    """The chain of a plain layer in float64, which never met a cache."""
    tree = fresh(tiny, IDS[:length], hidden[: length - 1]).propose(IDS[:length], 4, 4)
    head = tiny.tensors["lm_head.weight"].double()
    tokens, before, reach = IDS[1:length], hidden[: length - 1].double(), 1.0
    path = -1
    for depth in range(1, 5):
        state = naive(tiny, tokens, before)[-1:]
        likely = torch.softmax(head @ state[0], dim=0)
        token = int(likely.argmax())
        reach *= likely[token].item()
        found = [at for at in range(len(tree.tokens)) if tree.parents[at] == path and tree.tokens[at] == token]
        if not found:
            assert sorted(tree.scores)[0] >= 0.999 * reach  # four runners-up are likelier
            assert depth > 1
            return
        [path] = found
        assert tree.scores[path] == pytest.approx(reach, rel=1e-3)
        tokens, before = [*tokens, token], torch.cat((before, state))


@pytest.mark.spec("ENG-052", "ENG-055")
@given(nodes=st.integers(0, 40), depth=st.integers(0, 12), seed=st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_a_tree_holds_to_its_limits(nodes: int, depth: int, seed: int) -> None:
    tiny = tiny_mtp(seed)
    tree = fresh(tiny, IDS[:9], states_of(tiny, IDS[:8])).propose(IDS[:9], nodes, depth)
    assert len(tree.tokens) == len(tree.parents) == len(tree.scores) == len(tree.sources) <= nodes
    assert bool(tree.tokens) == (nodes > 0 and depth > 0)
    deep = depths(tree)
    assert max(deep, default=0) <= depth
    assert set(tree.sources) <= {"mtp"}
    for at, parent in enumerate(tree.parents):
        assert parent < at
        # Depth first: what lies between a node and its parent is below the parent too.
        assert all(deep[between] > deep[at] - 1 for between in range(parent + 1, at))
        assert 0 <= tree.scores[at] <= (tree.scores[parent] if parent >= 0 else 1)


@pytest.mark.spec("ENG-052")
def test_runners_up_stand_beside_the_chain(tiny: TinyMtp, hidden: Tensor) -> None:
    drafter = fresh(tiny, IDS[:9], hidden[:8])
    narrow, wide = drafter.propose(IDS[:9], 4, 4), drafter.propose(IDS[:9], 16, 4)
    assert set(zip(narrow.tokens, narrow.scores, strict=True)) <= set(zip(wide.tokens, wide.scores, strict=True))
    assert len(wide.tokens) == 16
    assert min(narrow.scores) >= max(sorted(wide.scores)[:12])
    alike(drafter.propose(IDS[:9], 4, 4), narrow)  # to propose changes nothing


@pytest.mark.spec("ENG-052", "ENG-056")
def test_it_thinks_of_a_few_tokens_where_more_are_asked_for(tiny: TinyMtp, hidden: Tensor) -> None:
    drafter = MtpDrafter(tiny.layer, WINDOW)
    drafter.start(IDS[:9], 0)
    drafter.read(0, hidden[:8])
    tree = drafter.propose(IDS[:9], 31, 20)
    assert len(tree.tokens) == 16
    assert max(depths(tree)) <= 4


@pytest.mark.spec("ENG-048")
@given(cuts=st.sets(st.integers(1, 38), max_size=5), asked=st.sets(st.integers(20, 38)), prompt=st.integers(2, 30))
@settings(max_examples=40, deadline=None)
def test_however_it_is_read_it_proposes_alike(
    tiny: TinyMtp, hidden: Tensor, cuts: set[int], asked: set[int], prompt: int
) -> None:
    """In chunks, row by row, asked between them or not."""
    drafter = MtpDrafter(tiny.layer, WINDOW)
    drafter.start(IDS[:prompt], 0)
    edges = sorted({0, prompt, *cuts, 38})
    for start, end in pairwise(edges):
        drafter.read(start, hidden[start:end])
        if end in asked and end >= prompt:
            alike(
                drafter.propose(IDS[: end + 1], 6, 3),
                fresh(tiny, IDS[: end + 1], hidden[:end]).propose(IDS[: end + 1], 6, 3),
            )
    alike(drafter.propose(IDS[:39], 8, 4), fresh(tiny, IDS[:39], hidden[:38]).propose(IDS[:39], 8, 4))


@pytest.mark.spec("ENG-048")
def test_behind_the_prompt_the_models_own_state_gives_the_first_node(tiny: TinyMtp, hidden: Tensor) -> None:
    """The row of the newest token has been read: what comes next is known better than any layer knows it."""
    tree = fresh(tiny, IDS[:12], hidden[:12]).propose(IDS[:12], 8, 3)
    likely = torch.softmax(tiny.model.logits(hidden[11:12])[0], dim=0)
    assert tree.tokens[0] == int(likely.argmax())
    assert tree.scores[0] == pytest.approx(likely.max().item(), rel=1e-4)


@pytest.mark.spec("ENG-048")
@given(cut=st.integers(1, 29), grid=st.sampled_from([1, 4, 8]))
@settings(max_examples=30, deadline=None)
def test_after_a_resume_where_a_prompt_was_cut_it_is_as_if_it_had_read_all(tiny: TinyMtp, cut: int, grid: int) -> None:
    cut = -(-cut // grid) * grid
    other = [*IDS[:cut], (IDS[cut] + 1) % VOCAB, *IDS[5:10]]
    old, new = states_of(tiny, IDS), states_of(tiny, other)
    drafter = MtpDrafter(tiny.layer, WINDOW)
    drafter.start(IDS[:35], 0)
    for start in range(0, 35, grid):
        drafter.read(start, old[start : min(start + grid, 35)])
    drafter.read(35, old[35:37])
    drafter.propose(IDS[:38], 8, 4)
    drafter.end()
    drafter.start(other, cut)
    drafter.read(cut, new[cut:-1])
    alike(drafter.propose(other, 8, 4), fresh(tiny, other, new[:-1]).propose(other, 8, 4))


@pytest.mark.spec("ENG-048")
def test_a_second_answer_to_one_prompt_begins_where_the_first_did(tiny: TinyMtp, hidden: Tensor) -> None:
    drafter = fresh(tiny, IDS[:20], hidden[:20])
    first = drafter.propose([*IDS[:20], 7], 8, 4)
    drafter.read(20, states_of(tiny, [*IDS[:20], 7])[20:])
    drafter.propose([*IDS[:20], 7, 9], 8, 4)
    drafter.start(IDS[:20], 20)
    second = drafter.propose([*IDS[:20], 8], 8, 4)
    alike(second, fresh(tiny, [*IDS[:20], 8], hidden[:20]).propose([*IDS[:20], 8], 8, 4))
    drafter.start(IDS[:20], 20)
    alike(drafter.propose([*IDS[:20], 7], 8, 4), first)


@pytest.mark.spec("ENG-048")
def test_what_it_never_read_it_does_without(tiny: TinyMtp, hidden: Tensor) -> None:
    """A resume from rows that another sequence left: it knows those behind them, or none at all."""
    drafter = MtpDrafter(tiny.layer, WINDOW)
    assert drafter.propose(IDS, 8, 4) == EMPTY_TREE
    drafter.start(IDS[:30], 16)
    drafter.read(16, hidden[16:29])
    alike(drafter.propose(IDS[:30], 8, 4), fresh(tiny, IDS[16:30], hidden[16:29]).propose(IDS[16:30], 8, 4))
    assert drafter.propose(IDS[:33], 8, 4) == EMPTY_TREE  # rows 29 to 31 are not read
    assert drafter.propose(IDS[:20], 8, 4) == EMPTY_TREE
    drafter.start(IDS[:30], 3)
    drafter.read(3, hidden[3:29])
    alike(drafter.propose(IDS[:30], 8, 4), fresh(tiny, IDS[3:30], hidden[3:29]).propose(IDS[3:30], 8, 4))


def test_at_the_end_of_the_window_it_drafts_less(tiny: TinyMtp, hidden: Tensor) -> None:
    for window in range(17, 22):
        drafter = fresh(tiny, IDS[:18], hidden[:17], window)
        assert max(depths(drafter.propose(IDS[:18], 40, 12))) <= window - 17 + 1
    assert fresh(tiny, IDS[:18], hidden[:17], 16).propose(IDS[:18], 8, 4) == EMPTY_TREE


def test_rows_that_nobody_asks_about_do_not_pile_up(tiny: TinyMtp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.engine.drafting.mtp._WAITING", 8)
    drafter = MtpDrafter(tiny.layer, WINDOW)
    ids = IDS[:30]
    states = states_of(tiny, ids)
    drafter.start(ids[:2], 0)
    for row in range(29):
        drafter.read(row, states[row : row + 1])
        assert drafter._end - drafter._known <= 9
    assert drafter.propose(ids, 8, 4).tokens


def test_rows_that_wait_are_not_copied_at_every_round(
    tiny: TinyMtp, hidden: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied, join = list[int](), torch.cat

    def counting(parts: list[Tensor], dim: int = 0) -> Tensor:
        copied.append(sum(map(len, parts)))
        return join(parts, dim)

    drafter = MtpDrafter(tiny.layer, 512)
    drafter.start(IDS[:2], 0)
    monkeypatch.setattr(torch, "cat", counting)
    for row in range(400):
        drafter.read(row, hidden[row % 30 : row % 30 + 1])
    assert sum(copied) < 400 * 10


def test_a_text_that_grows_under_it_is_no_longer_prompt(tiny: TinyMtp, hidden: Tensor) -> None:
    """An answer that begins anew behind a snapshot comes as the ids of the sequence itself, which go on growing."""
    ids = list(IDS[:9])
    drafter = MtpDrafter(tiny.layer, WINDOW)
    drafter.start(ids, 0)
    drafter.read(0, hidden[:9])
    for row in range(9, 30):
        ids.append(IDS[row])
        drafter.read(row, hidden[row : row + 1])
    assert list(drafter._cuts) == [9], "a state of every row is kept as long as the sequence lives"


@pytest.mark.spec("ENG-052")
def test_a_layer_that_knows_the_model_drafts_what_it_will_say() -> None:
    tiny = copying()
    ids = IDS[:6]
    for _ in range(6):
        logits = tiny.model.logits(states_of(tiny, ids))
        ids = [*ids, int(logits[-1].argmax())]
    tree = fresh(tiny, ids[:7], states_of(tiny, ids[:6])).propose(ids[:7], 31, 5)
    path = -1
    for token in ids[7:]:
        [path] = [at for at in range(len(tree.tokens)) if (tree.parents[at], tree.tokens[at]) == (path, token)]


def test_no_number_that_is_not_finite_is_a_draft(tiny: TinyMtp, hidden: Tensor) -> None:
    drafter = fresh(tiny, IDS[:9], hidden[:8])
    drafter.read(8, torch.full((1, 64), torch.nan))
    assert drafter.propose(IDS[:10], 8, 4) == EMPTY_TREE
