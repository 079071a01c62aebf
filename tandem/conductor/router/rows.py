"""The journal row of a plan: what was decided and why, as JRN-002 and JRN-006 name it. No message's text is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tandem.conductor.router.draft import Draft
from tandem.conductor.router.notes import NewNote, text_hash
from tandem.conductor.router.placing import Placed
from tandem.conductor.router.plan import ClassDecision, Effects, RouterRow, SideServing, StageResult

__all__ = ["router_row", "with_notes"]


def router_row(draft: Draft, effects: Effects, left_out: Sequence[str] = ()) -> RouterRow | None:
    """None for a text completion, about which nothing is decided."""
    if draft.turn == "text":
        return None
    if draft.side is not None:
        return _side_row(draft, draft.side, left_out)
    decided, effort = draft.class_decision, draft.effort
    row = _row(draft, "route")
    detail: dict[str, Any] = {"turn": draft.turn, **_class_detail(decided)}
    if effort is not None:
        detail |= {"thinking": effort.thinking, "budget": effort.cap, "budget_source": effort.budget_source}
    return replace(
        row,
        class_=decided.class_id if decided is not None else None,
        decision=decided.class_id if decided is not None else None,
        score=decided.confidence if decided is not None else None,
        reason=decided.source if decided is not None else None,
        effort=effort.level if effort is not None and draft.is_on else None,
        detail=_present(detail),
        extra=_extra(draft, effects, left_out),
    )


def with_notes(row: RouterRow, placed: Placed) -> RouterRow:
    """The row with the notes as they lie in the prompt (NOTE-011)."""
    notes = [
        {
            "kind": "new" if each.is_new else "replayed",
            "parts": [name for _, name, _ in each.note.parts],
            "hash": text_hash(each.note.text),
            "tokens": each.note.tokens,
            "position": each.position,
        }
        for each in placed.notes
    ]
    new = next((each for each in placed.notes if each.is_new), None)
    detail: dict[str, Any] = {**row.detail, "prompt_tokens": placed.prompt.client_tokens}
    if notes:
        detail["notes"] = notes
    if placed.marks:
        detail["marks"] = [*detail.get("marks", ()), *placed.marks]
    return replace(
        row,
        detail=detail,
        hidden_tokens=placed.prompt.hidden_tokens or None,
        position=None if new is None else new.position,
        text_hash=None if new is None else text_hash(new.note.text),
    )


def _side_row(draft: Draft, side: SideServing, left_out: Sequence[str]) -> RouterRow:
    told = {"shape": side.shape, "client": side.client, "kind": side.kind, "cap": side.cap, "thinking": side.thinking}
    extra: dict[str, Any] = {"side": told}
    if left_out:
        extra["prompt"] = {"dropped": list(left_out)}
    row = _row(draft, "side")
    return replace(row, decision=side.shape, action="SIDE_REQUEST", detail={"cap": side.cap}, extra=extra)


def _row(draft: Draft, kind: str) -> RouterRow:
    resolution = draft.prepared.resolution
    return RouterRow(
        kind="side" if kind == "side" else "route",
        session_key=draft.session.key,
        mode=resolution.mode,
        profile=resolution.name,
        client_kind=draft.prepared.facts.kind,
    )


def _class_detail(decided: ClassDecision | None) -> dict[str, Any]:
    if decided is None:
        return {}
    return {
        "source": decided.source,
        "kept": decided.kept,
        "stages": [_stage(stage) for stage in decided.stages] or None,
        "digest": decided.digest,
    }


def _stage(stage: StageResult) -> dict[str, Any]:
    """One stage (RTR-014)."""
    told = {
        "stage": stage.stage,
        "label": stage.label,
        "confidence": stage.confidence,
        "probabilities": dict(stage.probabilities) or None,
        "ms": stage.ms,
        "error": stage.error,
        "guard": stage.guard or None,
        **stage.detail,
    }
    return _present(told)


def _extra(draft: Draft, effects: Effects, left_out: Sequence[str]) -> Mapping[str, Any]:
    """Each field only where its rule ran (JRN-006)."""
    extra: dict[str, Any] = {"session": draft.session.found}
    if draft.prepared.resolution.source == "tools":
        extra["profile_source"] = "tools"
    if left_out:
        extra["prompt"] = {"dropped": list(left_out)}
    shadow: dict[str, Any] = {}
    for part in (draft.class_decision, draft.effort, draft.packages):
        if part is not None:
            extra |= part.extra
            shadow |= part.shadow
    fit = draft.kit.fit.row
    if fit is not None:
        extra["model_fit"] = fit
    marks = _skipped(draft)
    if marks:
        extra["note"] = {"skipped": marks}
    if draft.carried.dropped:
        extra["note_dropped"] = [text_hash(note.text) for note in draft.carried.dropped]
    if effects.drop_ngram:
        extra["penalty_dropped"] = {"no_repeat_ngram_size": draft.prepared.facts.ngram}
    extra |= effects.sampling.extra
    if not draft.is_on:
        shadow |= _shadow(draft)
    if shadow:
        extra["shadow"] = shadow
    return {**extra, **draft.extra}


def _skipped(draft: Draft) -> list[str]:
    """Parts of the class block that were left out, with the reason (EFF-012, FIT-007)."""
    skipped = draft.effort.note_skipped if draft.effort is not None else None
    marks = [f"effort_note_skipped:{skipped}"] if skipped else []
    decided = draft.class_decision
    policy = draft.prepared.documents.policy(decided.class_id) if decided is not None else None
    if not draft.kit.fit.rules and policy is not None and policy.rules:
        marks.append("rules_skipped:model_fit")
    return marks


def _shadow(draft: Draft) -> dict[str, Any]:
    """What a plan in shadow would have set (PRF-010)."""
    effort, new = draft.effort, draft.carried.new
    told: dict[str, Any] = {"notes": _parts(new), "note_tokens": new.tokens if new is not None else None}
    if effort is not None:
        told |= {"effort": effort.level, "thinking": effort.thinking, "budget": effort.cap}
    if draft.sampling.why is not None:
        told["sampling"] = draft.sampling.why
    return _present(told)


def _parts(new: NewNote | None) -> list[str] | None:
    return None if new is None else [part.name for part in new.parts]


def _present(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value is not None}
