"""The source tree as the project's own tests read it: paths, modules, imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["ROOT", "Module", "imports", "tandem_modules", "within"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Module:
    """One file of `tandem/`: its dotted name, its path below the root, its syntax tree."""

    name: str
    path: str
    tree: ast.Module


@cache
def tandem_modules() -> tuple[Module, ...]:
    """Every module of `tandem/`."""
    return tuple(_module(path.relative_to(ROOT)) for path in sorted((ROOT / "tandem").rglob("*.py")))


def _module(path: Path) -> Module:
    parts = path.with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, path.as_posix(), ast.parse((ROOT / path).read_text(encoding="utf-8")))


def imports(name: str, tree: ast.Module, *, is_package: bool = False) -> Iterator[str]:
    """What a module imports, wherever it does: `from a import b` gives `a` and `a.b`, as `b` may be a module."""
    package = name.split(".") if is_package else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names)


def within(module: str, *packages: str) -> bool:
    """Whether `module` is one of the packages or below one."""
    return any(module == package or module.startswith(package + ".") for package in packages)
