"""Tandem's own request headers, checked before the body is read (API-065, API-178)."""

from __future__ import annotations

from collections.abc import Mapping

from tandem.http.openai.errors import invalid

__all__ = ["check_headers"]

_TAKEN = {"X-Tandem": ("raw", "shadow", "on", "off"), "X-Tandem-Regenerate": ("0", "1")}


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise a 400 that names the header with a value it does not take. `headers` have lower-case names.

    Without a conductor neither changes how a request runs: that is raw, which no header can raise.
    """
    for name, taken in _TAKEN.items():
        value = headers.get(name.lower())
        if value is not None and value.strip().lower() not in taken:
            raise invalid(name, f"the header {name} takes {', '.join(taken)}")
