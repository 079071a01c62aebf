"""Every piece of scheduling state has one owner: no lock, no shared object, messages alone (SCH-001, SCH-003)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACTORS = sorted((ROOT / "tandem/actors").glob("*.py"))
LOCKS = {"Lock", "RLock", "Semaphore", "Condition", "StrictFIFOLock", "Barrier"}
WIRING = "own.py"
"""Makes the actors of own work and hands them to the service."""
BASES = {"Actor", "Windowed"}
"""What actors are subclasses of; none of them runs."""
CHANNELS = {"kit.py", "outbox.py"}
"""Where channels are opened: an inbox, a reply, an outbox."""


def names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


@pytest.mark.spec("SCH-001", "SCH-003")
@pytest.mark.parametrize("path", ACTORS, ids=lambda path: path.name)
def test_an_actor_has_no_lock_and_no_global_that_changes(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert not LOCKS & set(names(tree))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Global | ast.Nonlocal)]
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.List | ast.Dict | ast.Set):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            assert isinstance(target, ast.Name)
            assert target.id == "__all__" or target.id.strip("_").isupper(), f"{path.name}: {ast.unparse(node)}"


@pytest.mark.spec("SCH-001", "SCH-003")
@pytest.mark.parametrize("path", ACTORS, ids=lambda path: path.name)
def test_an_actor_is_given_references_to_others_and_not_the_others(path: Path) -> None:
    """Of another actor's file come its messages, not its class, but in the wiring."""
    tree = ast.parse(path.read_text("utf-8"))
    classes = {
        node.name
        for other in ACTORS
        for node in ast.parse(other.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
        and node.name not in BASES
        and any(ast.unparse(base).partition("[")[0] in BASES for base in node.bases)
    }
    own = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tandem.actors")
        for alias in node.names
    }
    assert imported & (classes - own) == set() or path.name == WIRING
    if path.name not in CHANNELS:
        assert "open_memory_channel" not in set(names(tree)), "inboxes, replies and outboxes are all the channels"
