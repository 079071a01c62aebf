"""Hypercorn's limits: what `tandem serve` sets and what the shipped configuration says are the same."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tandem.http.limits import hypercorn_config

OWN = {"bind", "workers", "graceful_timeout"}
"""Where plain Hypercorn differs: it binds by itself, in its own process, and its drain comes after the grace."""


def test_the_shipped_configuration_has_the_same_limits() -> None:
    shipped = tomllib.loads((Path(__file__).parents[2] / "ops" / "hypercorn.toml").read_text())
    config = hypercorn_config()
    assert {name: value for name, value in shipped.items() if name not in OWN} == {
        name: getattr(config, name) for name in shipped if name not in OWN
    }
