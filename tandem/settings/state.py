"""What outlives the process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tandem.kinds import FilePath, Whole
from tandem.settings.group import Group, setting

__all__ = ["StateSettings"]


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class StateSettings(Group):
    """What outlives the process."""

    __slots__ = ()
    heading: ClassVar = "State and ledger"

    state_dir: Path = setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        lambda: Path(os.path.expanduser("~/.tandem")),
        shown="~/.tandem",
        help="STATE, the directory of everything that outlives the process; one process at a time.",
    )
    usage_ledger: Path | None = setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        shown="no ledger",
        help="SQLite file with one row a request, relative to STATE.",
    )
    usage_retention_days: int = setting(
        Whole(400, 36_500),
        400,
        help="Days that ledger rows are kept; the view of a year needs at least 400.",
    )

    @property
    def ledger_path(self) -> Path | None:
        """Where the ledger is; a relative `usage_ledger` is below STATE."""
        return None if self.usage_ledger is None else self.state_dir / self.usage_ledger
