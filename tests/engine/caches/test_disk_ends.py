"""Where answers ended, on the disk: a restart goes on there, over the rows below, or not at all (ENG-110, ENG-116)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.engine.caches.disk import DiskTier
from tandem.engine.caches.disk_index import DiskSettings
from tandem.engine.caches.keys import Keys
from tests.engine.caches.stored import GRID, ON, end, fill, open_tier, resumed

TALK = tuple(range(100, 118))
NEXT = (*TALK, 7, 8, 9)


def kinds(folder: Path) -> list[str]:
    """Row and kind of each file."""
    found = (path.name.split("-")[1:] for path in folder.iterdir() if path.name != "lock")
    return sorted(f"{int(row)} {rest.partition('.')[2]}" for row, rest in found)


def again(tier: DiskTier, folder: Path, settings: DiskSettings = ON) -> DiskTier:
    """After a restart."""
    tier.close()
    return open_tier(folder, settings=settings)


@pytest.mark.spec("ENG-116", "ENG-110")
def test_the_next_turn_after_a_restart_goes_on_where_the_answer_ended(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    fill(tier, TALK[:10])
    assert end(tier, TALK, exact=8) == 3, "two chunks that rounds wrote, and the end"
    assert kinds(tmp_path) == ["12 text", "16 text", "18 end", "4 anchor", "4 rows", "8 anchor", "8 rows"]
    tier = again(tier, tmp_path)
    assert resumed(tier, NEXT) == len(TALK)
    assert resumed(tier, TALK) == 8, "the last token is left to be read"
    assert resumed(tier, (*TALK[:17], 1, 2)) == 8, "nothing resumes within what rounds wrote"
    assert resumed(tier, NEXT, 8) == len(TALK)
    assert resumed(tier, NEXT, 8, beyond=14) == len(TALK), "rows that are in place in either class are not read again"
    assert resumed(tier, NEXT, 8, beyond=18) == 8, "nor is anything, where nothing is gained"
    assert tier.state()["disk_hits"] == 5


@pytest.mark.spec("ENG-116")
@pytest.mark.parametrize("recurrent", [True, False])
def test_a_conversation_shorter_than_a_chunk_has_an_end_alone(tmp_path: Path, recurrent: bool) -> None:
    tier = open_tier(tmp_path, recurrent=recurrent)
    assert end(tier, TALK[:3]) == 1
    assert resumed(tier, TALK[:4]) == 3
    assert resumed(tier, (1, *TALK[:3])) == 0


@pytest.mark.spec("ENG-116")
def test_an_end_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    end(tier, TALK[:10], exact=4)
    other = (*TALK[:9], 1, 2)
    end(tier, other, exact=4)
    assert end(tier, TALK, exact=4, before=10) == 3
    assert kinds(tmp_path) == ["11 end", "12 text", "16 text", "18 end", "4 rows", "8 text"]
    assert end(tier, TALK, exact=4, before=10) == 0, "it is there"
    assert resumed(tier, NEXT) == 18
    assert resumed(tier, (*other, 3)) == 11, "of another branch it is not"


@pytest.mark.spec("ENG-116")
def test_rows_of_bit_class_take_the_place_of_the_other(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    end(tier, TALK)
    assert kinds(tmp_path) == ["12 text", "16 text", "18 end", "4 text", "8 text"]
    fill(tier, TALK[:9])
    assert kinds(tmp_path) == ["12 text", "16 text", "18 end", "4 anchor", "4 rows", "8 anchor", "8 rows"]
    assert resumed(tier, NEXT) == 18
    assert resumed(tier, TALK[:9]) == 8


@pytest.mark.spec("ENG-116")
def test_an_end_is_written_once_its_conversation_has_had_enough_turns(tmp_path: Path) -> None:
    settings = DiskSettings(mode="on", admit_after=3, min_free=0)
    tier = open_tier(tmp_path, settings=settings)
    assert end(tier, TALK[:6]) == 0
    assert end(tier, TALK[:10], before=6) == 0
    assert end(tier, TALK[:13], before=6) == 0, "tried again: as many turns as before"
    assert end(tier, TALK[:18], before=10) == 5
    tier = again(tier, tmp_path, settings)
    assert resumed(tier, NEXT) == 18
    assert end(tier, NEXT, before=18) == 2, "one that is on the disk has had them"
    tier.configure(DiskSettings(mode="read", min_free=0), 0)
    assert end(tier, (*NEXT, 1), before=21) == 0


@pytest.mark.spec("ENG-117", "ENG-105")
@pytest.mark.parametrize(("kind", "row"), [("end", 18), ("text", 12), ("rows", 8)])
@pytest.mark.parametrize("damage", ["cut", "gone", *range(0, 100, 9)])
def test_a_damaged_file_is_a_miss(tmp_path: Path, kind: str, row: int, damage: str | int) -> None:
    tier = open_tier(tmp_path)
    fill(tier, TALK[:10])
    end(tier, TALK, exact=8)
    path = next(path for path in tmp_path.iterdir() if f"-{row:08d}-" in path.name and path.suffix == f".{kind}")
    data = bytearray(path.read_bytes())
    match damage:
        case "cut":
            path.write_bytes(data[:-5])
        case "gone":
            path.unlink()
        case _:
            data[len(data) * int(damage) // 100] ^= 1 << (int(damage) % 8)
            path.write_bytes(data)
    assert resumed(tier, NEXT) == (4 if kind == "rows" else 8)
    assert not path.exists()
    assert tier.state()["disk_damaged"] == 1
    assert end(tier, TALK, exact=8) == 1, "and it is written again"
    assert resumed(tier, NEXT) == 18


@pytest.mark.spec("ENG-105")
def test_names_that_collide_are_found_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Keys, "digest", b"same")
    tier = open_tier(tmp_path)
    end(tier, TALK)
    assert resumed(tier, (*TALK[:17], 1, 2)) == 0
    assert (tier.state()["disk_collisions"], tier.state()["disk_damaged"]) == (1, 0)


def test_over_the_budget_an_end_goes_before_what_it_stands_on(tmp_path: Path) -> None:
    tier = open_tier(tmp_path)
    end(tier, TALK, now=1)
    tier.configure(DiskSettings(mode="on", budget=tier.state()["disk_bytes"] - 1, admit_after=1, min_free=0), 2)
    assert kinds(tmp_path) == ["12 text", "16 text", "4 text", "8 text"]
    assert len(TALK) // GRID * GRID == 16
