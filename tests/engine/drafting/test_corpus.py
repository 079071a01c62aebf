"""Suffix arrays and the corpus file: what is found, how much is looked at for it, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.drafting.corpus import BORDER, Corpus, CorpusRefused, join, write_corpus
from tandem.engine.drafting.suffixes import DEPTH, SHORTEST, Ids, Suffixes, agreed, suffix_array

documents = st.lists(st.lists(st.integers(0, 3), max_size=30), max_size=5)


@given(documents)
@pytest.mark.spec("ENG-050")
def test_the_array_is_sorted(texts: list[list[int]]) -> None:
    ids = join(texts)
    array = suffix_array(ids)
    assert sorted(array.tolist()) == list(range(len(ids)))
    heads = [ids[start : start + DEPTH].tolist() for start in array]
    assert heads == sorted(heads)


@given(documents, st.lists(st.integers(0, 3), max_size=12), st.integers(SHORTEST, DEPTH))
@pytest.mark.spec("ENG-049", "ENG-050")
def test_the_longest_match_is_found_everywhere_it_is(texts: list[list[int]], last: list[int], least: int) -> None:
    ids = join(texts)
    suffixes = Suffixes.of(ids)
    ends = suffixes.ends(last, 10_000, least)
    length = {end: agreed(ids, end, last[-DEPTH:]) for end in range(len(ids) + 1)}
    best = max(length.values())
    assert sorted(ends) == [end for end in length if length[end] == best >= least]
    for end in ends:
        follow = suffixes.follow(end, 5)
        assert BORDER not in follow
        assert follow == ids[end : end + len(follow)].tolist()


class Watched:
    """Ids that count how often they are read."""

    def __init__(self, ids: Ids) -> None:
        self._ids, self.reads = ids, 0

    def __getitem__(self, part: slice) -> Ids:
        self.reads += 1
        return self._ids[part]


@pytest.mark.spec("ENG-050")
def test_a_lookup_reads_little_of_a_million_tokens() -> None:
    ids = np.random.default_rng(0).integers(0, 5_000, 1_000_000).astype(np.int32)
    suffixes = Suffixes.of(ids)
    for start in (0, 500_000, 999_000):
        watched = Watched(ids)
        suffixes.ids = cast(Ids, watched)
        assert suffixes.ends(ids[start : start + 40].tolist(), 16) == [start + 40]
        assert 0 < watched.reads < 150


@pytest.mark.spec("ENG-050")
def test_a_file_gives_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "x.ids"
    write_corpus(path, join([[1, 2, 3, 4], [], [9, 2, 3, 7]]), "abc")
    assert path.stat().st_mode & 0o777 == 0o600
    corpus = Corpus(path, "abc")
    assert corpus.ids.tolist() == [1, 2, 3, 4, BORDER, 9, 2, 3, 7, BORDER]
    assert {(match.length, *match.follow) for match in corpus.matches([2, 3], 16, 4)} == {(2, 4), (2, 7)}
    assert [match.follow for match in corpus.matches([0, 1, 2, 3], 16, 4)] == [[4]]
    assert corpus.matches([3, 4], 16, 4) == []
    write_corpus(path, join([]), "abc")
    assert Corpus(path, "abc").matches([1, 2], 16, 4) == []


@pytest.mark.spec("ENG-050")
def test_another_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.ids"
    write_corpus(path, join([[1, 2]]), "abc")
    with pytest.raises(CorpusRefused, match=r"x\.ids: was built with another tokenizer \(abc…, the model's is xyz…\)"):
        Corpus(path, "xyz")


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 600, b'{"format": 1}'.ljust(600)])
def test_what_is_no_corpus_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.ids"
    with pytest.raises(CorpusRefused, match=r"x\.ids: No such file"):
        Corpus(path, "abc")
    path.write_bytes(content)
    with pytest.raises(CorpusRefused, match=r"x\.ids: is no corpus"):
        Corpus(path, "abc")


def test_a_file_that_is_cut_is_refused_and_a_damaged_one_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "x.ids"
    write_corpus(path, join([[1, 2, 3, 1, 2, 4]] * 20), "abc")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(CorpusRefused, match="is not whole"):
        Corpus(path, "abc")
    path.write_bytes(whole[:512] + np.random.default_rng(0).bytes(len(whole) - 512))
    for last in ([1, 2], [2, 3, 1, 2]):
        assert isinstance(Corpus(path, "abc").matches(last, 16, 4), list)
