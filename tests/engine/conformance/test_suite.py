"""What every model must hold behind the verbs, whoever wrote it: one suite over each kind of tiny checkpoint (ENG-169).

Only the verbs are used, and what `load_engine` gives. A new model is added as a kind (`tandem.engine.tiny.kinds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch

from tandem.engine.decoding.asking import ask_in_prompt
from tandem.engine.decoding.language import allowed
from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Round, perform
from tandem.engine.drafting.choice import DrafterKind
from tandem.engine.drafting.tree import chain
from tandem.engine.grammar.constraints import Calls, CallsOrDocument, Constraint, JsonSchema
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.load import load_engine
from tandem.engine.models.vision.preprocess import Cutter
from tandem.engine.room import Budgets
from tandem.engine.text.checkpoint import CheckpointText
from tandem.engine.text.images import PromptImage
from tandem.engine.text.prompt import Prompt
from tandem.engine.tiny.kinds import KINDS, make_tiny
from tandem.engine.verbs import EMPTY_TREE, Accepted, SamplingRules, Tree
from tests.engine.decoding.masks import SetMask
from tests.engine.models.vision.seeing import picture

GRID = 32
IDS = torch.randint(300, (75,), generator=torch.Generator().manual_seed(5)).tolist()
GREEDY = SamplingRules()
NOW = {"type": "function", "function": {"name": "now"}}
DOCUMENT = JsonSchema({"type": "array", "items": {"type": "integer"}, "minItems": 6}, "response_format")
EITHER = CallsOrDocument(Calls([NOW], None, 16), DOCUMENT)
RULES = {
    "greedy": GREEDY,
    "seeded": SamplingRules(temperature=0.8, top_p=0.9, seed=11, repetition_penalty=1.2),
    "masked": SamplingRules(mask=SetMask(frozenset(range(5, 300, 2))), presence_penalty=0.5),
}


@dataclass(frozen=True)
class Subject:
    """An engine that is tested, and one of the same checkpoint beside it to compare with."""

    engine: TorchEngine
    beside: TorchEngine


def load(kind: str, folder: pytest.TempPathFactory, drafter: DrafterKind = "none") -> TorchEngine:
    path = make_tiny(kind, folder.mktemp("conformance") / kind)
    return load_engine(path, max_len=256, grid=GRID, cpu_weights="fp32", budgets=Budgets(margin=0), drafter=drafter)


@pytest.fixture(scope="module", params=KINDS)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return Subject(load(request.param, tmp_path_factory), load(request.param, tmp_path_factory))


@pytest.fixture
def subject(loaded: Subject) -> Subject:
    """With nothing in its caches."""
    for engine in (loaded.engine, loaded.beside):
        if engine._open is not None:
            engine.close(engine._open)
        engine.clear()
    return loaded


def read(engine: TorchEngine, prompt: Sequence[int] | Prompt = IDS) -> TorchSequence:
    prompt = prompt if isinstance(prompt, Prompt) else Prompt.of_client(prompt)
    seq = engine.open(prompt)
    while engine.prefill(seq, len(prompt.ids)).done < len(prompt.ids):
        pass
    return seq


def write(engine: TorchEngine, seq: TorchSequence, count: int, rules: SamplingRules = GREEDY) -> list[int]:
    out: list[int] = []
    while len(out) < count:
        accepted = perform(engine, seq, Round(count - len(out)), rules)
        assert isinstance(accepted, Accepted)
        out += accepted.ids
    return out


def row(engine: TorchEngine, seq: TorchSequence) -> torch.Tensor:
    [rows] = engine.verify([(seq, EMPTY_TREE)])
    return rows.logits.clone()


def drafts(text: Sequence[int], at: int) -> Tree:
    """A tree that holds the next two tokens of `text` on one of three paths; a chain of them every third time."""
    if at % 3 == 0:
        return chain(text[at : at + 2])
    return Tree((7, text[at], 9, text[at + 1], 11), (-1, -1, 0, 1, 1))


@pytest.mark.spec("ENG-169", "ENG-065", "ENG-067")
@pytest.mark.parametrize("rules", RULES)
def test_promise(subject: Subject, rules: str) -> None:
    engine = subject.engine
    text = write(subject.beside, read(subject.beside), 16, RULES[rules])
    seq, out = read(engine), list[int]()
    count = 0
    while len(out) < 12:
        [rows] = engine.verify([(seq, drafts(text, len(out)))])
        out += engine.accept(seq, rows, RULES[rules]).ids
        count += 1
    assert out == text[: len(out)]
    assert count < len(out)


@pytest.mark.spec("ENG-169", "ENG-086", "ENG-085")
@pytest.mark.parametrize("constraint", [DOCUMENT, EITHER], ids=["document", "either"])
def test_masks(subject: Subject, constraint: Constraint) -> None:
    text = constrained(subject.beside, constraint, ())
    assert len(text) > 4
    assert constrained(subject.engine, constraint, text) == text
    assert subject.engine.state()["accepted_tokens"] > 0


def constrained(engine: TorchEngine, constraint: Constraint, text: Sequence[int]) -> list[int]:
    """A constrained answer of at most 24 tokens, drafted from `text` where there is one."""
    mask = Grammars(engine.text).compile(constraint).mask("free")
    rules = SamplingRules(mask=mask, temperature=1.0, seed=4, end_ids=frozenset(engine.text.end_ids))
    seq, out = read(engine), list[int]()
    while len(out) < 24 and not (out and out[-1] in rules.end_ids):
        tree = allowed(drafts(text, len(out)), mask) if len(out) + 2 < len(text) else EMPTY_TREE
        [rows] = engine.verify([(seq, tree)])
        ids = engine.accept(seq, rows, rules).ids
        mask.commit([token for token in ids if token not in rules.end_ids])
        out += ids
    return out


@pytest.mark.spec("ENG-169", "ENG-107", "ENG-073")
def test_resumes(subject: Subject) -> None:
    seq = read(subject.engine)
    written = write(subject.engine, seq, 4)
    subject.engine.close(seq)
    edited = [*IDS[:70], 3, 4]
    again, cold = read(subject.engine, edited), read(subject.beside, edited)
    assert again.resumed == 64
    assert torch.equal(row(subject.engine, again), row(subject.beside, cold))
    for each, one in ((subject.engine, again), (subject.beside, cold)):
        each.close(one)
    subject.engine.close(read(subject.engine, [*IDS, *written]))
    grown = read(subject.engine, [*IDS, *written, 8, 9])
    assert grown.resumed == len(IDS) + len(written)


@pytest.mark.spec("ENG-169", "ENG-041")
def test_ask(subject: Subject) -> None:
    seq, plain = read(subject.engine), read(subject.beside)
    for engine, one in ((subject.engine, seq), (subject.beside, plain)):
        [rows] = engine.verify([(one, chain([7, 8]))])
        engine.accept(one, rows, GREEDY)
        if engine is subject.engine:
            assert sum(engine.ask(one, [3, 1, 2], [5, 6, 7])) == pytest.approx(1.0)
    assert torch.equal(row(subject.engine, seq), row(subject.beside, plain))
    assert write(subject.engine, seq, 5) == write(subject.beside, plain, 5)
    subject.engine.close(seq)
    shares = ask_in_prompt(subject.engine, Prompt.of_client(IDS), 70, [1, 2], [5, 6])
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.spec("ENG-169", "ENG-134", "ENG-135")
def test_borrow(subject: Subject) -> None:
    seq, plain = read(subject.engine), read(subject.beside)
    text = write(subject.beside, plain, 8)
    [rows] = subject.engine.verify([(seq, Tree((7, text[0], text[1]), (-1, -1, 1)))])
    taken = subject.engine.accept(seq, rows, GREEDY).ids
    loan = subject.engine.borrow(seq, 40 + 8 + 64)
    assert loan.nbytes == 112 * subject.engine.cost()["bytes_per_token"]
    write(subject.engine, read(subject.engine, IDS[30:70]), 8)
    subject.engine.give_back(loan)
    assert [*taken, *write(subject.engine, seq, 5)] == text


@pytest.mark.spec("ENG-169", "ENG-039")
def test_snapshot_and_what_is_pending(subject: Subject) -> None:
    engine, plain = subject.engine, read(subject.beside)
    text = write(subject.beside, plain, 8)
    seq = read(engine)
    point = engine.snapshot(seq)
    for keeps in (3, 2, 1, 0):
        [rows] = engine.verify([(seq, chain(text[:2]))])
        assert engine.accept(seq, rows, GREEDY).ids == tuple(text[:3])
        engine.trim(seq, keeps)
        assert write(engine, seq, 5) == text[keeps : keeps + 5]
        engine.restore(seq, point)
    assert torch.equal(row(engine, seq), read_row(engine, seq))


def read_row(engine: TorchEngine, seq: TorchSequence) -> torch.Tensor:
    """The row of a prompt that is read again, without a cache."""
    ids = seq.prompt.ids
    engine.close(seq)
    engine.clear()
    return row(engine, read(engine, ids))


@pytest.mark.spec("ENG-169", "ENG-008")
def test_images(subject: Subject) -> None:
    engine, geometry = subject.engine, subject.engine.card.geometry
    if geometry is None:
        assert not engine.card.images
        return
    assert engine._eyes is not None
    assert isinstance(engine.text, CheckpointText)
    patches = Cutter(engine._eyes._tower.config).cut(picture(96, 64))
    ids = [*IDS[:40], *([engine.text.id_of("<|image_pad|>")] * patches.rows), *IDS[40:50]]
    prompt = replace(Prompt.of_client(ids), images=(PromptImage(40, patches),))
    seq, plain = read(engine, prompt), read(subject.beside, prompt)
    text = write(subject.beside, plain, 9)
    out: list[int] = []
    while len(out) < 6:
        [rows] = engine.verify([(seq, drafts(text, len(out)))])
        out += engine.accept(seq, rows, GREEDY).ids
    assert out == text[: len(out)]


@pytest.mark.spec("ENG-169", "ENG-046", "ENG-065")
@pytest.mark.parametrize("kind", ["llama", "qwen3_5"])
def test_the_drafters_a_checkpoint_carries(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    prompt = [*IDS[:20], *IDS[:20], *IDS[:10]]
    plain = load(kind, tmp_path_factory)
    wanted = write(plain, read(plain, prompt), 24)
    kinds: list[DrafterKind] = ["lookup"] if kind == "llama" else ["lookup", "mtp", "mtp+lookup"]
    for drafter in kinds:
        engine = load(kind, tmp_path_factory, drafter)
        assert write(engine, read(engine, prompt), 24) == wanted, drafter
        assert engine.state()["draft_faults"] == 0
        assert engine.state()["drafted_tokens"] > 0 or drafter == "lookup"
