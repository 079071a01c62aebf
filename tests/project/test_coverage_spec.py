"""`make coverage-spec`: what it finds in pages and tests, and when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.coverage_spec import claims, main, measure, report, requirements

PAGE = "# P\n- **API-001** One. See API-009.\n- **API-002** Two.\n  - **API-003** nested\ntext **API-004**\n"
TEST = """
import pytest

pytestmark = pytest.mark.spec("API-001")

@pytest.mark.spec("API-001", "API-002")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.spec("NO-001"))])
def test_it(x): "API-003"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "docs/spec").mkdir(parents=True)
    (tmp_path / "tests/deep").mkdir(parents=True)
    (tmp_path / "docs/spec/p.md").write_text(PAGE)
    (tmp_path / "docs/spec/README.md").write_text("# Nothing here\n")
    return tmp_path


def test_a_requirement_is_a_bullet() -> None:
    assert requirements(PAGE) == ["API-001", "API-002"]


def test_every_place_of_a_marker_counts() -> None:
    assert sorted(claims(TEST)) == [("API-001", 4), ("API-001", 6), ("API-002", 6), ("NO-001", 7)]


def test_ids_must_be_plain() -> None:
    with pytest.raises(ValueError, match="line 2: the ids"):
        list(claims("import pytest\npytest.mark.spec(*ids)"))


def test_covered_and_uncovered(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests/deep/test_x.py").write_text('import pytest\npytestmark = pytest.mark.spec("API-002")\n')
    assert main(project) == 0
    assert capsys.readouterr().out.splitlines() == [
        "p.md: 1 of 2 covered",
        "  covered   API-002",
        "  uncovered API-001",
        "all pages: 1 of 2 covered",
    ]


SLOW = """
import pytest

class TestIt:
    @pytest.mark.slow
    @pytest.mark.spec("API-001")
    def test_marked(self): ...

    @pytest.mark.spec("API-002")
    def test_listed(self): ...

    def test_quick(self): ...
"""


@pytest.mark.parametrize("nightly", ["tests/test_x.py::TestIt::test_listed\n", "# all\ntests/test_x.py\n"])
def test_what_only_slow_tests_claim_has_a_star(project: Path, capsys: pytest.CaptureFixture[str], nightly: str) -> None:
    (project / "tests/test_x.py").write_text(SLOW)
    (project / "tests/nightly.txt").write_text(nightly)
    assert main(project) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "  covered   API-001* API-002*"
    assert said[-1] == "*: 2 of them by slow tests alone, which `make test` leaves out"
    (project / "tests/test_y.py").write_text('import pytest\npytestmark = pytest.mark.spec("API-002")\n')
    assert main(project) == 0
    assert capsys.readouterr().out.splitlines()[1] == "  covered   API-001* API-002"


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("tests/test_x.py", TEST, "tests/test_x.py:7: no requirement is called NO-001"),
        ("tests/test_x.py", "def", "tests/test_x.py: invalid syntax"),
        ("docs/spec/q.md", "- **API-002** Again.\n", "q.md: API-002 is there twice"),
    ],
)
def test_errors(project: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, error: str) -> None:
    (project / name).write_text(text)
    assert main(project) == 1
    assert capsys.readouterr().err.startswith(error)


def test_long_lists_wrap(project: Path) -> None:
    (project / "docs/spec/p.md").write_text("".join(f"- **API-{n:03}** X.\n" for n in range(40)))
    lines = report(measure((project / "docs/spec").glob("*.md"), [], project)).splitlines()
    assert max(map(len, lines)) <= 120
    assert lines[2].startswith("            API-")


def test_this_project_claims_no_unknown_id(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert "no requirement is called" not in capsys.readouterr().err
