"""The suffix store: what it keeps, over restarts, kills, a full cap and damage; and what it never keeps."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem.engine.caches.folder import FolderRefused
from tandem.engine.drafting.corpus import CorpusRefused
from tandem.engine.drafting.idlog import IdLog
from tandem.engine.drafting.store import Run, SuffixStore, read_runs
from tandem.engine.text.images import Patches, PromptImage
from tandem.engine.text.prompt import Prompt, Span

CAP = 1 << 20


def store(path: Path, tokenizer: str = "abc", **options: object) -> SuffixStore:
    return SuffixStore(path, tokenizer, **{"cap": CAP, **options})  # type: ignore[arg-type]


def remember(store: SuffixStore, read: list[list[int]], written: list[list[int]]) -> None:
    """Runs with a token between them that is hidden."""
    history, runs = list[int](), list[Run]()
    for each in [*read, *written]:
        runs.append((len(history), len(history) + len(each)))
        history += [*each, 99]
    store.remember(history, runs[: len(read)], runs[len(read) :])


def kept(path: Path) -> list[list[int]]:
    """What a reader finds."""
    reader = store(path, readonly=True)
    try:
        return list(reader.documents())
    finally:
        reader.close()


@pytest.mark.spec("ENG-118")
def test_what_was_remembered_is_found_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "suffixes"
    first = store(path)
    remember(first, [[1, 2, 3]], [[4, 5, 6]])
    assert [list(match.follow) for match in first.matches([9, 1, 2], 16, 4)] == [[3]]
    first.close()
    again = store(path)
    assert [list(match.follow) for match in again.matches([4, 5], 16, 4)] == [[6]]
    assert again.matches([2, 3], 16, 4) == again.matches([7, 7], 16, 4) == []
    assert again.state()["suffix_store_hits"] == 1
    assert path.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in path.iterdir()} == {0o600}
    assert again.clear() > 0
    assert list(again.documents()) == []
    again.close()
    assert kept(path) == []


@pytest.mark.spec("ENG-118")
def test_a_disk_that_takes_no_new_log_ends_the_keeping_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = store(tmp_path)
    remember(kept, [[1, 2, 3]], [[4, 5, 6]])

    def full(path: Path, tokenizer: str) -> IdLog:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("tandem.engine.drafting.store.IdLog", full)
        kept.clear()
    assert kept.trouble is not None
    assert os.strerror(errno.ENOSPC) in kept.trouble
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)  # has the number of the log's file
    remember(kept, [[7, 8, 9]], [])
    assert kept.state()["suffix_store_bytes"] == 0
    assert not list(tmp_path.glob("*.log")), "what was to be forgotten is there after a restart"
    kept.close()
    assert os.fstat(other).st_size == 0
    os.close(other)


def test_runs_that_touch_are_one_document(tmp_path: Path) -> None:
    one = store(tmp_path)
    one.remember([1, 2, 3, 4, 5, 6, 7], [(0, 2), (3, 4)], [(4, 6), (6, 7)])
    assert list(one.documents()) == [[1, 2], [4, 5, 6, 7]]
    one.close()


@pytest.mark.spec("ENG-119")
def test_scope_outputs_keeps_what_was_written_alone(tmp_path: Path) -> None:
    only = store(tmp_path, scope="outputs")
    remember(only, [[1, 2, 3]], [[4, 5, 6]])
    remember(only, [[1, 2, 3]], [])
    assert list(only.documents()) == [[4, 5, 6]]
    only.close()


@pytest.mark.spec("ENG-119")
def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    assert list(store(absent, readonly=True).documents()) == []
    assert not absent.exists()
    writer = store(tmp_path)
    remember(writer, [], [[4, 5, 6]])
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    reader = store(tmp_path, readonly=True)
    remember(reader, [], [[7, 8, 9]])
    assert reader.clear() == 0
    assert list(reader.documents()) == [[4, 5, 6]]
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
    writer.close()


@pytest.mark.spec("ENG-118")
def test_a_second_writer_is_refused_by_name(tmp_path: Path) -> None:
    first = store(tmp_path)
    with pytest.raises(FolderRefused, match=f"{tmp_path} is in use by process {os.getpid()}"):
        store(tmp_path)
    first.close()
    store(tmp_path).close()


@pytest.mark.spec("ENG-118")
@pytest.mark.parametrize("seal", [2, 1_000])
def test_another_tokenizers_store_is_not_opened(tmp_path: Path, seal: int) -> None:
    first = store(tmp_path, seal=seal)
    remember(first, [], [[4, 5, 6]])
    first.close()
    for readonly in (True, False):
        with pytest.raises(CorpusRefused, match="of another tokenizer; name another directory"):
            store(tmp_path, "xyz", readonly=readonly)
    assert kept(tmp_path) == [[4, 5, 6]]


@pytest.mark.spec("ENG-118")
def test_over_the_cap_the_oldest_go(tmp_path: Path) -> None:
    small = store(tmp_path, cap=40_000)
    written = [[at, at + 1, at + 2] * 20 for at in range(0, 3_000, 3)]
    for each in written:
        remember(small, [], [each])
        assert small.nbytes <= 40_000
    left = list(small.documents())
    assert left == written[-len(left) :]
    assert 20_000 / 8 / 60 - 10 < len(left) < 40_000 / 4 / 60
    assert small.state()["suffix_store_evictions"] > 0
    assert len(list(tmp_path.iterdir())) < 30
    remember(small, [], [list(range(10_000))])  # more than half of the cap
    assert list(small.documents()) == left
    small.close()
    assert kept(tmp_path) == left


@pytest.mark.spec("ENG-118")
def test_a_full_disk_stops_the_writing_and_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = store(tmp_path)
    remember(full, [], [[1, 2, 3]])

    def write(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    remember(full, [], [[4, 5, 6]])
    monkeypatch.undo()
    remember(full, [], [[7, 8, 9]])
    assert full.trouble == f"{tmp_path}: No space left on device; the suffix store keeps nothing more"
    assert list(full.documents()) == [[1, 2, 3]]
    full.close()
    assert kept(tmp_path) == [[1, 2, 3]]


@pytest.mark.spec("ENG-118")
def test_hidden_tokens_images_and_what_a_cache_supplied_are_no_reads() -> None:
    spans = (Span("client", 0, 8), Span("note", 8, 10), Span("client", 10, 14), Span("replayed", 14, 16))
    image = PromptImage(3, Patches(1, 2, b"digest", None))
    prompt = Prompt(tuple(range(16)), spans, 16, images=(image,))
    assert image.stop == 5
    assert read_runs(prompt, 0, 16) == [(0, 3), (5, 8), (10, 14)]
    assert read_runs(prompt, 6, 16) == [(6, 8), (10, 14)]
    assert read_runs(prompt, 4, 16) == [(5, 8), (10, 14)]
    assert read_runs(prompt, 16, 16) == read_runs(prompt, 0, 0) == []
    assert read_runs(prompt, 1, 4) == [(1, 3)]
    assert read_runs(prompt, 0, 11) == [(0, 3), (5, 8), (10, 11)]


run = st.lists(st.integers(0, 9), min_size=1, max_size=20)
step = st.one_of(
    st.tuples(st.just("add"), run),
    st.tuples(st.just("reopen"), st.just(0)),
    st.tuples(st.just("tear"), st.integers(1, 60)),
    st.tuples(st.just("partial"), st.just(0)),
    st.tuples(st.just("undeleted"), st.integers(0, 9)),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(step, max_size=25), st.sampled_from([4, 30, 10_000]))
@pytest.mark.spec("ENG-118")
def test_after_any_kills_it_holds_a_run_of_what_was_remembered(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[int] | int]], seal: int
) -> None:
    path = tmp_path_factory.mktemp("store")
    opened = store(path, seal=seal, cap=4_000)
    written: list[list[int]] = []
    ghosts: dict[str, bytes] = {}
    for what, value in steps:
        if isinstance(value, list):
            remember(opened, [], [value])
            written.append(value)
            ghosts |= {each.name: each.read_bytes() for each in path.iterdir() if each.suffix == ".ids"}
            continue
        before = list(opened.documents())
        opened.close()
        if what == "tear" and (logs := sorted(path.glob("*.log"))):
            os.truncate(logs[-1], max(0, logs[-1].stat().st_size - value))
        elif what == "partial":
            (path / "00000099-00000099.ids.partial").write_bytes(b"half")
        elif what == "undeleted":
            # A kill came between the rename of a larger file and the removal of the ones in it.
            newest = max((name for name in ghosts if (path / name).exists()), default=None)
            for name in [name for name in ghosts if newest and within(name, newest)][:value]:
                (path / name).write_bytes(ghosts[name])
        opened = store(path, seal=seal, cap=4_000)
        after = list(opened.documents())
        assert after == before or (what == "tear" and after == before[: len(after)])
        written = after
    left = list(opened.documents())
    assert left == written[len(written) - len(left) :]
    for document in left:
        if len(document) > 2:
            assert opened.matches(document[:2], 1_000, 4)
    opened.close()


def within(name: str, other: str) -> bool:
    first, last = (int(each) for each in name[:-4].split("-"))
    low, high = (int(each) for each in other[:-4].split("-"))
    return low <= first <= last <= high
