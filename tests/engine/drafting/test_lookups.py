"""A lookup from the settings to the engine: corpus, suffix store, what a request leaves there, what stops a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.combined import Combined
from tandem.engine.drafting.corpus import join, write_corpus
from tandem.engine.drafting.lookup import LookupDrafter
from tandem.engine.drafting.lookups import Lookups, open_lookups
from tandem.engine.drafting.store import SuffixStore
from tandem.engine.errors import CheckpointError
from tandem.engine.load import load_engine
from tandem.engine.text.prompt import Prompt, Span
from tandem.engine.tiny.kinds import make_tiny
from tests.engine.decoding.engines import ids_of, read, rounds, tiny_engine

CAP = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> SuffixStore:
    return SuffixStore(tmp_path / "suffixes", "abc", cap=CAP)


def engine_of(store: SuffixStore) -> TorchEngine:
    return tiny_engine(drafter=Combined([LookupDrafter({"store": store})], store=store))


@pytest.mark.spec("ENG-118")
def test_a_request_leaves_what_it_read_and_wrote(store: SuffixStore) -> None:
    engine, prompt = engine_of(store), ids_of(75)
    seq = read(engine, prompt)
    written = rounds(engine, seq, 5)
    engine.close(seq)
    assert list(store.documents()) == [[*prompt, *written]]
    # The next turn reads on: what a cache supplied is not kept again.
    more = ids_of(10, seed=1)
    seq = read(engine, [*prompt, *written, *more])
    assert seq.resumed == len(prompt) + 4
    answer = rounds(engine, seq, 3)
    engine.close(seq)
    assert list(store.documents())[1:] == [[written[-1], *more, *answer]]
    assert engine.state()["suffix_store_bytes"] == store.nbytes


@pytest.mark.spec("ENG-118")
def test_nothing_hidden_and_no_guest_is_kept(store: SuffixStore) -> None:
    engine, ids = engine_of(store), ids_of(20)
    prompt = Prompt(tuple(ids), (Span("client", 0, 8), Span("note", 8, 12), Span("client", 12, 20)), 8)
    seq = engine.open(prompt)
    engine.prefill(seq, 20)
    before = rounds(engine, seq, 2)
    engine.force(seq, [1, 2, 3])
    after = rounds(engine, seq, 2)
    loan = engine.borrow(seq, 40)
    guest = read(engine, ids_of(10, seed=2))
    rounds(engine, guest, 2)
    engine.close(guest)
    engine.give_back(loan)
    engine.close(seq)
    assert list(store.documents()) == [ids[:8], [*ids[12:], *before], after]
    seq = read(engine, ids_of(8, seed=3))
    rounds(engine, seq, 2)
    engine.restore(seq, engine.snapshot(seq))
    engine.close(seq)
    assert list(store.documents())[3:] == [ids_of(8, seed=3)]


@pytest.mark.spec("ENG-118")
def test_what_one_request_wrote_is_guessed_in_the_next(store: SuffixStore) -> None:
    engine, prompt = engine_of(store), ids_of(40)
    seq = read(engine, prompt)
    text = rounds(engine, seq, 10)
    engine.close(seq)
    seq = read(engine, prompt)
    assert engine.draft(seq, 8).tokens == tuple(text[:7])
    assert rounds(engine, seq, 10) == text
    assert engine.state()["suffix_store_hits"] > 0


@pytest.mark.spec("ENG-118")
def test_a_store_that_has_stopped_is_told_of(store: SuffixStore) -> None:
    engine = tiny_engine(drafter=Combined([LookupDrafter()], store=store), suffix=store)
    assert engine.memory().notes == ()
    store.trouble = "the disk is full"
    assert engine.memory().notes == ("the disk is full",)


@pytest.mark.spec("ENG-050", "ENG-118")
def test_a_load_opens_them_and_names_what_it_cannot_use(tmp_path: Path) -> None:
    model = make_tiny("llama", tmp_path / "tiny")
    sha = open_checkpoint(model).text.sha256
    corpus, other, folder = tmp_path / "c.ids", tmp_path / "other.ids", tmp_path / "suffixes"
    write_corpus(corpus, join([list(range(10, 60))]), sha)
    write_corpus(other, join([[1, 2]]), "abc")
    with pytest.raises(CheckpointError, match=r"other\.ids: was built with another tokenizer"):
        load_engine(model, drafter="lookup", lookups=Lookups(corpus=other))
    engine = load_engine(model, drafter="lookup", lookups=Lookups(corpus=corpus, store=folder))
    seq = read(engine, [10, 11, 12, 13, 14])
    assert engine.draft(seq, 5).tokens == (15, 16, 17, 18)
    with pytest.raises(CheckpointError, match=r"^--suffix-store .*suffixes is in use by process"):
        load_engine(model, drafter="lookup", lookups=Lookups(store=folder))
    assert open_lookups(Lookups(store=folder, store_readonly=True), sha).store is not None
    engine = load_engine(model, lookups=Lookups(store=folder))  # nobody looks anything up
    assert "suffix_store_bytes" not in engine.state()
