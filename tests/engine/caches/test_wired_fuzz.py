"""Conversations, guests, edits, restarts and faults in any order: never a token that a run without caches would not
write.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.engine.caches.settings import CacheSettings
from tandem.engine.decoding.torch_engine import TorchEngine
from tests.engine.caches.wired import MIB, ON, Turn, flush, turn, warm
from tests.engine.decoding.engines import GRID, ids_of

pytestmark = pytest.mark.usefixtures("kind")

STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.integers(0, 2), st.integers(1, 45)),
        st.tuples(st.just("guest"), st.integers(0, 1), st.integers(1, 60)),
        st.tuples(st.just("edit"), st.integers(0, 2), st.integers(0, 160)),
        st.tuples(st.just("again"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("loan"), st.integers(0, 2), st.integers(1, 60)),
        st.tuples(
            st.sampled_from(("upkeep", "drain", "kill", "other", "clear", "shed")), st.just(0), st.integers(0, 9)
        ),
        st.tuples(st.sampled_from(("cut", "flip", "full", "rights")), st.integers(0, 30), st.integers(0, 10_000)),
    ),
    min_size=4,
    max_size=14,
)
WINDOW: Final = 256
HEAD: Final = GRID + 9


class Service:
    """A process and its folder, over many lives, and what its clients have got so far."""

    def __init__(self, folder: Path, budgets: Sequence[int]) -> None:
        store, park, stash, anchors = budgets
        self.folder = folder
        self.anchors = anchors
        self.settings = CacheSettings(
            guest_max=70,
            stash=stash,
            park=park,
            store=store,
            gate=False,
            disk=replace(ON, budget=MIB // 2),
            disk_folder=folder / "disk",
            spill_folder=folder / "spill",
        )
        head = ids_of(HEAD, 11)
        self.talks = [[*head, *ids_of(70, 20)], [*head, *ids_of(9, 21)], ids_of(100, 22)]
        self.engine = self.start()

    def start(self, fingerprint: str = "f" * 32) -> TorchEngine:
        return warm(self.settings, fingerprint=fingerprint, max_len=WINDOW, anchor_bytes=self.anchors)

    def ask(self, ids: Sequence[int], *, head: int = 0) -> Turn:
        answer = turn(self.engine, ids, 3, head=head)
        assert answer.writes_as_cold(ids), (answer.source, answer.resumed)
        if answer.source in ("resident", "disk"):
            assert answer.is_cold_run(ids), (answer.source, answer.resumed)
        return answer

    def do(self, step: tuple[str, int, int]) -> None:
        name, which, count = step
        match name:
            case "turn":
                self.talk(which, ids_of(count, count))
            case "edit":
                self.talks[which] = self.talks[which][: max(count, HEAD if which < 2 else 1)]
                self.talk(which, [5])
            case "again":
                self.talk(which, [])
            case "guest":
                self.ask(ids_of(count, 30 + which))
            case "loan":
                loan = self.engine.borrow(None, 80)
                assert turn(self.engine, ids_of(count, 40), 3).source == ""
                self.engine.give_back(loan)
            case "upkeep":
                flush(self.engine, most=count)
            case "drain" | "kill" | "other":
                self.end(name, count)
            case "clear":
                self.engine.clear()
            case "shed":
                self.engine.resize(replace(self.settings, stash=0, park=0, store=0))
                self.engine.resize(self.settings)
            case _:
                self.fault(name, which, count)

    def talk(self, which: int, ids: Sequence[int]) -> None:
        talk = self.talks[which]
        if len(talk) + len(ids) + 3 >= WINDOW:
            talk = talk[: HEAD + 1]
        talk = [*talk, *ids]
        self.talks[which] = [*talk, *self.ask(talk, head=HEAD if which < 2 else 0).ids]

    def end(self, how: str, written: int) -> None:
        """The process ends, in the midst of its writing; another model may have the folder before it is back."""
        flush(self.engine, most=written)
        if how == "drain":
            self.engine.spill()
        self.engine.leave()
        if how == "other":
            other = self.start("e" * 32)
            turn(other, self.talks[0])
            flush(other, most=3)
            other.leave()
        self.engine = self.start()

    def fault(self, name: str, which: int, at: int) -> None:
        """Of the disk, between two requests."""
        flush(self.engine, most=which)
        files = sorted(path for path in self.folder.rglob("*") if path.is_file() and path.name != "lock")
        if name == "full":
            turn(self.engine, self.talks[2], 3)
            job = self.engine.upkeep(0)
            if job is not None:
                self.engine.kept(job, OSError(28, "No space left on device"), 0)
        elif files:
            path = files[which % len(files)]
            if name == "rights":
                path.unlink()
                os.mkdir(path)
                return
            if not (data := bytearray(path.read_bytes())):
                return
            if name == "cut":
                data = data[: at % len(data)]
            else:
                data[at % len(data)] ^= 1 << (at % 8)
            path.write_bytes(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.spec("ENG-105", "ENG-106", "ENG-109", "ENG-113", "ENG-114", "ENG-116", "ENG-117", "ENG-121", "ENG-073")
@settings(max_examples=15, deadline=None)
@given(
    steps=STEPS,
    budgets=st.tuples(
        st.sampled_from((0, MIB // 4, 4 * MIB)),
        st.sampled_from((0, MIB)),
        st.sampled_from((0, MIB // 40, MIB)),
        st.sampled_from((MIB // 64, 4 * MIB)),
    ),
)
def test_never_a_wrong_token(folder: Path, steps: list[tuple[str, int, int]], budgets: tuple[int, ...]) -> None:
    place = Path(tempfile.mkdtemp(dir=folder))
    service = Service(place, budgets)
    try:
        for step in steps:
            service.do(step)
    finally:
        service.engine.leave()
        shutil.rmtree(place)
