"""The kinds of value a setting takes: how each is read and described. `tandem.config` declares the settings."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

__all__ = [
    "Auto",
    "ByClient",
    "Choice",
    "FilePath",
    "FilePaths",
    "Flag",
    "Kind",
    "Names",
    "OnOff",
    "Real",
    "Source",
    "Text",
    "Whole",
    "WordOrPath",
]


class Kind(Protocol):
    """What values a setting takes."""

    @property
    def metavar(self) -> str:
        """What stands for the value in the help."""

    @property
    def allowed(self) -> str:
        """What the setting takes, to end a sentence that starts with "it takes"."""

    def read(self, text: str) -> Any:
        """The value; raises ValueError when `text` is not one."""


@dataclass(frozen=True, slots=True)
class Text:
    """Any text but an empty one."""

    metavar: str = "TEXT"
    allowed: str = "a text that is not empty"

    def read(self, text: str) -> str:
        if not text.strip():
            raise ValueError(text)
        return text


@dataclass(frozen=True, slots=True)
class Source:
    """A file, a directory or a name, kept as text; a leading `~` is the home directory."""

    metavar: str = "PATH"
    allowed: str = "a GGUF file, a checkpoint directory, the ORG/NAME of a pulled model or smollm2-135m"

    def read(self, text: str) -> str:
        if not text.strip():
            raise ValueError(text)
        return os.path.expanduser(text)


@dataclass(frozen=True, slots=True)
class FilePath:
    """A path; a leading `~` is the home directory."""

    metavar: str = "PATH"
    allowed: str = "a path"

    def read(self, text: str) -> Path:
        if not text.strip() or "\0" in text:
            raise ValueError(text)
        return Path(os.path.expanduser(text))


@dataclass(frozen=True, slots=True)
class FilePaths:
    """Paths separated by commas; a leading `~` of each is the home directory."""

    metavar: str = "PATH,…"
    allowed: str = "paths separated by commas"

    def read(self, text: str) -> tuple[Path, ...]:
        return tuple(FilePath().read(name) for part in text.split(",") if (name := part.strip()))


@dataclass(frozen=True, slots=True)
class WordOrPath:
    """One word, kept as text, or else a path."""

    word: str

    @property
    def metavar(self) -> str:
        return f"{self.word}|PATH"

    @property
    def allowed(self) -> str:
        return f"{self.word} or a path"

    def read(self, text: str) -> str | Path:
        return text if text == self.word else FilePath().read(text)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from `low` to `high`, both included."""

    low: int
    high: int
    metavar: str = "N"

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def read(self, text: str) -> int:
        value = int(text)
        if not self.low <= value <= self.high:
            raise ValueError(text)
        return value


@dataclass(frozen=True, slots=True)
class Auto:
    """A whole number from `low` to `high`, or `auto` (None): the server works it out."""

    low: int
    high: int
    metavar: str = "auto|N"

    @property
    def allowed(self) -> str:
        return f"auto or a whole number from {self.low} to {self.high}"

    def read(self, text: str) -> int | None:
        return None if text.strip() == "auto" else Whole(self.low, self.high).read(text)


@dataclass(frozen=True, slots=True)
class Names:
    """Names separated by commas; blanks around them do not count."""

    metavar: str = "NAME,…"
    allowed: str = "names separated by commas"

    def read(self, text: str) -> tuple[str, ...]:
        return tuple(name for part in text.split(",") if (name := part.strip()))


@dataclass(frozen=True, slots=True)
class ByClient:
    """`kind=word,…`: one of a few words by kind of client, `*` for the kinds that are not named; empty names none."""

    words: tuple[str, ...]
    metavar: str = "KIND=FORMAT,…"

    @property
    def allowed(self) -> str:
        return f"kind=word,… where a word is {' or '.join(self.words)}"

    def read(self, text: str) -> tuple[tuple[str, str], ...]:
        pairs: list[tuple[str, str]] = []
        for part in filter(None, map(str.strip, text.split(","))):
            kind, equals, word = (each.strip() for each in part.partition("="))
            if not (kind and equals) or word not in self.words:
                raise ValueError(text)
            pairs.append((kind.lower(), word))
        return tuple(pairs)


@dataclass(frozen=True, slots=True)
class Real:
    """A finite number from `low` to `high`, both included."""

    low: float
    high: float
    metavar: str = "SECONDS"

    @property
    def allowed(self) -> str:
        return f"a number from {self.low:g} to {self.high:.10g}"

    def read(self, text: str) -> float:
        value = float(text)
        if not (math.isfinite(value) and self.low <= value <= self.high):
            raise ValueError(text)
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def metavar(self) -> str:
        return "|".join(self.words)

    @property
    def allowed(self) -> str:
        return " or ".join(self.words)

    def read(self, text: str) -> str:
        if text not in self.words:
            raise ValueError(text)
        return text


@dataclass(frozen=True, slots=True)
class OnOff:
    """A switch that is written out, so that it can be turned off where it is on by default."""

    metavar: str = "on|off"
    allowed: str = "on or off"

    def read(self, text: str) -> bool:
        return _switch(text)


@dataclass(frozen=True, slots=True)
class Flag:
    """A switch that is off unless its flag is given; as a variable it is written out."""

    metavar: str = ""
    allowed: str = "on or off"

    def read(self, text: str) -> bool:
        return _switch(text)


def _switch(text: str) -> bool:
    match text.strip().lower():
        case "on" | "1" | "true" | "yes":
            return True
        case "off" | "0" | "false" | "no":
            return False
        case _:
            raise ValueError(text)
