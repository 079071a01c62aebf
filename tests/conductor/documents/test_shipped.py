"""The shipped documents against the tables of docs/spec/conductor-router.md, and the types' defaults with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tandem.conductor.documents import (
    DocumentError,
    Documents,
    Profile,
    Roles,
    Router,
    SettingsDocument,
    parse,
    shipped_documents,
)
from tandem.conductor.documents.checks import check_saved
from tandem.conductor.documents.documents import split_key
from tandem.conductor.documents.roles import contracts
from tandem.conductor.documents.router import EngineStage, Reading

SPEC = Path(__file__).resolve().parents[3] / "docs" / "spec" / "conductor-router.md"
ABSENT = object()
NOTHING = ("none", "absent", "not read", "never", "not run", "never seen", "dropped", "policy")
"""Cells that say that the key is not there."""
SAID = {
    "thinking.budgets": "class caps",
    "thinking.tool_turn_effort": "router's",
    "transcripts": "settings' scope",
    "decisions.identity": "follows `mode`",
    "mode": "required",
}
"""What the column "absent" says of keys whose default is None, or none."""


def rows(head: str) -> Iterator[list[str]]:
    """The rows of the first table after `head`, without its line of names."""
    lines = iter(SPEC.read_text("utf-8").partition(head)[2].splitlines())
    table = []
    for line in lines:
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        elif table:
            break
    yield from (row for row in [table[0], *table[2:]])


def keys_of(cell: str) -> list[str]:
    """`` `toolgate.risk`, `.project` `` and `` `tasks.D1`, `D1b` `` name several keys."""
    first, *rest = re.findall(r"`([^`]+)`", cell)
    stem = first.rpartition(".")[0]
    return [first, *(f"{stem}.{name.removeprefix('.')}" for name in rest)]


def get(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body.get(name, ABSENT) if isinstance(body, dict) else ABSENT
    return body


def as_value(key: str, cell: str) -> Any:
    cell = cell.replace("`", "").rstrip("*")
    if key == "clients" and cell not in NOTHING:
        return [cell]
    if key == "locked":
        return True if cell == "yes" else ABSENT
    if key == "routing.default_class":
        return None if cell == "none" else cell
    return ABSENT if cell in NOTHING else cell


def cells() -> list[tuple[str, str, str]]:
    table = list(rows("### 1.2 Shipped profiles"))
    names = [part.strip() for part in table[0][2:]]
    found = []
    for row in table[1:]:
        for key in keys_of(row[0]):
            for name, cell in zip(names, row[2:], strict=True):
                found += [(key, one.strip(), cell) for one in name.split(",")]
    return found


@pytest.mark.spec("PRF-023", "PRF-012", "PRF-015")
def test_the_shipped_profiles_are_the_table() -> None:
    shipped = shipped_documents()
    assert len({name for _, name, _ in cells()}) == 9
    for key, name, cell in cells():
        path = f"{key}.mode" if key.startswith("tasks.") else key
        assert get(shipped[f"profiles/{name}"], path) == as_value(key, cell), (name, key, cell)
    keys = {f"{key}.mode" if key.startswith("tasks.") else key for key, _, _ in cells()}
    for name in {name for _, name, _ in cells()}:
        assert set(leaves(shipped[f"profiles/{name}"])) <= keys


def leaves(body: dict[str, Any], stem: str = "") -> Iterator[str]:
    for name, value in body.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{stem}{name}.")
        else:
            yield stem + name


@pytest.mark.spec("PRF-017", "CFG-010")
def test_an_absent_switch_reads_as_the_table_says() -> None:
    absent = msgspec.to_builtins(parse("profiles", {"mode": "on"}))
    for row in list(rows("### 1.2 Shipped profiles"))[1:]:
        for key in keys_of(row[0]):
            if row[0].startswith("`mode`"):
                continue
            found = get(absent, f"{key}.mode" if key.startswith("tasks.") else key)
            cell = row[1].replace("`", "")
            if found in (None, {}):
                assert row[1] in (SAID.get(key), "policy", "none", "off"), key
            elif key == "clients" or found is False:
                assert (cell, found) in (("none", ()), ("false", False)), key
            else:
                assert found == cell, key
    with pytest.raises(DocumentError, match="mode"):
        parse("profiles", {})


@pytest.mark.spec("RTR-001")
def test_the_shipped_classes_are_the_table() -> None:
    router = parse("router", shipped_documents()["router"])
    assert isinstance(router, Router)
    table = list(rows("### 3.1 Classes"))[1:]
    assert [row[0].strip("`*") for row in table] == [one.id for one in router.classes]
    for row, one in zip(table, router.classes, strict=True):
        policy = router.policies[one.id]
        assert one.description == row[1]
        assert (one.code, policy.builds) == ((True, True) if row[2] == "yes" else (False, False))
        assert row[3].rstrip("*").startswith(policy.effort)
        assert one.structural == row[1].startswith("structural")
        sticky = policy.package_sticky or "none"
        assert sticky == row[5]
    assert router.policies["code_edit"].effort_by_size.small == "high"
    assert router.policies["three_d"].core == ("threejs-scene",)


@pytest.mark.spec("RTR-027")
def test_the_router_document_s_two_columns() -> None:
    shipped = parse("router", shipped_documents()["router"])
    absent = parse("router", {"classes": [{"id": "chat", "label": "x", "description": "y"}], "policies": {}})
    assert isinstance(shipped, Router)
    assert isinstance(absent, Router)
    assert (shipped.classifier.engine.accept, absent.classifier.engine.accept) == (0.45, 0.55)
    assert (shipped.classifier.below_accept.mode, absent.classifier.below_accept.mode) == ("build", "default")
    assert (shipped.classifier.reading.mode, absent.classifier.reading.mode) == ("on", "off")
    assert (shipped.package_question, absent.package_question) == ("on", "off")
    same = ["decider", "digest_chars", "timeout_ms", "context_line", "guard", "context_stage", "probe_stage", "prompt"]
    same += ["package_sticky", "package_prompt"]
    for name in same:
        assert getattr(shipped.classifier, name) == getattr(absent.classifier, name), name
    for name in ("packages", "sticky", "injection", "structural", "effort", "tool_fit", "library", "outcomes"):
        assert getattr(shipped, name) == getattr(absent, name), name
    assert absent.classifier.decider.accept == 0.8
    assert EngineStage().mode == "on"
    assert (absent.classifier.digest_chars, absent.classifier.timeout_ms) == (2000, 8000)
    assert (absent.sticky.switch, absent.packages.accept, absent.injection.max_replay_tokens) == (0.8, 0.6, 16_000)
    assert Reading().phrases.keys() == {"three_d", "design_ui", "drawing"}
    size = absent.effort.size
    assert (size.added_tokens, size.files, size.gates, size.turns) == ((20_000, 60_000), (3, 8), (4, 8), (30, 100))


@pytest.mark.spec("EFF-001")
def test_the_levels_are_the_table() -> None:
    effort = parse("router", shipped_documents()["router"]).effort  # type: ignore[union-attr]
    for level, cap, _, _, sentence in list(rows("## 4. Effort"))[1:]:
        level = level.strip("`")
        if level != "off":
            assert getattr(effort.sentences, level) == sentence
            shown = getattr(effort.budgets, level)
            assert f"{shown:,}" == cap if shown is not None else cap.startswith("none")


def test_the_settings_have_the_table_s_values() -> None:
    for body in ({}, shipped_documents()["settings"]):
        settings = parse("settings", body)
        assert isinstance(settings, SettingsDocument)
        assert (settings.default_profile, settings.tools_profile, settings.journal.days) == ("general", "tools", 30)
        transcripts = settings.memory.transcripts
        assert (transcripts.scope, transcripts.retention_days, transcripts.clip_chars) == ("tools", 30, 4000)


@pytest.mark.spec("ROL-001")
def test_the_shipped_roles_are_the_table() -> None:
    roles = parse("roles", shipped_documents()["roles"])
    assert isinstance(roles, Roles)
    table = {row[0].strip("`"): row[1:] for row in list(rows("## 9. Roles"))[1:]}
    assert roles.roles.keys() == table.keys()
    for name, role in contracts(roles).items():
        kind, seat, claim, window, preemptible, budget, fallback, writes, sharing = table[name]
        assert role.kind == kind
        assert [role.endpoint, role.model, role.mode] == seat.split(", ")
        assert role.memory_claim_gib == float(claim.split()[0])
        assert (role.window, role.preemptible) == (window, preemptible == "yes")
        assert role.latency_budget_ms == int(budget.split()[0].replace(",", ""))
        assert (role.fallback, role.writes, list(role.sharing)) == (fallback, writes, sharing.split(", "))
        assert role.filled == ()


@pytest.mark.spec("CFG-001")
def test_what_ships_could_be_saved() -> None:
    shipped = shipped_documents()
    bodies = {key: parse(split_key(key)[0], body) for key, body in shipped.items()}
    profiles = {key.partition("/")[2]: body for key, body in bodies.items() if isinstance(body, Profile)}
    rest: dict[str, Any] = {key: body for key, body in bodies.items() if "/" not in key}
    documents = Documents(profiles=profiles, monitor=None, versions={}, **rest)
    for key, body in bodies.items():
        check_saved(key, body, documents)
    for package in documents.packages.packages:
        assert package.text


@pytest.mark.spec("PRF-016")
def test_what_watches_an_agents_tools() -> None:
    """The profile's half of it; what an act is, the monitor's tests say."""
    found = parse(split_key("profiles/tools")[0], shipped_documents()["profiles/tools"])
    assert isinstance(found, Profile)
    modes = {name: getattr(found.tasks, name).mode for name in found.tasks.__struct_fields__}
    assert {name for name, mode in modes.items() if mode == "act"} == {"D1", "D1b", "D2", "E1", "C3", "C4", "C5"}
    assert modes["D3"] == "off"
    assert (found.secret_mask, found.prompt) == ("on", "client")
