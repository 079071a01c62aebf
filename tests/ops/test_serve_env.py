"""The shipped environment file starts what `make serve` starts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tandem.config import Settings

ROOT = Path(__file__).parents[2]


def environ() -> dict[str, str]:
    lines = (ROOT / "ops/serve.env").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.spec("OBS-118", "API-264")
def test_the_file_switches_on_what_make_serve_does() -> None:
    found = re.search(r"^serve:.*\n\t@\$\(BIN\)/tandem serve (.*) \$\(ARGS\)$", (ROOT / "Makefile").read_text(), re.M)
    assert found is not None
    words = shlex.split(found[1])
    flags = dict(zip(words[::2], words[1::2], strict=True))
    named = {f"TANDEM_{flag.removeprefix('--').replace('-', '_').upper()}": value for flag, value in flags.items()}
    assert environ() == named
    settings = Settings.from_sources({}, environ())
    assert settings.usage_ledger is not None
    assert settings.suffix_store is not None
    assert settings != Settings.from_sources({}, {})
