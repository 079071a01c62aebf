"""How a route's path is matched. An address is never built from one: Tandem has no `url_for`."""

from __future__ import annotations

from typing import Any, NoReturn

from quart.routing import QuartRule

__all__ = ["MatchedPath"]


class MatchedPath(QuartRule):
    """A path that is matched alone.

    Werkzeug compiles two functions a path that build an address of it: more than half of what a service's start costs.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Any:
        return _built


def _built(rule: MatchedPath, **values: object) -> NoReturn:
    raise NotImplementedError(f"no address is built of {rule.rule}")
