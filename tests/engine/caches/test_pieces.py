"""The file format, key ids as bytes, and what a fingerprint is made of."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.caches.disk_index import DiskIndex, DiskSettings, Entry
from tandem.engine.caches.disk_prefix import Missing
from tandem.engine.caches.disk_writes import PendingWrites
from tandem.engine.caches.fingerprint import Fingerprint, config_hash, profile_folder, weights_key
from tandem.engine.caches.keys import Keys, chain
from tandem.engine.caches.pieces import Damaged, PieceFile, Scratch, checksum, piece_bytes, write_piece
from tandem.engine.models.recurrent import Recurrent
from tests.engine.models.memory import tiny_llama


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 5), (1, 40_000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64])
def test_a_tensor_comes_back_bit_for_bit(tmp_path: Path, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = (torch.randn(shape) * 100).to(dtype)
    parts = [("a", tensor), ("b", tensor.T.contiguous().T if tensor.dim() == 2 else tensor)]
    size = write_piece(tmp_path / "x", "kind", "fp", {"n": 1}, parts)
    assert size == (tmp_path / "x").stat().st_size == piece_bytes("kind", "fp", {"n": 1}, parts)
    with PieceFile.open(tmp_path / "x") as file:
        assert (file.kind, file.fingerprint, file.facts, file.parts) == ("kind", "fp", {"n": 1}, ("a", "b"))
        for scratch in (None, Scratch()):
            for name in file.parts:
                read = file.read(name, scratch)
                assert (read.dtype, read.shape) == (dtype, tensor.shape)
                assert torch.equal(read, tensor)
        with pytest.raises(Damaged, match="has no part c"):
            file.read("c")


@pytest.mark.parametrize("size", [0, 1, 7, 8, 32_768, 100_003])
def test_a_flip_a_swap_and_a_blank_change_the_checksum(size: int) -> None:
    rng = np.random.default_rng(size)
    data = rng.integers(0, 256, size, dtype=np.uint8)
    plain = checksum(data)
    for at in rng.integers(0, size, 30) if size else ():
        flipped = data.copy()
        flipped[at] ^= 1 << int(rng.integers(0, 8))
        assert checksum(flipped) != plain
    if size > 2 * 32_768:
        swapped = np.concatenate([data[32_768:65_536], data[:32_768], data[65_536:]])
        assert checksum(swapped) != plain
        blank = data.copy()
        blank[4096:8192] = 0
        assert checksum(blank) != plain


IDS = st.lists(st.one_of(st.integers(0, 1 << 20), st.sampled_from([-1, -2, -1 - (1 << 255), -5 - (1 << 254)])))


@pytest.mark.spec("ENG-105")
@given(IDS, IDS)
def test_keys_are_equal_where_ids_are(one: list[int], other: list[int]) -> None:
    assert Keys.of(one).ids == tuple(one)
    assert (Keys.of(one) == Keys.of(other)) == (one == other)
    assert (Keys.of(one).digest == Keys.of(other).digest) == (one == other)


@given(IDS, IDS)
def test_names_of_a_prefix_do_not_depend_on_what_follows(one: list[int], other: list[int]) -> None:
    names = chain(one, 3)
    assert len(names) == len(one) // 3
    shared = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    alike = next((at for at, (a, b) in enumerate(zip(names, chain(other, 3), strict=False)) if a != b), None)
    assert alike in (None, shared // 3)
    assert chain(one + other, 3)[: len(names)] == names


def test_pending_writes_stop_where_rows_are_overwritten() -> None:
    pending = PendingWrites()
    missing = [Missing(4), Missing(4, "anchor", Recurrent(4)), Missing(8), Missing(12)]
    pending.plan((1, 2, 3), missing)
    assert pending.take() == missing[0]
    pending.overwritten(8)
    assert [pending.take() for _ in range(3)] == [missing[1], missing[2], None]
    pending.plan((1,), missing)
    pending.overwritten(7)
    assert len(pending) == 2
    pending.drop()
    assert (len(pending), pending.ids) == (0, (1,))


@pytest.mark.spec("ENG-116")
def test_settings_come_of_the_document_and_its_defaults() -> None:
    default = DiskSettings()
    assert (default.mode, default.budget, default.ttl, default.admit_after, default.min_free) == (
        "off",
        100 * 10**9,
        14 * 86_400,
        2,
        50 * 10**9,
    )
    assert DiskSettings.of({}) == default
    document = {"mode": "on", "budget_gb": 0.5, "ttl_days": 1, "admit_after": 3, "min_free_gb": 2}
    assert DiskSettings.of(document) == DiskSettings(
        mode="on", budget=5 * 10**8, ttl=86_400, admit_after=3, min_free=2 * 10**9
    )


SIZES = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 3)), max_size=12)


@pytest.mark.spec("ENG-116")
@given(SIZES, st.integers(0, 30), st.integers(0, 200), st.integers(0, 50), st.integers(0, 200))
def test_room_is_made_of_the_oldest_and_no_more_than_needed(
    sizes: list[tuple[int, int]], size: int, budget: int, floor: int, free: int
) -> None:
    entries = [Entry("f" * 32, 4 * at, f"{at:032x}", "rows", each, used) for at, (each, used) in enumerate(sizes)]
    spare = {entry.file for entry in entries[:2]}
    index, settings = DiskIndex(entries), DiskSettings(budget=budget, min_free=floor)
    victims = index.room(size, free, settings, spare)
    by_file = {entry.file: entry for entry in entries}
    held, loose = index.nbytes, sum(entry.size for entry in entries[2:])
    needed = max(held + size - budget, floor + size - free)
    if victims is None:
        assert needed > loose
        return
    freed = sum(by_file[file].size for file in victims)
    assert freed >= needed
    assert not spare & set(victims)
    if victims:
        assert freed - by_file[victims[-1]].size < needed
        kept = [entry.used for entry in entries[2:] if entry.file not in victims]
        assert max(by_file[file].used for file in victims) <= min(kept, default=9)


def test_the_most_used_entries_are_shown() -> None:
    entries = [Entry("f" * 32, 4, f"{at:032x}", "rows", 10) for at in range(3)]
    index = DiskIndex(entries)
    index.use([entries[1].file, entries[2].file], 1, hit=True)
    index.use([entries[2].file], 2, hit=True)
    index.use([entries[0].file], 2)
    assert [(entry.name[-1], hits) for entry, hits in index.top(5)] == [("2", 2), ("1", 1)]
    index.remove(entries[2].file)
    assert [hits for _, hits in index.top(5)] == [1]


@pytest.mark.spec("ENG-117")
def test_every_field_changes_the_fingerprint() -> None:
    base = Fingerprint(weights="w", tokenizer="t", config="c", grid=4, numbers="fp32")
    others: list[dict[str, Any]] = [{field.name: "x"} for field in dataclasses.fields(base)]
    changed = [base, *(dataclasses.replace(base, **other) for other in others)]
    assert len({each.digest for each in changed}) == len(changed)
    config = tiny_llama().model.config
    assert config_hash(config) == config_hash(dataclasses.replace(config))
    assert config_hash(config) != config_hash(dataclasses.replace(config, num_hidden_layers=9))


@pytest.mark.spec("ENG-117")
def test_weights_are_known_by_their_content_and_not_by_their_place(tmp_path: Path) -> None:
    data = os.urandom(5 << 20)

    def written(folder: str, content: bytes, time: int = 7) -> str:
        path = tmp_path / folder / "model.safetensors"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (time, time))
        return weights_key([path])

    first = written("a", data)
    assert written("b", data) == first
    assert written("b", data, time=8) != first
    assert written("b", data[:-1]) != first
    assert written("b", bytes([data[0] ^ 1]) + data[1:]) != first
    assert written("b", data[:-1] + bytes([data[-1] ^ 1])) != first
    assert written("b", b"") != first


@pytest.mark.spec("ENG-176")
def test_each_profile_has_a_folder_of_its_own(tmp_path: Path) -> None:
    names = ["27b", "27B", "a/b", "a_b", "..", ".", "", "a b", "x" * 300, "x" * 301, "ä", "a_b~c"]
    folders = [profile_folder(tmp_path, name) for name in names]
    assert len(set(folders)) == len(names)
    assert {folder.parent for folder in folders} == {tmp_path}
    assert not {folder.name for folder in folders} & {"", ".", ".."}
    for folder in folders:
        folder.mkdir()
