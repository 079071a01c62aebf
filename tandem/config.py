"""Every setting of Tandem, declared once: attribute, flag, environment variable, type, range, default, help (ENG-018).

A setting `some_name` is the flag `--some-name` and the variable `TANDEM_SOME_NAME`; the flag wins, then the variable,
then the default (API-008). An empty variable counts as unset. The values reach the rest of the program as one frozen
`Settings`, never as globals, so two services with different settings can share a process. The declarations are in
`tandem/settings/`, a group a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any

from tandem.kinds import Kind
from tandem.settings.access import AccessSettings
from tandem.settings.answers import AnswersSettings
from tandem.settings.caches import CachesSettings
from tandem.settings.conductor import ConductorSettings
from tandem.settings.group import Group
from tandem.settings.images import ImagesSettings
from tandem.settings.limits import LimitsSettings
from tandem.settings.live import LiveSettings
from tandem.settings.logs import LogsSettings
from tandem.settings.model import ModelSettings
from tandem.settings.server import ServerSettings
from tandem.settings.state import StateSettings

__all__ = ["ENV_PREFIX", "SECRETS", "Setting", "SettingError", "Settings", "declared"]

ENV_PREFIX = "TANDEM_"
SECRETS = ("TANDEM_ADMIN_TOKEN", "TANDEM_API_KEY", "TANDEM_METRICS_TOKEN")
"""Variables that are no settings, so that no view of settings holds one; `tandem.secrets` reads them."""
SHOWN_CHARS = 60
"""How much of a wrong value an error message repeats."""


class SettingError(Exception):
    """A setting has a value it does not take. One line: the flag or variable, the value, and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The declaration of one setting."""

    name: str
    kind: Kind
    group: str
    help: str
    default: str
    """The default as help and documentation show it."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENV_PREFIX + self.name.upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(
    ServerSettings,
    AccessSettings,
    ModelSettings,
    AnswersSettings,
    ImagesSettings,
    CachesSettings,
    LimitsSettings,
    StateSettings,
    LiveSettings,
    ConductorSettings,
    LogsSettings,
):
    """The settings of one service. Built by hand in tests, by `from_sources` everywhere else.

    Help and documentation have the groups in the order of the bases.
    """

    named: frozenset[str] = frozenset()
    """The settings that a flag or a variable gave, as against their defaults."""
    unknown: tuple[str, ...] = ()
    """Variables that start with TANDEM_ and name no setting: worth a warning, since they change nothing."""

    @property
    def conductor_dir(self) -> Path | None:
        """Where the conductor's documents are; a relative `conductor_config` is below STATE."""
        return None if self.conductor_config is None else self.state_dir / self.conductor_config

    @classmethod
    def from_sources(cls, flags: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
        """Settings from flags by attribute name (None: not given) and the environment; raises `SettingError`.

        For plain Hypercorn: `Settings.from_sources({}, os.environ)`.
        """
        settings = declared()
        if extra := sorted(flags.keys() - settings.keys()):
            raise SettingError(f"--{extra[0].replace('_', '-')}: there is no such setting; see tandem serve --help")
        values: dict[str, Any] = {}
        for name, setting in settings.items():
            if (given := flags.get(name)) is not None:
                values[name] = _read(setting, setting.flag, str(given))
            elif text := environ.get(setting.variable):
                values[name] = _read(setting, setting.variable, text)
        known = {*SECRETS, *(setting.variable for setting in settings.values())}
        unknown = sorted(key for key in environ if key.startswith(ENV_PREFIX) and key not in known)
        return cls(**values, named=frozenset(values), unknown=tuple(unknown))


def _read(setting: Setting, source: str, text: str) -> Any:
    try:
        return setting.kind.read(text)
    except ValueError:
        shown = text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"
        raise SettingError(f"{source}: {shown!r} is not allowed; it takes {setting.kind.allowed}") from None


def declared() -> dict[str, Setting]:
    """All settings by name, in the order of their declaration."""
    groups = (base for base in Settings.__bases__ if issubclass(base, Group))
    return {each.name: _declaration(each, group.heading) for group in groups for each in fields(group)}


def _declaration(each: Field[Any], group: str) -> Setting:
    meta = each.metadata
    shown = meta["shown"]
    if shown is None:
        default = each.default
        assert default is not MISSING, f"{each.name} computes its default and so must say how it is shown"
        shown = _shown(default)
    return Setting(name=each.name, kind=meta["kind"], group=group, help=meta["help"], default=shown)


def _shown(default: object) -> str:
    match default:
        case bool():
            return "on" if default else "off"
        case float():
            return f"{default:.10g}"
        case ():
            return "none"
        case _:
            return str(default)
