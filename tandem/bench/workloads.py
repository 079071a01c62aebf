"""Texts whose continuation is fresh, or stands in the prompt already in whole or in part: what speculation lives on.

A small model edits and quotes poorly when it is told to. So each prompt ends in the midst of the work, with a part of
it done: to go on is what any model does, greedily, and what it writes is its own.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

__all__ = ["WORKLOADS", "Workload"]

Workload: TypeAlias = Callable[[int], str]
"""The prompt by a number; no two begin alike."""

_DONE = 3
"""One part of so many is done."""
_NAMES = ("Amber", "Basil", "Clara", "Dorian", "Edith", "Felix", "Greta", "Hugo")
_FILE = Path(__file__).with_name("stats.py")
_OLD, _NEW = "values", "figures"
_PASSAGE = """\
The lighthouse on Garrow Point was built in 1837, after the brig Marianne had gone down with nineteen hands. Its first
keeper, a retired gunner called Tobias Wren, wrote everything down: the weather at each watch, the oil he burned, the
ships that passed and what he thought of their captains. When a storm took the kitchen roof he noted only that supper
was late. His daughter Agnes kept the lamp for eleven nights while he lay ill, and the harbour board, which did not
employ women, paid her in candles. She used them to read. Forty years later the same board named a reef after her,
spelled her name wrongly, and corrected the charts twice before they had it right. The log books survive in a museum
in Halvering, where visitors may turn the pages with a wooden spoon."""
_TABLE = """\
city,country,river,founded
Vienna,Austria,Danube,881
Lisbon,Portugal,Tagus,1147
Krakow,Poland,Vistula,1038
Cologne,Germany,Rhine,50
Seville,Spain,Guadalquivir,206
Bordeaux,France,Garonne,300
Turin,Italy,Po,28
Riga,Latvia,Daugava,1201
Glasgow,Scotland,Clyde,543
Basel,Switzerland,Rhine,374
Cork,Ireland,Lee,606
Malmo,Sweden,Sege,1275"""


def prose(number: int) -> str:
    """A story that has hardly begun."""
    return f"{_name(number)} had lived near the old harbour for many years. One cold morning in autumn,"


def edit(number: int) -> str:
    """A file of this package, and the same with one name changed."""
    file = _FILE.read_text(encoding="utf-8")
    lines = file.replace(_OLD, _NEW).splitlines(keepends=True)
    begun = "".join(lines[: len(lines) // _DONE])
    return f"# {_name(number)}'s file:\n{file}\n\n# The same file, with {_OLD} renamed to {_NEW}:\n{begun}"


def quote(number: int) -> str:
    """A passage, and the same passage again."""
    words = _PASSAGE.split()
    begun = " ".join(words[: len(words) // _DONE])
    return f'{_name(number)} wrote: "{" ".join(words)}"\n\nI repeat, word for word, what was written: "{begun}'


def table(number: int) -> str:
    """A table, and the same as JSON."""
    rows = list(csv.DictReader(_TABLE.splitlines()))
    begun = json.dumps(rows[: len(rows) // _DONE], indent=2).removesuffix("\n]")
    return f'A table by {_name(number)}:\n\n{_TABLE}\n\nThe same table as JSON:\n\n{begun},\n  {{\n    "city":'


WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {"fresh prose": prose, "edited file": edit, "quoted passage": quote, "table to JSON": table}
)


def _name(number: int) -> str:
    return f"{_NAMES[number % len(_NAMES)]} {number}" if number >= len(_NAMES) else _NAMES[number]
