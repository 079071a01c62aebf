"""Settings: declared once, read from flags and variables, refused with one line."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.config import SettingError, Settings, declared
from tandem.kinds import Choice, Flag, OnOff, Real, Whole


def read(*flags: tuple[str, object], **environ: str) -> Settings:
    return Settings.from_sources(dict(flags), environ)


@pytest.mark.spec("API-001")
def test_listens_on_this_machine_alone_by_default() -> None:
    settings = read()
    assert (settings.host, settings.port, settings.is_loopback) == ("127.0.0.1", 8000, True)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.8.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("box", False)],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert read(("host", host)).is_loopback is loopback


@pytest.mark.spec("API-008", "ENG-018")
def test_names_follow_the_rule() -> None:
    for name, setting in declared().items():
        assert setting.flag == "--" + name.replace("_", "-")
        assert setting.variable == "TANDEM_" + name.upper()
        assert setting.help.endswith(".")
        assert "|" not in setting.help + setting.default + setting.kind.allowed
    fields = {each.name for each in dataclasses.fields(Settings)}
    assert fields == declared().keys() | {"named", "unknown"}


@pytest.mark.spec("API-008", "ENG-018")
def test_flag_wins_over_variable_over_default() -> None:
    assert read().max_queue == 8
    assert read(TANDEM_MAX_QUEUE="3").max_queue == 3
    assert read(("max_queue", "2"), TANDEM_MAX_QUEUE="3").max_queue == 2
    assert read(("max_queue", None), TANDEM_MAX_QUEUE="3").max_queue == 3
    assert read(("max_queue", 5)).max_queue == 5


def test_named_and_unknown() -> None:
    settings = read(("port", "1"), TANDEM_STATE_DIR="/x", TANDEM_COLOUR="red", TANDEM_MODEL="", HOME="/h")
    assert settings.named == {"port", "state_dir"}
    assert settings.unknown == ("TANDEM_COLOUR",)
    assert settings.model is None


def test_two_services_share_nothing() -> None:
    one, other = read(("threads", "1")), read(("threads", "2"))
    assert (one.threads, other.threads) == (1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.threads = 3  # type: ignore[misc]


@pytest.mark.spec("API-008")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("port", "-1"),
        ("port", "65536"),
        ("port", "80.5"),
        ("host", " "),
        ("device", "tpu"),
        ("max_len", "0"),
        ("queue_timeout", "0"),
        ("queue_timeout", "nan"),
        ("request_timeout", "inf"),
        ("usage_default", "maybe"),
        ("fake", "2"),
        ("state_dir", ""),
        ("usage_ledger", "a\0b"),
        ("max_queue", "9" * 10_000),
    ],
)
def test_wrong_values(name: str, text: str) -> None:
    setting = declared()[name]
    sources: list[tuple[dict[str, str], dict[str, str], str]] = [({name: text}, {}, setting.flag)]
    if text:
        sources.append(({}, {setting.variable: text}, setting.variable))
    for flags, environ, source in sources:
        with pytest.raises(SettingError) as caught:
            Settings.from_sources(flags, environ)
        message = str(caught.value)
        assert message.startswith(f"{source}: ")
        assert message.endswith(f"it takes {setting.kind.allowed}")


@given(st.text(), st.sampled_from(sorted(declared())))
def test_any_text_is_read_or_refused_in_one_line(text: str, name: str) -> None:
    message = ""
    try:
        Settings.from_sources({name: text}, {})
    except SettingError as error:
        message = str(error)
    assert len(message) < 300
    assert "\n" not in message


def test_unknown_setting() -> None:
    with pytest.raises(SettingError, match="--max-colour: there is no such setting"):
        read(("max_colour", "1"))


@pytest.mark.parametrize(
    ("text", "value"),
    [("on", True), ("1", True), ("TRUE", True), ("yes", True), ("off", False), ("0", False), ("no", False)],
)
def test_switches(text: str, value: bool) -> None:
    assert OnOff().read(text) is Flag().read(text) is value


def test_ranges_are_inclusive() -> None:
    assert (Whole(1, 3).read("1"), Whole(1, 3).read("3")) == (1, 3)
    assert (Real(0.5, 3).read("0.5"), Real(0.5, 3).read("3")) == (0.5, 3.0)
    assert Choice(("a", "b")).allowed == "a or b"


def test_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert read().state_dir == Path("/home/ada/.tandem")
    assert read(("state_dir", "~/s"), TANDEM_MODEL="~/m.gguf").state_dir == Path("/home/ada/s")
    assert read(TANDEM_MODEL="~/m.gguf").model == "/home/ada/m.gguf"


@pytest.mark.spec("OBS-001")
def test_no_ledger_unless_named_and_relative_to_state() -> None:
    assert read().ledger_path is None
    assert read(("state_dir", "/s"), ("usage_ledger", "usage/l.sqlite3")).ledger_path == Path("/s/usage/l.sqlite3")
    assert read(("state_dir", "/s"), TANDEM_USAGE_LEDGER="/var/l").ledger_path == Path("/var/l")
