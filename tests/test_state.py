from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.state import LOCK_NAME, StateLocked, open_state

HOLD = """
import sys
from pathlib import Path
from tandem.state import open_state
with open_state(Path(sys.argv[1]), temporary=False):
    print("held", flush=True)
    sys.stdin.read()
"""


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.spec("API-259")
def test_a_second_process_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        assert (path / LOCK_NAME).read_text() == f"{first.pid}\n"
        with pytest.raises(StateLocked) as refused, open_state(path, temporary=False):
            pass
        assert str(refused.value) == (
            f"{path} is in use by process {first.pid}: stop it, or name another directory with --state-dir"
        )
        assert (path / LOCK_NAME).read_text() == f"{first.pid}\n"
        first.send_signal(signal.SIGKILL)
        first.wait()
        with open_state(path, temporary=False):  # what a dead process left is no obstacle
            assert (path / LOCK_NAME).read_text() == f"{os.getpid()}\n"


@pytest.mark.spec("API-259")
def test_the_lock_ends_with_the_block(tmp_path: Path) -> None:
    def fail() -> None:
        with open_state(tmp_path, temporary=False):
            with pytest.raises(StateLocked), open_state(tmp_path, temporary=False):
                pass
            raise LookupError

    for _ in range(2):
        with pytest.raises(LookupError):
            fail()
    with open_state(tmp_path, temporary=False) as state:
        assert (state.path, state.temporary) == (tmp_path, False)
    assert (tmp_path / LOCK_NAME).read_text() == ""


def test_the_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "not" / "there"
    with open_state(path, temporary=False):
        assert [mode(each) for each in (path, path.parent, path / LOCK_NAME)] == [0o700, 0o700, 0o600]


@pytest.mark.spec("OBS-016")
def test_a_temporary_state_is_elsewhere_is_said_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    named = tmp_path / "named"
    with caplog.at_level("INFO"), open_state(named, temporary=True) as state:
        assert state.temporary
        assert mode(state.path) == 0o700
        (state.path / "file").touch()
        assert [record.getMessage() for record in caplog.records] == [
            f"[state] kept in {state.path} and removed at the end"
        ]
        assert not named.exists()
    assert not list(tmp_path.iterdir())
