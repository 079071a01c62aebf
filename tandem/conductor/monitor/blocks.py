"""What a rule is told at a round's border, and how a call that is still being written is stopped (MON-107, MON-108)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tandem.conductor.monitor.case import Case
from tandem.conductor.monitor.events import BlockEvent
from tandem.conductor.monitor.judging import judge
from tandem.conductor.monitor.novelty import shared_share
from tandem.conductor.monitor.reasoning_arms import arm_of
from tandem.conductor.monitor.record import Finding
from tandem.engine.decoding.seams import EndNow, Seen, Verdict

__all__ = ["block_event", "stopped"]


def block_event(case: Case, seen: Seen) -> BlockEvent:
    """The border that `seen` is at."""
    trace = case.trace

    def find_arm() -> str | None:
        params = _params(case, "reasoning_loop")
        arm = arm_of(trace.reasoning, trace.thoughts, params) if params and seen.in_reasoning else None
        return None if arm is None else arm.name

    def find_share() -> float:
        params = _params(case, "reasoning_history")
        return shared_share(trace.reasoning, params["window"], case.session.reasoning) if params else 0.0

    return BlockEvent(
        reasoning_tokens=len(trace.reasoning),
        answer_tokens=len(trace.answer_ids),
        inside=seen.in_reasoning,
        position=seen.position,
        find_arm=find_arm,
        find_share=find_share,
    )


def stopped(case: Case, finding: Finding, seen: Seen, *, holds: bool) -> Verdict:
    """The open block is dropped and the answer ends.

    Held calls before it are checked and go out, with the sentence behind them. A block that streams is left as it is,
    without an end and without a word, so that the client's tool layer reports it and its loop goes on. Where it is
    neither held nor live, nothing of it has gone out, and the sentence is all that the client gets of it.
    """
    if finding.action.kind != "GIVE_UP":
        case.record.passed(finding, "bad_action")
        return Verdict()
    given = case.give_up(finding, position=seen.position)
    detail = case.stop_detail(finding)
    if given.end is None or (case.req.live and not holds):
        return Verdict(end=EndNow("", detail, cut=True))
    if not holds:
        return given
    earlier = judge(case, seen.held, seen, ended="stop")
    released = () if earlier.end is not None else earlier.release or tuple(seen.held)
    return Verdict(release=released, end=given.end)


def _params(case: Case, rule: str) -> Mapping[str, Any] | None:
    return next((task.params for task in case.tasks if task.rule == rule), None)
