"""Writes tandem/contract/conductor-v1/*.schema.json from the types of documents and answers: `make docs` (CFG-015)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from tandem.conductor.documents.parsing import TYPES
from tandem.conductor.monitor import rules as _rules  # noqa: F401  (registers them)
from tandem.conductor.monitor.schema import policy_schema
from tandem.conductor.monitor.tier0 import registered
from tandem.http.openai import document_shapes as shapes
from tandem.http.openai import package_shapes, plan_shapes

__all__ = ["FOLDER", "schemas", "text"]

FOLDER = Path(__file__).resolve().parent.parent / "tandem" / "contract" / "conductor-v1"

ANSWERS: dict[str, Any] = {
    "config": shapes.ConductorConfig,
    "document": shapes.ConductorDocument,
    "versions": shapes.ConductorVersions,
    "memory-disk": shapes.DiskTier,
    "packages-catalog": package_shapes.PackageCatalog,
    "packages-item": package_shapes.PackageDetail,
    "packages-tokens": package_shapes.PackageTokens,
    "packages-usage": package_shapes.PackageUsageReport,
    "test": plan_shapes.ConductorTest,
}


def schemas() -> dict[str, dict[str, Any]]:
    """Every schema by the name of its file."""
    found: dict[str, dict[str, Any]] = {kind: _schema(f"The {kind} document", type_) for kind, type_ in TYPES.items()}
    found["monitor"] = policy_schema(registered())  # what its rules declare (MON-017)
    found |= {name: _schema(f"The answer {name}", type_) for name, type_ in ANSWERS.items()}
    return {f"{name}.schema.json": schema for name, schema in found.items()}


def text(schema: dict[str, Any]) -> str:
    """As it is written."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _schema(title: str, type_: Any) -> dict[str, Any]:
    made = msgspec.json.schema(type_)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **made}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        (FOLDER / name).write_text(text(schema), encoding="utf-8")
