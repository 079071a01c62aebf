"""What the log may say of requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tandem.kinds import Flag
from tandem.settings.group import Group, setting

__all__ = ["LogsSettings"]


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class LogsSettings(Group):
    """What the log may say of requests."""

    __slots__ = ()
    heading: ClassVar = "Logs"

    log_content: bool = setting(Flag(), False, help="Let exception texts that may quote a request into the log.")
    log_request_keys: bool = setting(
        Flag(), False, help="Log the parameter names and scalar values of requests, never messages."
    )
