"""Which requirements of docs/spec/ have a test: `make coverage-spec`.

A requirement is a bullet `- **API-001** …`. A test claims it with `@pytest.mark.spec("API-001")`, on a function, on a
class, in `pytestmark` or on a `pytest.param`. Tests are read, not run. Exit status 1 where a test claims an id that no
page has, or where two bullets share one. A star is at those that only slow tests claim, which `make test` leaves out:
those marked so, and those of tests/nightly.txt.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Coverage", "claims", "main", "measure", "report", "requirements", "slow_lines"]

ROOT = Path(__file__).resolve().parent.parent
BULLET = re.compile(r"^- \*\*([A-Z]+-\d+)\*\*", re.MULTILINE)
WIDTH = 110


@dataclass(frozen=True, slots=True)
class Coverage:
    """Ids by page, where each is claimed (`file:line`), by tests that are not slow too, and what is wrong."""

    pages: dict[str, list[str]]
    claimed: dict[str, list[str]] = field(default_factory=dict)
    always: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)


def requirements(text: str) -> list[str]:
    """The ids of a page, in its order."""
    return BULLET.findall(text)


def claims(source: str) -> Iterator[tuple[str, int]]:
    """(id, line) of every `spec` marker in a test module; raises ValueError for an id that is no plain string."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.spec":
            for argument in node.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise ValueError(f"line {node.lineno}: the ids of a spec marker must be plain strings")
                yield argument.value, node.lineno


def slow_lines(source: str, name: str, nightly: Collection[str]) -> list[range]:
    """Where the slow tests of the module `name` are; `nightly` has what tests/nightly.txt names."""
    module = ast.parse(source)
    if name in nightly or any(_says_slow(each.value) for each in module.body if isinstance(each, ast.Assign)):
        return [range(1, source.count("\n") + 2)]
    found = []
    holders: list[ast.Module | ast.ClassDef] = [
        module,
        *(each for each in module.body if isinstance(each, ast.ClassDef)),
    ]
    for holder in holders:
        within = f"{name}::{holder.name}" if isinstance(holder, ast.ClassDef) else name
        for each in holder.body:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                decorators = each.decorator_list
                if f"{within}::{each.name}" in nightly or any(map(_says_slow, decorators)):
                    start = min([each.lineno, *(decorator.lineno for decorator in decorators)])
                    found.append(range(start, (each.end_lineno or start) + 1))
    return found


def _says_slow(node: ast.AST) -> bool:
    return any(ast.unparse(each) == "pytest.mark.slow" for each in ast.walk(node) if isinstance(each, ast.Attribute))


def measure(pages: Iterable[Path], tests: Iterable[Path], root: Path) -> Coverage:
    """Read pages and tests; paths are reported relative to `root`."""
    found = {page.name: requirements(page.read_text(encoding="utf-8")) for page in sorted(pages)}
    coverage = Coverage({page: ids for page, ids in found.items() if ids})
    seen: set[str] = set()
    for page, ids in coverage.pages.items():
        for each in ids:
            if each in seen:
                coverage.errors.append(f"{page}: {each} is there twice")
            seen.add(each)
    listed = root / "tests/nightly.txt"
    nightly = frozenset(listed.read_text("utf-8").splitlines()) if listed.exists() else frozenset[str]()
    for test in sorted(tests):
        name = test.relative_to(root)
        try:
            source = test.read_text(encoding="utf-8")
            slow = slow_lines(source, name.as_posix(), nightly)
            for each, line in claims(source):
                if each in seen:
                    coverage.claimed.setdefault(each, []).append(f"{name}:{line}")
                    if not any(line in lines for lines in slow):
                        coverage.always.add(each)
                else:
                    coverage.errors.append(f"{name}:{line}: no requirement is called {each}")
        except (ValueError, SyntaxError) as error:
            coverage.errors.append(f"{name}: {error}")
    return coverage


def report(coverage: Coverage) -> str:
    """Covered and uncovered ids of each page, and the totals."""
    lines = []
    covered_in_all, in_all = 0, 0
    slow = coverage.claimed.keys() - coverage.always
    for page, ids in coverage.pages.items():
        covered = [each for each in ids if each in coverage.claimed]
        uncovered = [each for each in ids if each not in coverage.claimed]
        covered_in_all += len(covered)
        in_all += len(ids)
        lines.append(f"{page}: {len(covered)} of {len(ids)} covered")
        lines += _wrapped("covered", [each + "*" * (each in slow) for each in covered]) + _wrapped(
            "uncovered", uncovered
        )
    lines.append(f"all pages: {covered_in_all} of {in_all} covered")
    if slow:
        lines.append(f"*: {len(slow)} of them by slow tests alone, which `make test` leaves out")
    return "\n".join(lines)


def _wrapped(label: str, ids: list[str]) -> list[str]:
    lines: list[str] = []
    for each in ids:
        if lines and len(lines[-1]) + len(each) < WIDTH:
            lines[-1] += " " + each
        else:
            lines.append(f"  {'' if lines else label:<9} {each}")
    return lines


def main(root: Path = ROOT) -> int:
    """Print the report; the exit status."""
    coverage = measure((root / "docs/spec").glob("*.md"), (root / "tests").rglob("*.py"), root)
    print(report(coverage))
    for error in coverage.errors:
        print(error, file=sys.stderr)
    return 1 if coverage.errors else 0


if __name__ == "__main__":
    sys.exit(main())
