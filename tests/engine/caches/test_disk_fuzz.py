"""The disk tier over any sequence of prompts, restarts and faults: never a wrong byte, and no fault stops a request."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.engine.caches.disk import DiskTier
from tandem.engine.caches.disk_index import DiskSettings
from tests.engine.caches.stored import FINGERPRINT, GRID, end, fill, open_tier, resumed

# Of two tokens, so that most prompts share something.
PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=18).map(tuple)
SPOTS = st.tuples(st.integers(0, 40), st.floats(0, 0.999))
STEPS = st.one_of(
    st.tuples(st.just("read"), PROMPTS),
    st.tuples(st.just("fill"), PROMPTS),
    st.tuples(st.just("end"), st.tuples(PROMPTS, st.integers(0, 4), st.integers(0, 17))),
    st.tuples(st.just("full"), st.tuples(PROMPTS, st.integers(0, 30))),
    st.tuples(st.just("flip"), SPOTS),
    st.tuples(st.just("cut"), SPOTS),
    st.tuples(st.just("swap"), st.tuples(st.integers(0, 40), st.integers(0, 40))),
    st.tuples(st.just("restart"), st.sampled_from([FINGERPRINT, FINGERPRINT, FINGERPRINT, "e" * 32])),
    st.tuples(st.just("budget"), st.sampled_from([0, 1_000, 3_000, 10_000, 1 << 30])),
    st.tuples(st.just("clear"), st.none()),
)


class World:
    """One folder, the tier that has it open, and what is done to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.budget = 1 << 30
        self.tier = self._open(FINGERPRINT)

    def _open(self, fingerprint: str) -> DiskTier:
        self.fingerprint = fingerprint
        return open_tier(self.folder, settings=self._settings(), fingerprint=fingerprint, now=self.now)

    def _settings(self) -> DiskSettings:
        # Each differs, so a fault is forgotten by it.
        return DiskSettings(mode="on", admit_after=1, min_free=0, budget=self.budget, ttl=1e6 + self.now)

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.name != "lock")

    def step(self, what: str, argument: Any) -> None:
        self.now += 1
        getattr(self, what)(argument)
        assert self.tier.state()["disk_bytes"] <= self.budget

    def read(self, ids: tuple[int, ...]) -> None:
        resumed(self.tier, ids, now=self.now)

    def fill(self, ids: tuple[int, ...]) -> None:
        fill(self.tier, ids, now=self.now)

    def end(self, argument: tuple[tuple[int, ...], int, int]) -> None:
        ids, lines, before = argument
        exact = min(lines * GRID, (len(ids) - 1) // GRID * GRID)
        end(self.tier, ids, exact=exact, before=before if exact < before < len(ids) else 0, now=self.now)

    def full(self, argument: tuple[tuple[int, ...], int]) -> None:
        ids, left = argument
        with mock.patch("tandem.engine.caches.pieces.os.write", _failing(left)):
            fill(self.tier, ids, now=self.now)
        self.tier.configure(self._settings(), self.now)

    def flip(self, spot: tuple[int, float]) -> None:
        if files := self.files():
            path = files[spot[0] % len(files)]
            data = bytearray(path.read_bytes())
            if data:
                data[int(spot[1] * len(data))] ^= 1 << (spot[0] % 8)
                path.write_bytes(data)

    def cut(self, spot: tuple[int, float]) -> None:
        if files := self.files():
            path = files[spot[0] % len(files)]
            os.truncate(path, int(spot[1] * path.stat().st_size))

    def swap(self, two: tuple[int, int]) -> None:
        if files := self.files():
            one, other = (files[at % len(files)] for at in two)
            first, second = one.read_bytes(), other.read_bytes()
            one.write_bytes(second)
            other.write_bytes(first)

    def restart(self, fingerprint: str) -> None:
        self.tier.close()
        (self.folder / f"{fingerprint[:16]}-00000004-{'0' * 32}.rows.tmp").write_bytes(b"torn")
        self.tier = self._open(fingerprint)
        assert all(path.name.startswith(fingerprint[:16]) and path.suffix != ".tmp" for path in self.files())

    def set_budget(self, budget: int) -> None:
        self.budget = budget
        self.tier.configure(self._settings(), self.now)

    def clear(self, _: None) -> None:
        self.tier.clear()
        assert self.files() == []


def _failing(left: int) -> Callable[[int, bytes], int]:
    """`os.write` on a disk that is full after `left` calls; the last one of them writes a part only."""
    written, real = iter(range(left)), os.write

    def write(descriptor: int, data: bytes) -> int:
        if (at := next(written, None)) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[: (len(data) + 1) // 2] if at == left - 1 else data)

    return write


@pytest.mark.spec("ENG-116", "ENG-117", "ENG-105")
@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_any_sequence_of_prompts_restarts_and_faults(steps: list[tuple[str, Any]]) -> None:
    with ExitStack() as stack:
        stack.enter_context(mock.patch("tandem.engine.caches.pieces.os.fsync"))
        world = World(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        for what, argument in steps:
            world.step("set_budget" if what == "budget" else what, argument)
        # Whatever has happened, a folder with room serves on.
        world.set_budget(1 << 30)
        ids = (0, 1) * 9
        for _ in range(5):  # each time a damaged file is found, what stands behind it is written again
            world.read(ids)
            world.fill(ids)
        assert resumed(world.tier, ids, now=world.now) >= len(ids) // GRID * GRID
        world.tier.close()
