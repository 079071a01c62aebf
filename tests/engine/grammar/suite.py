"""The JSON-Schema-Test-Suite, out of the source distribution of `jsonschema`, which carries it whole.

Fetched once and kept; a machine without a network skips what needs it, and says so.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Case", "cases"]

VERSION = "4.25.1"
SHA256 = "e4a9655ce0da0c0b67a085847e00a3a51449e1157f4f75e9fb5aa545e122eb85"
NAME = f"jsonschema-{VERSION}.tar.gz"
FOLDER = f"jsonschema-{VERSION}/json/tests/draft2020-12/"
OPTIONAL = ("bignum.json", "ecmascript-regex.json", "float-overflow.json", "non-bmp-regex.json", "unknownKeyword.json")
"""Of the optional files, those about keywords that are served."""


@dataclass(frozen=True, slots=True)
class Case:
    """A schema and (what the test is, instance, whether it is valid)."""

    name: str
    schema: Any
    tests: tuple[tuple[str, Any, bool], ...]


def cases() -> Iterator[Case]:
    """Draft 2020-12, in the order of the files. Skips the test where the suite cannot be had."""
    with tarfile.open(_archive()) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            folder, _, file = member.name.partition(FOLDER)[2].rpartition("/")
            wanted = not folder or (folder == "optional" and file in OPTIONAL)
            content = archive.extractfile(member) if FOLDER in member.name and wanted and file else None
            if content is None:
                continue
            for case in json.load(content):
                tests = tuple((test["description"], test["data"], test["valid"]) for test in case["tests"])
                yield Case(f"{file}: {case['description']}", case["schema"], tests)


def _archive() -> Path:
    path = Path.home() / ".cache" / "tandem-tests" / NAME
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            data = _fetch()
        except (OSError, ValueError, LookupError) as error:
            pytest.skip(f"the JSON-Schema-Test-Suite could not be fetched: {error}")
        partial = path.with_suffix(".partial")
        partial.write_bytes(data)
        partial.replace(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == SHA256, f"{path} is not {NAME} as published"
    return path


def _fetch() -> bytes:
    """From pip's own index. `pip download` itself would build the package's metadata, which needs its build tools."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    configured = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    index = (configured or "https://pypi.org/simple").rstrip("/")
    accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
    with urllib.request.urlopen(urllib.request.Request(f"{index}/jsonschema/", headers=accept), timeout=20) as page:
        [file] = [file for file in json.load(page)["files"] if file["filename"] == NAME]
    with urllib.request.urlopen(file["url"], timeout=60) as content:
        data: bytes = content.read()
    return data
