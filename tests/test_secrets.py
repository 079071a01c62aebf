"""Where secrets come from, what stops a start, and how settings are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.config import SettingError, Settings
from tandem.secrets import FILE_NAME, Secrets, read_secrets, shown_value

LONG = "0123456789abcdef" * 2
OTHER = "fedcba9876543210" * 2


def write(state: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path = state / FILE_NAME
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


@pytest.mark.spec("API-009")
def test_nothing_is_set_by_default(tmp_path: Path) -> None:
    assert read_secrets({}, tmp_path) == Secrets()
    assert read_secrets({"TANDEM_ADMIN_TOKEN": "", "TANDEM_API_KEY": " "}, tmp_path) == Secrets()
    assert read_secrets({}, tmp_path / "missing") == Secrets()


@pytest.mark.spec("API-009", "API-018", "API-254")
def test_secrets_come_from_the_environment_or_the_file(tmp_path: Path) -> None:
    lines = f"# passwords\n\nTANDEM_ADMIN_TOKEN={LONG}\nexport TANDEM_API_KEY = 'a key'\nHF_TOKEN=x\n"
    write(tmp_path, lines)
    assert read_secrets({}, tmp_path) == Secrets(admin_token=LONG, api_key="a key")
    environ = {"TANDEM_ADMIN_TOKEN": OTHER, "TANDEM_API_KEY": "", "TANDEM_METRICS_TOKEN": "m\n"}
    assert read_secrets(environ, tmp_path) == Secrets(admin_token=OTHER, api_key="a key", metrics_token="m")


def test_quotes_belong_to_the_value_where_they_are_not_a_pair(tmp_path: Path) -> None:
    write(tmp_path, 'TANDEM_API_KEY=\'"a=b#c\nTANDEM_METRICS_TOKEN=""\n')
    assert read_secrets({}, tmp_path) == Secrets(api_key="'\"a=b#c")


def test_a_secret_need_not_be_unicode(tmp_path: Path) -> None:
    write(tmp_path, b"TANDEM_API_KEY=\xff\xfe")
    assert read_secrets({}, tmp_path).is_api_key(b"\xff\xfe")
    assert read_secrets({"TANDEM_API_KEY": "\udcff"}, tmp_path).is_api_key(b"\xff")


@pytest.mark.spec("API-011")
def test_a_short_password_stops_the_start(tmp_path: Path) -> None:
    short = LONG[:-1]
    for environ in ({"TANDEM_ADMIN_TOKEN": short}, {}):
        write(tmp_path, f"TANDEM_ADMIN_TOKEN={short}")
        with pytest.raises(SettingError, match=r"^TANDEM_ADMIN_TOKEN: .* 32 characters") as caught:
            read_secrets(environ, tmp_path)
        assert short not in str(caught.value)
    write(tmp_path, "")
    assert read_secrets({"TANDEM_ADMIN_TOKEN": "ä" * 32}, tmp_path).admin_token == "ä" * 32
    assert read_secrets({"TANDEM_METRICS_TOKEN": "m", "TANDEM_API_KEY": "k"}, tmp_path).api_key == "k"


@pytest.mark.spec("API-011")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o602])
def test_a_file_that_others_can_use_stops_the_start(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path, f"TANDEM_ADMIN_TOKEN={LONG}", mode)
    with pytest.raises(SettingError, match="chmod 600") as caught:
        read_secrets({"TANDEM_ADMIN_TOKEN": OTHER}, tmp_path)
    assert str(path) in str(caught.value)
    assert LONG not in str(caught.value)


@pytest.mark.spec("API-016")
@pytest.mark.parametrize(
    "line", [LONG, f"TANDEM_ADMIN_TOKN={LONG}", f"={LONG}", f"TANDEM_PORT {LONG}", "TANDEM_PORT=1"]
)
def test_a_line_that_sets_nothing_stops_the_start(tmp_path: Path, line: str) -> None:
    write(tmp_path, f"TANDEM_API_KEY=k\n{line}\n")
    with pytest.raises(SettingError, match="line 2") as caught:
        read_secrets({}, tmp_path)
    assert LONG not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.spec("API-016")
def test_secrets_show_no_value() -> None:
    secrets = Secrets(admin_token=LONG)
    assert repr(secrets) == str(secrets) == "Secrets(admin_token=set, api_key=unset, metrics_token=unset)"
    assert f"{[secrets]}" == f"[{secrets}]"


@pytest.mark.spec("API-009")
def test_secrets_are_neither_settings_nor_unknown() -> None:
    environ = {"TANDEM_ADMIN_TOKEN": LONG, "TANDEM_API_KEY": "k", "TANDEM_METRICS_TOKEN": "m", "TANDEM_KEY": "x"}
    settings = Settings.from_sources({}, environ)
    assert settings.unknown == ("TANDEM_KEY",)
    assert LONG not in repr(settings)


@pytest.mark.spec("API-209")
@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("TANDEM_ADMIN_TOKEN", "x", "<redacted>"),
        ("some_api_key", "", "<redacted>"),
        ("Secret", 1, "<redacted>"),
        ("DB_PASSWORD_FILE", "/home/ada/p", "<redacted>"),
        ("state_dir", Path("/home/ada/.tandem"), "~/.tandem"),
        ("state_dir", "/home/ada", "~"),
        ("state_dir", "/home/adam/.tandem", "/home/adam/.tandem"),
        ("state_dir", "/mnt/home/ada/.tandem", "/mnt/home/ada/.tandem"),
        ("model", "file:///home/ada/m.gguf", "file://~/m.gguf"),
        ("path", "/home/ada/a:/home/ada/b", "~/a:~/b"),
        ("port", 8000, "8000"),
        ("model", None, "None"),
    ],
)
def test_settings_are_shown_without_secrets_and_home(name: str, value: object, shown: str) -> None:
    assert shown_value(name, value, Path("/home/ada")) == shown
    assert shown_value("x", "/a", Path("/")) == "/a"
