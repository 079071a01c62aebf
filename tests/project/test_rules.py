"""Rules of the code that a tool can hold: shields, channels, settings, `__all__`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.project.tree import imports, tandem_modules, within

SHIELDS = {
    "tandem/actors/host.py": 2,  # a verb is never interrupted, on the thread and inline
    "tandem/actors/keeper.py": 1,  # the slot that a clear had goes back, whatever ended it
    "tandem/actors/preparer.py": 1,  # its sequence is closed
    "tandem/actors/serving.py": 2,  # whatever ends a request: what it lent is given back; sequence and GPU turn are
    "tandem/actors/store.py": 1,  # rows that were offered are written at the end
    "tandem/actors/windowed.py": 1,  # the window is given back
    "tandem/http/connection.py": 1,  # a write, as Hypercorn shields it
    "tandem/http/edge.py": 2,  # a request's clean-up, and the last piece of a response
    "tandem/http/exchange.py": 2,  # a request leaves queue or slot when its client has left, or when its wait has ended
    "tandem/store/aio.py": 4,  # statements run on in their thread: open, commit, interrupt, close
}
"""How many shields each file has, and why. A comment beside each says what bounds it."""

HAND_OVER_ENVIRONMENT = ("tandem.cli", "tandem.asgi", "tandem.engine.checkpoints.embedded")
"""They hand the environment whole to `Settings.from_sources` or to pip; nobody else looks into it."""


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_shields_are_listed() -> None:
    found: Counter[str] = Counter()
    for module in tandem_modules():
        for call in calls(module.tree):
            for keyword in call.keywords:
                if keyword.arg == "shield" and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                ):
                    found[module.path] += 1
    assert dict(found) == SHIELDS


@pytest.mark.spec("SCH-003")
def test_no_channel_is_unbounded() -> None:
    endless = re.compile(r"open_memory_channel(\[.*\])?\((math\.)?inf|open_memory_channel(\[.*\])?\(float\(")
    assert [module.path for module in tandem_modules() if endless.search(ast.unparse(module.tree))] == []


def test_every_module_says_what_it_offers() -> None:
    for module in tandem_modules():
        targets = [
            ast.unparse(target)
            for node in module.tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        ]
        empty = all(isinstance(node, ast.Expr) for node in module.tree.body)
        assert "__all__" in targets or empty, f"{module.path} has no __all__"


def test_packages_only_re_export() -> None:
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    for module in tandem_modules():
        if module.path.endswith("__init__.py"):
            body = module.tree.body[1:] if ast.get_docstring(module.tree) else module.tree.body
            assert all(isinstance(node, allowed) for node in body), module.path


def test_no_module_changes_a_global() -> None:
    found = [m.path for m in tandem_modules() for node in ast.walk(m.tree) if isinstance(node, ast.Global)]
    assert found == []


@pytest.mark.spec("ENG-018")
def test_no_undeclared_setting_is_read() -> None:
    reads = {"os.environ", "os.environb", "os.getenv"}
    readers = {
        module.name
        for module in tandem_modules()
        if reads & set(imports(module.name, module.tree))
        or reads & {ast.unparse(node) for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
    }
    assert [name for name in sorted(readers) if not within(name, *HAND_OVER_ENVIRONMENT)] == []
    picked = [
        f"{module.path}: {ast.unparse(node)}"
        for module in tandem_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Subscript | ast.Attribute) and ast.unparse(node.value) == "os.environ"
    ]
    assert picked == []
