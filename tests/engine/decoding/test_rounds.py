"""Rounds of drafted trees: the text of plain decode in fewer of them, whatever a drafter proposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
import torch

from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Round, perform
from tandem.engine.drafting.tree import chain
from tandem.engine.errors import EngineError
from tandem.engine.verbs import EMPTY_TREE, Accepted, SamplingRules, TokenLogprob, Tree
from tests.engine.decoding.drafters import (
    Propose,
    Scripted,
    half_right,
    oracle,
    random_trees,
    wrong,
)
from tests.engine.decoding.engines import (
    GREEDY,
    PROMPT,
    kept_row,
    read,
    rounds,
    same,
    state_of,
    tiny,
    tiny_engine,
)
from tests.engine.decoding.masks import SetMask
from tests.engine.models.memory import VOCAB

pytestmark = pytest.mark.usefixtures("kind")
LENGTH = 16


@dataclass
class Alternating:
    """Even and odd ids take turns: what may come depends on all of the path."""

    count: int = 0

    def allows(self, path: Sequence[int], token: int) -> bool:
        return (self.count + len(path)) % 2 == token % 2

    def bits(self, path: Sequence[int], best: int) -> bytes | None:
        return bytes([0xAA if (self.count + len(path)) % 2 else 0x55]) * (VOCAB // 8)

    def commit(self, ids: Sequence[int]) -> None:
        self.count += len(ids)

    def forced(self) -> tuple[int, ...]:
        return ()


RULES: dict[str, Callable[[], SamplingRules]] = {
    "greedy": lambda: GREEDY,
    "seeded": lambda: SamplingRules(temperature=1.0, top_p=0.95, seed=7, choice=1),
    "penalties": lambda: SamplingRules(
        repetition_penalty=1.3, presence_penalty=0.5, frequency_penalty=0.7, no_repeat_ngram=2
    ),
    "bias": lambda: SamplingRules(logit_bias={3: 4.0, 5: 4.0, 8: 3.5}, frequency_penalty=0.5, temperature=0.7, seed=1),
    "set": lambda: SamplingRules(mask=SetMask(frozenset(range(0, VOCAB, 3))), temperature=1.0, seed=3),
    "paths": lambda: SamplingRules(mask=Alternating(), repetition_penalty=1.2),
    "logprobs": lambda: SamplingRules(logprobs=3, presence_penalty=0.4, mask=Alternating()),
}
DRAFTERS: dict[str, Callable[[Sequence[int], int], Propose]] = {
    "wrong": wrong,
    "half": half_right,
    "oracle": oracle,
    "trees": random_trees,
}


@dataclass
class Run:
    ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    rounds: list[Accepted] = field(default_factory=list)


def run(engine: TorchEngine, rules: SamplingRules, length: int = LENGTH, prompt: Sequence[int] = PROMPT) -> Run:
    """An answer of `length` tokens; the mask moves as a generation moves it."""
    seq, out = read(engine, prompt), Run()
    while len(out.ids) < length:
        accepted = perform(engine, seq, Round(length - len(out.ids)), rules)
        assert isinstance(accepted, Accepted)
        assert accepted.draft_accepted == len(accepted.ids) - 1 <= accepted.drafted
        out.ids += accepted.ids
        out.logprobs += accepted.logprobs
        out.rounds.append(accepted)
        if rules.mask is not None:
            rules.mask.commit(accepted.ids)
    engine.close(seq)
    return out


@pytest.fixture(scope="module")
def plain(kind: str) -> Callable[[str], Run]:
    known: dict[str, Run] = {}

    def once(rules: str) -> Run:
        if rules not in known:
            known[rules] = run(tiny_engine(), RULES[rules]())
        return known[rules]

    return once


@pytest.mark.spec("ENG-064", "ENG-065", "ENG-067", "ENG-070", "ENG-081", "ENG-082", "ENG-086", "ENG-059")
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("rules", RULES)
def test_text_is_that_of_plain_decode(rules: str, drafter: str, plain: Callable[[str], Run]) -> None:
    wanted = plain(rules)
    says = DRAFTERS[drafter](wanted.ids, len(PROMPT))
    out = run(tiny_engine(drafter=Scripted(says)), RULES[rules]())
    assert out.ids == wanted.ids
    assert len(out.logprobs) == len(wanted.logprobs)
    for one, other in zip(out.logprobs, wanted.logprobs, strict=True):
        assert one.token == other.token
        assert one.logprob == pytest.approx(other.logprob, abs=1e-3)
        assert [token for token, _ in one.top] == [token for token, _ in other.top]
    most = {"wrong": LENGTH, "half": LENGTH // 2 + 1, "oracle": 1, "trees": LENGTH - 1}[drafter]
    assert len(out.rounds) <= most, "a draft that is right saves rounds"


@pytest.mark.spec("ENG-059")
def test_the_walk_stops_at_the_first_end_id(plain: Callable[[str], Run]) -> None:
    wanted = plain("seeded").ids
    end = next(token for token in wanted[3:] if wanted.index(token) >= 3)
    engine = tiny_engine(drafter=Scripted(oracle(wanted, len(PROMPT))))
    rules = replace(RULES["seeded"](), end_ids=frozenset({end}))
    seq = read(engine, PROMPT)
    accepted = perform(engine, seq, Round(20), rules)
    assert isinstance(accepted, Accepted)
    assert list(accepted.ids) == wanted[: wanted.index(end) + 1]
    assert seq.history.ids[-1] == end


@pytest.mark.spec("ENG-059", "ENG-038")
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_round_commits_no_more_than_its_limit(limit: int, plain: Callable[[str], Run]) -> None:
    engine = tiny_engine(drafter=Scripted(lambda ids, nodes, depth: chain(plain("greedy").ids[len(ids) - 75 :][:20])))
    seq = read(engine, PROMPT)
    for _ in range(3):
        accepted = perform(engine, seq, Round(limit), GREEDY)
        assert isinstance(accepted, Accepted)
        assert len(accepted.ids) == limit
    assert list(seq.history.ids[75:]) == plain("greedy").ids[: 3 * limit]


@pytest.mark.spec("ENG-065")
def test_a_tree_that_is_none_is_cut_and_counted(plain: Callable[[str], Run]) -> None:
    text = plain("greedy").ids
    broken = Tree((text[0], VOCAB, -1, 9, 4, text[1]), (-1, 0, 0, 7, -5, 0))
    engine = tiny_engine()
    seq = read(engine, PROMPT)
    [rows] = engine.verify([(seq, broken)])
    accepted = engine.accept(seq, rows, GREEDY)
    assert list(accepted.ids) == text[:3]
    assert (accepted.drafted, engine.state()["unsound_tokens"]) == (2, 4)


@pytest.mark.spec("ENG-065", "ENG-033")
@pytest.mark.parametrize("drafter", ["oracle", "trees"])
def test_trees_end_with_the_window(drafter: str) -> None:
    prompt = PROMPT[:40]
    wanted = run(tiny_engine(max_len=56), GREEDY, 16, prompt).ids
    engine = tiny_engine(max_len=56, drafter=Scripted(DRAFTERS[drafter](wanted, len(prompt))))
    seq, out = read(engine, prompt), list[int]()
    while len(out) < 16:
        out += rounds(engine, seq, 1) if len(out) == 0 else perform_ids(engine, seq, 99)
    assert out == wanted
    with pytest.raises(EngineError, match="full"):
        perform_ids(engine, seq, 99)


def perform_ids(engine: TorchEngine, seq: TorchSequence, limit: int) -> tuple[int, ...]:
    accepted = perform(engine, seq, Round(limit), GREEDY)
    assert isinstance(accepted, Accepted)
    return accepted.ids


@pytest.mark.spec("ENG-043")
@pytest.mark.parametrize("verb", ["verify", "accept"])
def test_a_fault_over_a_tree_ends_one_request(verb: str, plain: Callable[[str], Run]) -> None:
    model = tiny().model
    text = plain("greedy").ids
    engine = tiny_engine(model=model, drafter=Scripted(oracle(text, len(PROMPT))))
    seq = read(engine, PROMPT)
    perform(engine, seq, Round(4), GREEDY)
    head = model._head

    def broken(hidden: torch.Tensor) -> torch.Tensor:
        if verb == "verify":
            raise RuntimeError("no memory")
        logits = head(hidden)
        logits[2:] = torch.nan
        return logits

    model._head = broken  # type: ignore[assignment]
    with pytest.raises(EngineError):
        perform(engine, seq, Round(6), GREEDY)
    model._head = head
    assert list(seq.history.ids[75:]) == text[:4]
    engine.close(seq)
    assert run(engine, GREEDY).ids == text
    assert engine.state()["errors"] == 1


@pytest.mark.spec("ENG-039")
def test_a_kept_row_and_a_newest_token_are_both_roots(plain: Callable[[str], Run]) -> None:
    """After a prefill or a force the tree hangs on the kept row and is verified without its root."""
    text = plain("greedy").ids
    engine = tiny_engine()
    seq, tree = read(engine, PROMPT), chain(text[:3])
    row = seq.row
    [rows] = engine.verify([(seq, tree)])
    assert rows.logits is row
    engine.accept(seq, rows, GREEDY)
    assert (seq.length, len(seq.history)) == (75 + 3, 75 + 4)
    [rows] = engine.verify([(seq, chain(text[4:6]))])
    engine.accept(seq, rows, GREEDY)
    assert list(seq.history.ids[75:]) == text[:7]
    settled = state_of(engine, seq)
    engine.settle(seq)
    assert same([settled], [state_of(engine, seq)])
    assert engine.draft(seq, 5) == EMPTY_TREE
    assert kept_row(engine, seq).argmax() == text[7]
