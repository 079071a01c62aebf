"""docs/models.md names nothing that is not there."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.project.tree import ROOT

PAGE = (ROOT / "docs/models.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"`([^`\n]+)`", PAGE)
ENGINE = ROOT / "tandem/engine"


@cache
def defined() -> dict[str, set[str]]:
    """Classes, functions and aliases of the engine by name; of a class, its members."""
    found: dict[str, set[str]] = {}
    for file in ENGINE.rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            for name in names(node):
                members = {name for each in getattr(node, "body", []) for name in names(each)}
                found.setdefault(name, set()).update(members)
    return found


def names(node: ast.AST) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case _:
            return []


def test_every_path_is_there() -> None:
    paths = [each for each in QUOTED if re.fullmatch(r"(tandem|tests|docs)/[\w./]+", each) and "NAME" not in each]
    assert len(paths) > 20
    assert [each for each in paths if not (ROOT / each).exists()] == []


def test_every_class_and_member_is_there() -> None:
    named = [each for each in QUOTED if re.fullmatch(r"[A-Z][A-Za-z]*[a-z][A-Za-z]*(\.\w+)?", each)]
    of_checkpoints = {each for each in named if re.fullmatch(r"(Llama|Qwen3_5)For\w+", each)}
    assert len(named) > 30
    for each in {*named} - of_checkpoints:
        name, _, member = each.partition(".")
        assert name in defined(), each
        assert not member or member in defined()[name], each


def test_the_load_report_has_the_keys_that_are_named() -> None:
    [paragraph] = re.findall(r"^The report \(.*?(?=\n\n)", PAGE, re.MULTILINE | re.DOTALL)
    source = "".join((ENGINE / name).read_text(encoding="utf-8") for name in ("load.py", "checkpoints/load.py"))
    keys = re.findall(r"`([a-z_]+)`", paragraph.partition("):")[2])
    assert len(keys) == 16
    assert [key for key in keys if f'"{key}"' not in source] == []


def test_the_packages_and_kinds_are_those_there_are() -> None:
    from tandem.engine.models.registry import PACKAGES

    rows = re.findall(r"^\| `(\w+)` \| `", PAGE, re.MULTILINE)
    assert {name for name in rows if name in PACKAGES} == set(PACKAGES)
    assert len(PAGE.splitlines()) <= 150
