"""The documents keep up with the code."""

from __future__ import annotations

import os
import re
import tomllib

import pytest

from tandem import __version__
from tandem.config import Settings
from tests.project.tree import ROOT
from tools.settings_doc import PAGE, page

DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{each.name}" for each in (ROOT / "docs").glob("*.md")),
]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_settings_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make docs"


def test_structures_names_every_actor_and_folder() -> None:
    page = text("docs/structures.md")
    files = [each.name for each in (ROOT / "tandem/actors").glob("*.py") if each.name != "__init__.py"]
    folders = [f"{each.parent.relative_to(ROOT / 'tandem')}/" for each in (ROOT / "tandem").glob("*/__init__.py")]
    assert [name for name in [*files, *folders] if f"`{name}`" not in page] == []
    assert len(page.splitlines()) <= 80


def test_readme_names_the_two_commands() -> None:
    readme = text("README.md")
    assert "git clone" in readme
    assert "make serve" in readme


@pytest.mark.spec("OBS-001")
def test_make_serve_keeps_a_ledger() -> None:
    assert "tandem serve --usage-ledger usage/ledger.sqlite3 " in text("Makefile")


@pytest.mark.spec("OBS-118")
def test_make_serve_switches_suffix_store_and_disk_tier_on() -> None:
    assert " --suffix-store suffix --disk-cache on " in text("Makefile")
    assert (Settings().suffix_store, Settings().disk_cache) == (None, "off")


def test_changelog_knows_the_version() -> None:
    assert "## [Unreleased]" in text("CHANGELOG.md")
    assert __version__ in text("CHANGELOG.md")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text(name)):
        if "://" not in target:
            assert (ROOT / name).parent.joinpath(target).exists(), f"{name}: {target}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_make_targets_in_documents_exist(name: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", text(name))) | set(
        re.findall(r"^make ([a-z-]+)", text(name), re.MULTILINE)
    )
    assert named <= targets


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    extras = [each for name in ("dev", "bench") for each in project["optional-dependencies"][name]]
    wanted = {_plain(each) for each in [*project["dependencies"], *extras]}
    lines = [line for line in text("constraints.txt").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    assert lines[0] == "torch==2.13.0"
    assert wanted <= {_plain(line) for line in lines}


def _plain(name: str) -> str:
    """The distribution's normalised name, whatever versions are asked for behind it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>~! ]", name)[0]).lower()


def test_ci_can_be_run() -> None:
    assert os.access(ROOT / ".ci/run", os.X_OK)
