"""What ops/monitoring/ ships: every series that it asks for exists, and promtool takes the rules (OBS-040)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tandem.metrics import Metrics, up_page
from tests.store.samples import outcome
from tests.test_metrics import everything

FOLDER = Path(__file__).parents[2] / "ops" / "monitoring"
PROMTOOL = shutil.which("promtool")
SERIES = re.compile(r"\btandem_[a-z0-9_]+")
SELECTOR = re.compile(r"(tandem_[a-z0-9_]+)(?:\{([^}]*)\})?")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool: Debian has it in the package prometheus")


@cache
def served() -> Mapping[str, set[str]]:
    """The names of labels of every series on the two pages."""
    metrics = Metrics()
    metrics.ended(outcome())
    metrics.answered("/health", 200)
    found: dict[str, set[str]] = {}
    for page in (metrics.page(everything()), up_page(True)):
        for family in text_string_to_metric_families(page.decode()):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def rules() -> list[str]:
    """The expressions of the rules: whatever follows `expr:`, up to the next key."""
    text = (FOLDER / "alerts.yml").read_text("utf-8")
    return re.findall(r"expr:(.*?)\n\s*(?:for|labels):", text, re.DOTALL)


def dashboard() -> Any:
    return json.loads((FOLDER / "grafana.json").read_text("utf-8"))


def expressions() -> Iterator[str]:
    yield from rules()
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


@pytest.mark.spec("OBS-040")
def test_there_are_four_rules() -> None:
    text = (FOLDER / "alerts.yml").read_text("utf-8")
    assert re.findall(r"alert: (\w+)", text) == ["TandemErrors", "TandemQueueLong", "TandemLedgerDrops", "TandemDown"]
    assert len(rules()) == 4
    assert "tandem_requests_waiting" in rules()[1]
    assert "> 6" in rules()[1]


@pytest.mark.spec("OBS-040")
@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_series_exists_and_has_the_labels_that_are_asked_for(expression: str) -> None:
    names = SERIES.findall(expression)
    assert names
    assert set(names) <= served().keys()
    by_prometheus = {"instance", "job"}
    for name, selector in SELECTOR.findall(expression):
        assert set(re.findall(r"(\w+)\s*[=!]", selector)) <= served()[name] | by_prometheus, name
    grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    assert grouped <= set().union(*(served()[name] for name in names)) | by_prometheus


def test_the_dashboard_is_whole() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["targets"] for panel in panels)
    shown = {name for panel in panels for target in panel["targets"] for name in SERIES.findall(target["expr"])}
    for wanted in ("requests_running", "requests_waiting", "errors_total", "requests_refused_total"):
        assert f"tandem_{wanted}" in shown
    for wanted in ("prompt_tokens_cached_total", "usage_ledger_dropped_total", "process_resident_memory_bytes"):
        assert f"tandem_{wanted}" in shown
    for panel in panels:
        for target in panel["targets"]:
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= {
                label for name in SERIES.findall(target["expr"]) for label in served()[name]
            }


@needs_promtool
@pytest.mark.spec("OBS-040")
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
        ("check", "config", "--syntax-only", "prometheus.yml"),
    ],
    ids=" ".join,
)
def test_promtool_takes_them(arguments: tuple[str, ...]) -> None:
    assert PROMTOOL is not None
    run = subprocess.run([PROMTOOL, *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@needs_promtool
@pytest.mark.spec("OBS-031")
def test_promtool_takes_the_page() -> None:
    assert PROMTOOL is not None
    metrics = Metrics()
    metrics.ended(outcome())
    metrics.answered("/health", 200)
    page = metrics.page(everything())
    run = subprocess.run([PROMTOOL, "check", "metrics"], input=page, capture_output=True, check=False)
    # It also lints names, several of which the specification fixes; a page that it cannot read is status 1.
    assert run.returncode in (0, 3), run.stderr
