"""The disk tier over real files: what comes back is what was written, or nothing."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.engine.caches.disk_index import DiskSettings
from tandem.engine.caches.disk_writes import write
from tandem.engine.caches.folder import FolderRefused
from tandem.engine.caches.keys import Keys
from tandem.engine.caches.resident import Anchor
from tests.engine.caches.stored import FINGERPRINT, GRID, ON, fill, open_tier, recurrent_at, resumed, rows_of

IDS = tuple(range(100, 118))
LINES = 16


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "lock")


@pytest.mark.spec("ENG-116", "ENG-073")
def test_a_prompt_resumes_at_the_last_line_it_shares_after_a_restart_too(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    assert resumed(tier, IDS) == 0
    assert fill(tier, IDS) == 8
    tier.close()
    tier = open_tier(tmp_path)
    assert resumed(tier, IDS) == LINES
    assert resumed(tier, (*IDS[:9], 1, 2, 3)) == 8
    assert resumed(tier, IDS[:16]) == 12, "the last token is left to be read"
    assert resumed(tier, IDS, 8) == LINES, "what is in place already is not read again"
    assert resumed(tier, (1, *IDS[1:])) == 0
    assert fill(tier, IDS) == 0, "all of it is there"
    assert tier.state()["disk_hits"] == 4
    assert tier.state()["disk_saved_tokens"] == 16 + 8 + 12 + 8


def test_without_recurrent_layers_rows_are_all(tmp_path: Path) -> None:
    tier = open_tier(tmp_path, recurrent=False)
    assert fill(tier, IDS) == 4
    assert resumed(tier, IDS, recurrent=False) == LINES


def test_a_line_without_its_anchor_is_passed(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    assert fill(tier, IDS, anchors=[8, 12]) == 5
    assert resumed(tier, IDS) == 12
    assert fill(tier, IDS, anchors=[16]) == 2
    assert resumed(tier, IDS) == LINES
    assert resumed(tier, IDS[:7]) == 0


@pytest.mark.spec("ENG-117")
def test_files_are_private_and_whole(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "profile"
    fill(open_tier(folder), IDS)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(folder)} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not [path for path in files(folder) if path.suffix == ".tmp"]


@pytest.mark.spec("ENG-117")
@pytest.mark.parametrize("kind", ["rows", "anchor"])
@pytest.mark.parametrize("damage", ["cut", "longer", "empty", "gone", *range(0, 100, 7)])
def test_a_damaged_file_is_a_miss_and_deleted(tmp_path: Path, kind: str, damage: str | int) -> None:
    tier = open_tier(tmp_path)
    fill(tier, IDS)
    path = next(path for path in files(tmp_path) if "-00000012-" in path.name and path.suffix == f".{kind}")
    data = bytearray(path.read_bytes())
    match damage:
        case "cut":
            path.write_bytes(data[:-5])
        case "longer":
            path.write_bytes(data + b"\0")
        case "empty":
            path.write_bytes(b"")
        case "gone":
            path.unlink()
        case _:
            data[len(data) * int(damage) // 100] ^= 1 << (int(damage) % 8)
            path.write_bytes(data)
    # Of the line's rows nothing behind them can be used; of its anchor only the line itself is lost.
    assert resumed(tier, IDS[:14]) == 8
    assert not path.exists()
    assert resumed(tier, IDS) == (8 if kind == "rows" else 16)
    assert tier.state()["disk_damaged"] == 1
    assert fill(tier, IDS) == 1, "and it is written again"
    assert resumed(tier, IDS[:14]) == 12


@pytest.mark.spec("ENG-117", "ENG-176")
def test_a_start_sweeps_what_is_of_another_fingerprint_and_nothing_else(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    fill(tier, IDS)
    tier.close()
    mine = tmp_path / "notes.txt"
    mine.write_text("not a cache file")
    torn = tmp_path / (files(tmp_path)[0].name + ".tmp")
    torn.write_bytes(b"TANDEM")
    other = open_tier(tmp_path, fingerprint="f" * 32)
    assert resumed(other, IDS) == 0
    assert files(tmp_path) == [mine]


@pytest.mark.spec("ENG-105")
def test_names_find_candidates_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every chunk of every prompt gets the same digest: all names of a line collide.
    monkeypatch.setattr(Keys, "digest", b"same")
    tier = open_tier(tmp_path)
    fill(tier, IDS)
    assert resumed(tier, IDS) == LINES
    assert resumed(tier, (*IDS[:6], 7, *IDS[7:])) == 4
    assert resumed(tier, tuple(range(30))) == 0


@pytest.mark.spec("ENG-105")
def test_images_are_compared_by_their_content(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    one, other = -1 - (1 << 255), -2 - (1 << 255)
    ids = (5, one, one, 6, 7, other, 8, 9, 10)
    fill(tier, ids)
    assert resumed(tier, ids) == 8
    assert resumed(tier, (5, other, other, 6, 7, one, 8, 9, 10)) == 0
    assert resumed(tier, (5, one, one, 6, 7, one, 8, 9, 10)) == 4


@pytest.mark.spec("ENG-116")
def test_it_is_written_once_enough_prompts_have_held_it(tmp_path: Path) -> None:
    tier = open_tier(tmp_path, settings=DiskSettings(mode="on", admit_after=2, min_free=0))
    assert fill(tier, IDS[:10]) == 0
    assert fill(tier, IDS) == 4, "two lines have been seen twice"
    assert resumed(tier, IDS) == 8


@pytest.mark.spec("ENG-116")
def test_modes_apply_from_the_next_request_on(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    fill(tier, IDS)
    tier.configure(DiskSettings(mode="read", min_free=0), 0)
    assert resumed(tier, IDS) == LINES
    assert fill(tier, tuple(range(20))) == 0
    tier.configure(DiskSettings(mode="off"), 0)
    assert resumed(tier, IDS) == 0
    tier.configure(ON, 0)
    assert resumed(tier, IDS) == LINES


@pytest.mark.spec("MEM-015")
def test_what_a_person_sees_of_it(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    fill(tier, IDS)
    assert resumed(tier, IDS) == LINES
    assert resumed(tier, (9, 9, 9, 9, 9)) == 0
    view = tier.view()
    assert (view.bytes, view.hits, view.misses) == (tier.state()["disk_bytes"], 1, 1)
    assert view.settings == tier.settings
    assert view.free is not None
    assert view.top
    assert sum(size for _, size, _ in view.top) <= view.bytes


@pytest.mark.spec("ENG-116")
def test_what_is_not_used_for_its_time_goes(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    fill(tier, IDS[:8], now=0)
    fill(tier, tuple(range(8)), now=50)
    settings = DiskSettings(mode="on", ttl=60, admit_after=1, min_free=0)
    tier.configure(settings, 100)
    assert resumed(tier, (*IDS[:8], 1)) == 0
    assert resumed(tier, (*range(8), 1), now=100) == 8
    tier.close()
    assert resumed(open_tier(tmp_path, settings=settings, now=120), (*range(8), 1)) == 8, "a use counts after a restart"


@pytest.mark.spec("ENG-116")
def test_over_the_budget_the_longest_unused_goes_from_its_end(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    fill(tier, IDS[:8], now=1)
    fill(tier, tuple(range(8)), now=2)
    held = tier.state()["disk_bytes"]
    tier.configure(DiskSettings(mode="on", budget=held - 1, min_free=0), 3)
    assert resumed(tier, (*IDS[:8], 1), now=3) == 4
    assert resumed(tier, (*range(8), 1), now=3) == 8
    assert sum(path.stat().st_size for path in files(tmp_path)) == tier.state()["disk_bytes"] < held


@pytest.mark.spec("ENG-116")
def test_the_free_floor_is_kept(tmp_path: Path) -> None:
    tier = open_tier(tmp_path, settings=DiskSettings(mode="on", admit_after=1, min_free=1 << 60))
    assert fill(tier, IDS) == 0
    assert files(tmp_path) == []
    assert tier.state()["disk_stopped"] == 0, "that is no fault"


@pytest.mark.spec("ENG-117")
def test_a_full_disk_stops_the_writing_and_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = open_tier(tmp_path)
    fill(tier, IDS[:10])

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("tandem.engine.caches.pieces.os.write", full)
        assert fill(tier, IDS) == 0
    assert fill(tier, IDS) == 0, "nor later, when there may be room again"
    assert list(tier.events) == [f"writing to {tmp_path} stopped: No space left on device"]
    assert len(files(tmp_path)) == 4
    assert resumed(tier, IDS) == 8, "what is there is read"
    tier.configure(DiskSettings(mode="on", admit_after=1, min_free=1), 0)
    assert fill(tier, IDS) == 4, "a change of its settings is a person's word to try again"


@pytest.mark.spec("ENG-117")
def test_a_second_process_is_refused_by_name(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    with pytest.raises(FolderRefused, match=f"{tmp_path} is in use by process {os.getpid()}"):
        open_tier(tmp_path)
    tier.close()
    open_tier(tmp_path).close()


@pytest.mark.spec("ENG-117")
def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FolderRefused, match="file cannot be used as a cache folder: Not a directory; name one that"):
        open_tier(tmp_path / "file")

    def forbidden(*_: object) -> int:
        # Root may write everywhere, and tests run as root.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr("tandem.engine.caches.folder.Path.iterdir", forbidden)
        with pytest.raises(FolderRefused, match="cannot be used as a cache folder: Permission denied"):
            open_tier(tmp_path)
    monkeypatch.setattr("tandem.engine.caches.folder.os.open", forbidden)
    with pytest.raises(FolderRefused, match="cannot be used as a cache folder: Permission denied; name one that"):
        open_tier(tmp_path)


def test_clear_removes_all_of_it_and_what_is_being_written(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    fill(tier, IDS[:8])
    tier.saw(IDS)
    job = tier.job(IDS, tier.missing(IDS, [Anchor(12, "bit", recurrent_at(IDS, 12))])[0], rows_of(IDS, 8, 8 + GRID))
    assert job is not None
    held = sum(path.stat().st_size for path in files(tmp_path))
    assert tier.clear() == held
    tier.written(job, write(job), 0)
    assert files(tmp_path) == []
    assert tier.state()["disk_entries"] == tier.state()["disk_bytes"] == 0
    assert resumed(tier, IDS) == 0


def test_what_is_being_written_is_not_planned_again(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    tier.saw(IDS)
    anchors = [Anchor(8, "bit", recurrent_at(IDS, 8))]
    first, *others = tier.missing(IDS, anchors)
    job = tier.job(IDS, first, rows_of(IDS, 0, GRID))
    assert job is not None
    assert tier.missing(IDS, anchors) == others
    tier.written(job, write(job), 0)
    assert tier.missing(IDS, anchors) == others


WRITER = """
import sys
from pathlib import Path
from tests.engine.caches.stored import fill, open_tier
tier = open_tier(Path(sys.argv[1]))
print("open", flush=True)
for first in range(10_000):
    fill(tier, (first, *range(40)))
"""


@pytest.mark.spec("ENG-117")
def test_a_process_killed_in_the_midst_of_writing_leaves_only_whole_files(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while len(list(tmp_path.iterdir())) < 30:
            assert process.poll() is None
        process.kill()
    there = len(list(tmp_path.iterdir()))
    tier = open_tier(tmp_path, fingerprint=FINGERPRINT)
    assert len(files(tmp_path)) >= there - 2
    assert resumed(tier, (0, *range(40))) == 40
    for first in range(there):
        resumed(tier, (first, *range(40)))
    assert tier.state()["disk_damaged"] == 0
