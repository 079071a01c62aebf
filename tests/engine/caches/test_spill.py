"""The session spill: what a drain writes is what the next start reads, or nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tandem.engine.caches.resident import Anchor
from tandem.engine.caches.spill import Place, Spilled, discard_spill, read_spill, spill
from tests.engine.caches.stored import FINGERPRINT, Buffer, recurrent_at, rows_of

IMAGE = -1 - (1 << 200)
IDS = (*range(100, 108), IMAGE, IMAGE, *range(110, 118))
ANCHORS = (Anchor(8, "bit", recurrent_at(IDS, 8)), Anchor(18, "text", recurrent_at(IDS, 18)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "profile"
    spill(folder, "resident", FINGERPRINT, Spilled(IDS, ANCHORS), rows_of(IDS, 0, len(IDS)))
    return folder


def restored(
    folder: Path, place: Place = "resident", fingerprint: str = FINGERPRINT, rows: int = 100
) -> Spilled | None:
    buffer = Buffer()
    spilled = read_spill(folder, place, fingerprint, rows, buffer.span)
    assert not [path for path in folder.iterdir() if path.name.startswith(place)], "it is read once"
    if spilled is not None:
        assert buffer.holds(IDS, 0, len(IDS))
        assert spilled == Spilled(IDS, ANCHORS)
        for got, right in zip(spilled.anchors, ANCHORS, strict=True):
            assert (got.recurrent.row, got.recurrent.offset) == (right.row, right.recurrent.offset)
            assert all(
                torch.equal(one, other)
                for ours, theirs in zip(got.recurrent.layers, right.recurrent.layers, strict=True)
                for one, other in zip(ours, theirs, strict=True)
            )
    return spilled


def test_ids_rows_and_anchors_come_back_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert restored(folder) is not None
    assert restored(folder) is None
    monkeypatch.setattr("tandem.engine.caches.spill._CHUNK", 5)
    for _ in range(2):  # over what is there, too
        spill(folder, "resident", FINGERPRINT, Spilled(IDS, ANCHORS), rows_of(IDS, 0, len(IDS)))
    assert (folder / "resident.spill").stat().st_mode & 0o777 == 0o600
    assert restored(folder) is not None


def test_the_parked_one_has_a_file_of_its_own(folder: Path) -> None:
    spill(folder, "parked", FINGERPRINT, Spilled(IDS, ANCHORS), rows_of(IDS, 0, len(IDS)))
    assert restored(folder, "parked") is not None
    assert restored(folder) is not None


@pytest.mark.spec("ENG-176")
def test_another_fingerprint_or_a_narrower_window_is_a_cold_start(folder: Path) -> None:
    assert restored(folder, fingerprint="e" * 32) is None
    spill(folder, "resident", FINGERPRINT, Spilled(IDS, ANCHORS), rows_of(IDS, 0, len(IDS)))
    assert restored(folder, rows=len(IDS) - 1) is None


@pytest.mark.parametrize("at", range(0, 100, 9))
def test_a_flip_or_a_cut_anywhere_is_a_cold_start(folder: Path, at: int) -> None:
    path = folder / "resident.spill"
    data = bytearray(path.read_bytes())
    spot = len(data) * at // 100
    path.write_bytes(data[:spot])
    assert restored(folder) is None
    data[spot] ^= 16
    path.write_bytes(data)
    assert restored(folder) is None


def test_a_spill_that_is_not_wanted_is_removed(folder: Path) -> None:
    (folder / "parked.spill.tmp").write_bytes(b"cut short")
    discard_spill(folder)
    assert list(folder.iterdir()) == []
    discard_spill(folder / "none")


def test_a_write_that_fails_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tandem.engine.caches.pieces.os.write", full)
        with pytest.raises(OSError, match="No space"):
            spill(folder, "resident", FINGERPRINT, Spilled(IDS, ANCHORS), rows_of(IDS, 0, len(IDS)))
    assert list(folder.iterdir()) == []
