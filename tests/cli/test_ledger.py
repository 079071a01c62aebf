"""`tandem ledger check` as a person runs it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tandem.cli import main
from tandem.store.ledger import open_writer
from tandem.store.schema import INSERT, row
from tests.store.samples import CREATED, fingerprint, outcome


def check(path: Path) -> Result:
    return CliRunner().invoke(main, ["ledger", "check", str(path)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


def write(path: Path, count: int = 3) -> sqlite3.Connection:
    connection = open_writer(path, CREATED)
    connection.executemany(INSERT, [row(outcome(n)) for n in range(count)])
    return connection


def table(output: str) -> dict[str, list[str]]:
    """The report's lines by their first word."""
    return {line.split()[0]: line.split()[1:] for line in output.splitlines()[1:]}


@pytest.mark.spec("OBS-008")
def test_an_older_file_is_migrated_on_a_copy_and_left_alone(path: Path) -> None:
    with closing(write(path, 2)) as connection:
        for column in ("profile", "lane", "code_sha"):
            connection.execute(f"ALTER TABLE requests DROP COLUMN {column}")
        connection.execute("DROP TABLE conductor_events")
    path.chmod(0o444)
    before = fingerprint(path)
    result = check(path)
    assert (result.exit_code, result.stderr) == (0, "")
    found = table(result.stdout)
    assert found["schema"] == ["version", "1", "1"]
    assert found["requests"] == ["2", "2"]
    assert found["conductor_events"] == ["-", "0"]
    assert found["integrity"] == ["ok"]
    assert fingerprint(path) == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.spec("OBS-008")
def test_an_empty_file_becomes_a_ledger_on_a_copy_alone(path: Path) -> None:
    path.touch()
    before = fingerprint(path)
    result = check(path)
    assert table(result.stdout)["schema"] == ["version", "0", "1"]
    assert fingerprint(path) == before


@pytest.mark.spec("OBS-008")
def test_a_file_in_use_is_read_with_its_log_and_left_alone(path: Path) -> None:
    with closing(write(path, 5)):
        assert path.with_name(path.name + "-wal").stat().st_size > 0
        before = fingerprint(path)
        assert table(check(path).stdout)["requests"] == ["5", "5"]
        assert fingerprint(path) == before


@pytest.mark.spec("OBS-008")
def test_a_file_of_a_killed_process_too(path: Path, tmp_path: Path) -> None:
    left = tmp_path / "left" / "ledger.sqlite3"
    left.parent.mkdir()
    with closing(write(path, 5)):
        for file in path.parent.glob(f"{path.name}*"):
            shutil.copy(file, left.parent)
    before = fingerprint(left)
    assert table(check(left).stdout)["requests"] == ["5", "5"]
    assert fingerprint(left) == before


@pytest.mark.spec("OBS-007", "OBS-008")
def test_what_is_no_ledger_is_one_line(path: Path, tmp_path: Path) -> None:
    write(path).close()
    newer, text, foreign = (tmp_path / name for name in ("newer", "text", "foreign"))
    shutil.copy(path, newer)
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 99")
    text.write_text("no database, and long enough to be one" * 100)
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE bookmarks (id INTEGER PRIMARY KEY)")
    for file, words in {
        tmp_path / "nowhere": "does not exist",
        tmp_path: "is a directory",
        text: "file is not a database",
        newer: "has schema version 99, this Tandem knows 1",
        foreign: "is a database of another program",
    }.items():
        before = fingerprint(file) if file.is_file() else None
        result = check(file)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: {file}")
        assert words in result.stderr
        assert result.stderr.count("\n") == 1
        assert before is None or fingerprint(file) == before


@pytest.mark.spec("OBS-008")
def test_damage_is_reported(path: Path) -> None:
    write(path, 2000).close()
    with closing(sqlite3.connect(path)) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'requests_ts'").fetchall()
        ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    with path.open("r+b") as file:
        file.seek((root - 1) * size + 20)
        file.write(os.urandom(64))
    result = check(path)
    assert result.exit_code == 1
    assert "damaged" in result.output or "malformed" in result.stderr


@pytest.mark.spec("OBS-008")
def test_as_a_process_it_needs_no_torch(path: Path) -> None:
    write(path).close()
    code = (
        "import sys\nfrom tandem.cli import main\n"
        f"main(['ledger', 'check', {str(path)!r}], standalone_mode=False)\n"
        "assert not {'torch', 'quart', 'aiosqlite'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "requests" in done.stdout
