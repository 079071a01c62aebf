"""The three secrets: the password, the API key and the metrics token (API-009, API-018, API-254).

They are no settings, so that nothing which shows settings can show one. A secret is a variable of the environment or a
line of `secrets.env` in STATE; the environment wins, and an empty value counts as unset.
"""

from __future__ import annotations

import hmac
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from tandem.config import ENV_PREFIX, SECRETS, SettingError

__all__ = ["FILE_NAME", "MIN_PASSWORD", "REDACTED", "Secrets", "read_secrets", "shown_value"]

FILE_NAME = "secrets.env"
MIN_PASSWORD = 32
"""Characters of a password."""
REDACTED = "<redacted>"
LINE = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*)", re.ASCII)
HIDDEN = re.compile("token|key|secret|password", re.IGNORECASE)


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """What is set; None for what is not. Its repr says no more than that."""

    admin_token: str | None = None
    """The password."""
    api_key: str | None = None
    metrics_token: str | None = None

    def __repr__(self) -> str:
        states = (f"{each.name}={'set' if getattr(self, each.name) else 'unset'}" for each in fields(self))
        return f"Secrets({', '.join(states)})"

    def is_password(self, given: bytes) -> bool:
        """Whether `given` is the password, which must be set. In constant time, as the two below (API-016)."""
        return _same(self.admin_token, given)

    def is_api_key(self, given: bytes) -> bool:
        return _same(self.api_key, given)

    def is_metrics_token(self, given: bytes) -> bool:
        return _same(self.metrics_token, given)


def _same(secret: str | None, given: bytes) -> bool:
    return secret is not None and hmac.compare_digest(_bytes(secret), given)


def _bytes(secret: str) -> bytes:
    # Variables that are no UTF-8 hold surrogates.
    return secret.encode("utf-8", "surrogateescape")


def read_secrets(environ: Mapping[str, str], state_dir: Path) -> Secrets:
    """The secrets of the environment and of `secrets.env`; none where there is neither.

    Raises `SettingError`, which never holds a value: for a file that others can read, a line that is none, a password
    that is too short. Raises `OSError` for a file that cannot be read.
    """
    path = state_dir / FILE_NAME
    filed = _read_file(path)
    found: dict[str, str] = {}
    for name in SECRETS:
        value = environ.get(name, "").strip() or filed.get(name, "").strip()
        if value:
            found[name.removeprefix(ENV_PREFIX).lower()] = value
    secrets = Secrets(**found)
    if secrets.admin_token is not None and len(secrets.admin_token) < MIN_PASSWORD:
        raise SettingError(f"TANDEM_ADMIN_TOKEN: the password needs at least {MIN_PASSWORD} characters")
    return secrets


def _read_file(path: Path) -> dict[str, str]:
    try:
        file = path.open(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return {}
    with file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise SettingError(f"{path}: group or others can use the file, which holds passwords; chmod 600 it")
        return _read_lines(path, file.read())


def _read_lines(path: Path, text: str) -> dict[str, str]:
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = LINE.fullmatch(line.strip())
        if match is None:
            raise SettingError(f"{path}: line {number} is not NAME=value")
        name, value = match["name"], match["value"]
        if name.startswith(ENV_PREFIX) and name not in SECRETS:
            # A misspelt password would leave the server open without a word.
            raise SettingError(f"{path}: line {number} names no secret; there are {', '.join(SECRETS)}")
        found[name] = value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"" else value
    return found


def shown_value(name: str, value: object, home: Path) -> str:
    """A setting's or a variable's value as a view of settings shows it (API-209).

    `<redacted>` where the name contains token, key, secret or password, whatever the value; else the value's text with
    the home directory as `~`.
    """
    if HIDDEN.search(name):
        return REDACTED
    if home == Path("/"):
        return str(value)
    return re.sub(rf"(?<![\w.-]){re.escape(str(home))}(?=/|$)", "~", str(value))
