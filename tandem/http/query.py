"""The query of a URL, read strictly: a bad value and a parameter that a route has not are 400s (OBS-101)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from werkzeug.datastructures import MultiDict

from tandem.http.openai.errors import invalid

__all__ = ["MAX_WHOLE", "Parameters"]

MAX_WHOLE = 2**53 - 1
"""The largest number that a page can count to."""
MAX_TEXT = 200


class Parameters:
    """Each parameter is asked for by name; `end` refuses what nobody has asked for."""

    def __init__(self, query: MultiDict[str, str]) -> None:
        self._query = query
        self._known: list[str] = []

    def text(self, name: str, most: int = MAX_TEXT) -> str | None:
        """What the URL gives it; None where it is absent or empty."""
        self._known.append(name)
        values = self._query.getlist(name)
        if len(values) > 1:
            raise invalid(name, f"{name} is there {len(values)} times")
        if values and len(values[0]) > most:
            raise invalid(name, f"{name} has more than {most} characters")
        return values[0] or None if values else None

    def word(self, name: str, words: Sequence[str]) -> str | None:
        """One of `words`, in any case."""
        value = self.text(name)
        for word in words:
            if value is not None and value.lower() == word.lower():
                return word
        if value is not None:
            raise invalid(name, f"{name} must be one of {', '.join(words)}")
        return None

    def whole(self, name: str, low: int, high: int = MAX_WHOLE) -> int | None:
        """An integer from `low` to `high`."""
        value = self.text(name)
        if value is None:
            return None
        if value.isascii() and value.isdigit() and low <= int(value) <= high:
            return int(value)
        raise invalid(name, f"{name} must be an integer from {low} to {high}")

    def switch(self, name: str) -> bool:
        """`1`, or `0` and absent."""
        return self.word(name, ("0", "1")) == "1"

    def end(self) -> None:
        """Raises `ApiError` 400 for a parameter that nobody has asked for."""
        unknown = next((name for name in self._query if name not in self._known), None)
        if unknown is not None:
            raise invalid(unknown[:MAX_TEXT], f"{unknown[:MAX_TEXT]!r} is no parameter here; {_list(self._known)}")


def _list(known: Iterable[str]) -> str:
    return f"there are {', '.join(known)}" if known else "there are none"
