"""What came of the labelled prompts, counted: per stage, per class, per kind and language, per threshold. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.conductor.labelled import KINDS, Labelled
from tandem.bench.report import Report
from tandem.bench.stats import percentile
from tandem.conductor.documents import Router
from tandem.conductor.router.plan import StageResult

__all__ = ["Judged", "judged", "reports"]

THRESHOLDS = (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9)
NONE = "-"
DEFAULT = "chat"
"""The default class of profile general."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One prompt, decided."""

    prompt: Labelled
    class_id: str | None
    source: str | None
    stages: tuple[StageResult, ...]

    @property
    def is_right(self) -> bool:
        return self.class_id == self.prompt.label

    @property
    def asked(self) -> bool:
        return bool(self.stages)


def judged(prompt: Labelled, class_id: str | None, source: str | None, stages: Iterable[StageResult]) -> Judged:
    return Judged(prompt, class_id, source, tuple(stages))


def reports(found: Sequence[Judged], router: Router) -> list[Report]:
    """The tables. `router` has the thresholds at which a stage's answer is used."""
    accept = {"engine": router.classifier.engine.accept, "decider": router.classifier.decider.accept}
    names = sorted({stage.stage for one in found for stage in one.stages})
    tables = [_stages(found, names, accept)]
    tables += [_thresholds(found, name) for name in names]
    return [*tables, _classes(found), _groups(found)]


def _stages(found: Sequence[Judged], names: Sequence[str], accept: dict[str, float]) -> Report:
    columns = [_stage(_answers(found, name), accept.get(name, 1.0)) for name in names]
    right = sum(one.is_right for one in found)
    by_source = Counter(one.source or NONE for one in found)
    moved = [one for one in found if one.prompt.previous not in (None, one.prompt.label)]
    stays = [one for one in found if one.prompt.previous == one.prompt.label]
    return Report(
        f"{len(found)} labelled prompts",
        ("stage", *names),
        tuple((row, *(column[row] for column in columns)) for row in (columns[0] if columns else ())),
        (
            f"class of the turn right: {_part(right, len(found))}; "
            f"always the default class: {_part(sum(one.prompt.label == DEFAULT for one in found), len(found))}",
            f"a new task in a session seen: {_part(sum(one.is_right for one in moved), len(moved))}; "
            f"the same task kept: {_part(sum(one.is_right for one in stays), len(stays))}",
            "decided by " + ", ".join(f"{name} {count}" for name, count in by_source.most_common()),
        ),
    )


def _stage(answers: Sequence[tuple[Labelled, StageResult]], accept: float) -> dict[str, str]:
    """A stage's answers, and those at or above `accept`, of which the wrong ones do harm."""
    given = [(prompt, result) for prompt, result in answers if result.error is None]
    used = [prompt.label == result.label for prompt, result in given if (result.confidence or 0.0) >= accept]
    times = [result.ms for _, result in answers]
    return {
        "asked": f"{len(answers)}",
        "no answer": _part(len(answers) - len(given), len(answers)),
        "right": _part(sum(prompt.label == result.label for prompt, result in given), len(given)),
        "accepted at": f"{accept:.2f}",
        "accepted": _part(len(used), len(given)),
        "accepted and right": _part(sum(used), len(given)),
        "accepted and wrong": _part(len(used) - sum(used), len(given)),
        "guard acted": f"{sum(result.guard for _, result in given)}",
        "ms, median": f"{statistics.median(times):,.0f}",
        "ms, p95": f"{percentile(times, 0.95):,.0f}",
        "tokens, mean": _mean([result.detail.get("prompt_tokens") for _, result in given]),
        "of them read": _mean([result.detail.get("prefilled") for _, result in given]),
    }


def _thresholds(found: Sequence[Judged], name: str) -> Report:
    """What `accept` would be worth at other values."""
    given = [(prompt, result) for prompt, result in _answers(found, name) if result.error is None]
    rows = []
    for threshold in THRESHOLDS:
        used = [prompt.label == result.label for prompt, result in given if (result.confidence or 0.0) >= threshold]
        right = sum(used)
        rows.append((f"{threshold:.2f}", _part(len(used), len(given)), _part(right, len(used)), f"{len(used) - right}"))
    return Report(f"Stage {name} at other thresholds", ("accept", "used", "right of them", "wrong"), tuple(rows))


def _classes(found: Sequence[Judged]) -> Report:
    rows = []
    for label in dict.fromkeys(one.prompt.label for one in found):
        mine = [one for one in found if one.prompt.label == label]
        last = [one.stages[-1].label for one in mine if one.stages]
        wrong = Counter(named for named in last if named not in (None, label))
        rows.append(
            (
                label,
                f"{len(mine)}",
                _part(sum(named == label for named in last), len(last)),
                _part(sum(one.is_right for one in mine), len(mine)),
                ", ".join(f"{name} {count}" for name, count in wrong.most_common(3)) or NONE,
            )
        )
    return Report("By class", ("class", "prompts", "stage right", "decided right", "taken for"), tuple(rows))


def _groups(found: Sequence[Judged]) -> Report:
    rows = []
    for kind in KINDS:
        for language in ("en", "de"):
            mine = [one for one in found if (one.prompt.kind, one.prompt.language) == (kind, language)]
            if mine:
                asked = [one.stages[-1].label == one.prompt.label for one in mine if one.stages]
                staged, right = _part(sum(asked), len(asked)), sum(one.is_right for one in mine)
                rows.append((f"{kind}, {language}", f"{len(mine)}", staged, _part(right, len(mine))))
    return Report("By kind and language", ("prompts", "number", "stage right", "decided right"), tuple(rows))


def _answers(found: Sequence[Judged], name: str) -> list[tuple[Labelled, StageResult]]:
    return [(one.prompt, stage) for one in found for stage in one.stages if stage.stage == name]


def _part(count: int, whole: int) -> str:
    return f"{count} ({100 * count / whole:.0f} %)" if whole else NONE


def _mean(values: Iterable[int | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.fmean(known):,.0f}" if known else NONE
