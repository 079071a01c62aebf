"""The rows of a planned request: what was decided once its prompt is placed, and how it ended (JRN-002, OBS-022).

Message text is in no row but the digest that the stages read, and that only where it holds no secret (JRN-003).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tandem.actors.store import FillChecker, FillOutcome
from tandem.conductor.masking.scan import secrets_of
from tandem.conductor.router.deltas import answered
from tandem.conductor.router.digest import digest, newest_user_text
from tandem.conductor.router.history import newest_checker, newest_round
from tandem.conductor.router.kit import Kit
from tandem.conductor.router.notes import LiveNote, text_hash
from tandem.conductor.router.plan import Plan, RouterRow
from tandem.conductor.router.prepare import Prepared
from tandem.conductor.router.rows import with_notes
from tandem.conductor.router.turns import user_messages
from tandem.conductor.sessions import SessionDelta, Sessions
from tandem.engine.text.reading.deltas import Delta, Finish
from tandem.engine.text.reading.reader import AnswerReader
from tandem.http.context import Context
from tandem.http.entry import SHORT_SIDE
from tandem.http.openai.answers import Answer
from tandem.http.planned import Planned
from tandem.http.record import RequestRecord
from tandem.store.journal import HiddenText, JournalRow

__all__ = ["Witness", "journal_end", "journal_plan", "log_plan"]

log = logging.getLogger(__name__)

WHOLE = ("stop", "length", "tool_calls")
REFUSED = "(held a secret)"
SEARCHED = 65_536
"""Characters of a message, at its two ends."""


def journal_plan(here: Context, record: RequestRecord, planned: Planned) -> None:
    """The request's row, with the texts that only the model reads; nothing on the raw path."""
    plan, placed, prepared = planned.plan, planned.placed, planned.prepared
    if plan is None or plan.row is None or placed is None or prepared is None:
        return
    row = with_notes(plan.row, placed)
    if plan.effects.side is not None:
        is_first = len(placed.prompt.ids) <= SHORT_SIDE
        row = replace(row, extra={**row.extra, "side": {**row.extra["side"], "first": is_first}})
    texts = tuple(_hidden(each.note) for each in placed.notes if each.is_new)
    _, results = newest_round(prepared.facts.messages)
    if (checker := newest_checker(results)) is not None:
        told = f"{checker.verdict} {checker.name}"
        here.store.offer(FillChecker(row.session_key, record.request_id, told))
    row = replace(row, detail=_unsecret(row.detail, prepared))
    here.journal([_event(here, record, row, planned.ms)], texts)
    here.metrics.planned(row.decision, row.mode, placed.prompt.hidden_tokens)


def log_plan(record: RequestRecord, planned: Planned) -> None:
    """One line of names and numbers (OBS-043)."""
    plan, placed = planned.plan, planned.placed
    if plan is None or placed is None or plan.mode == "raw":
        return
    decided, effort = plan.class_decision, plan.effort
    told: dict[str, Any] = {"mode": plan.mode, "profile": plan.profile, "turn": plan.turn}
    if decided is not None:
        told |= {"class": decided.class_id, "source": decided.source, "confidence": decided.confidence}
    if effort is not None:
        told |= {"effort": effort.level, "thinking": effort.thinking, "cap": effort.cap}
    told |= {"notes": len(placed.notes), "hidden": placed.prompt.hidden_tokens, "ms": round(planned.ms, 1)}
    words = " ".join(f"{name}={_shown(value)}" for name, value in told.items() if value is not None)
    log.info("[conductor] %s %s", record.request_id, words)
    effects = plan.effects
    if effects.drop_ngram:
        log.info("[penalty] %s no_repeat_ngram_size dropped", record.request_id)
    if (told_sampling := effects.sampling.log(record.request_id)) is not None:
        log.info("%s", told_sampling)


def journal_end(here: Context, record: RequestRecord, planned: Planned) -> None:
    """How the request ended, with what only the end shows."""
    mask = planned.mask
    if mask is not None and mask.counts:
        kinds = " ".join(f"{kind}={count}" for kind, count in sorted(mask.counts.items()))
        is_shadow = planned.effects.secret_mask == "shadow"
        log.info("[secret_mask] %s %s %s", record.request_id, "would mask" if is_shadow else "masked", kinds)
    if record.is_refused:
        _note_refusal(here, planned)
    if planned.plan is None or planned.plan.row is None:
        return
    here.store.offer(FillOutcome(record.request_id, record.outcome_words(), _end_extra(record, planned)))


def _note_refusal(here: Context, planned: Planned) -> None:
    """The same messages again ask for a first answer (API-177)."""
    plan, placed = planned.plan, planned.placed
    if plan is not None and placed is not None and placed.delta is not None and placed.delta.answered is not None:
        here.sessions.commit(plan.session, SessionDelta(refused=placed.delta.answered))


def _hidden(note: LiveNote) -> HiddenText:
    """A note by its hash, without what in it is the client's own text in another place (FIT-001)."""
    written = "".join(run.text for run in note.runs if run.kind == "note")
    return HiddenText(text_hash(note.text), written, note.tokens)


def _event(here: Context, record: RequestRecord, row: RouterRow, ms: float) -> JournalRow:
    return JournalRow(
        ts_ms=int(here.wall.now().timestamp() * 1e3),
        kind=row.kind,
        request_id=record.request_id,
        session_key=row.session_key,
        task=row.kind,
        mode=row.mode,
        decision=row.decision,
        action=row.action,
        reason=row.reason,
        score=row.score,
        text_hash=row.text_hash,
        hidden_tokens=row.hidden_tokens,
        position=row.position,
        profile=row.profile,
        client_kind=row.client_kind,
        class_=row.class_,
        effort=row.effort,
        detail={**row.detail, "ms": round(ms, 3)},
        extra=dict(row.extra) or None,
    )


def _unsecret(detail: Mapping[str, Any], prepared: Prepared) -> Mapping[str, Any]:
    """Without the digest of a message that holds a secret: half of one that the cut went through tells nobody its kind,
    so more of the message is searched than was read.
    """
    read = detail.get("digest")
    if not isinstance(read, str):
        return detail
    text = digest(newest_user_text(prepared.facts.messages), SEARCHED)
    return {**detail, "digest": REFUSED} if secrets_of(read) or secrets_of(text) else detail


def _end_extra(record: RequestRecord, planned: Planned) -> Mapping[str, Any] | None:
    """Fields of JRN-006 that are known once the answer has ended: of its readers, its mask and its lines."""
    readers = [reader for reader in record.readers if isinstance(reader, AnswerReader)]
    extra: dict[str, Any] = dict(record.budget)
    if refused := [name for reader in readers for name in reader.refused_calls]:
        extra["calls_refused"] = refused
    if closers := sum(reader.stray_closers for reader in readers):
        extra["stray_close"] = closers
    if planned.mask is not None and planned.mask.counts:
        name = "secret_mask_shadow" if planned.effects.secret_mask == "shadow" else "secret_mask"
        extra[name] = dict(planned.mask.counts)
    if record.lining is not None and record.lining.said:
        extra["states"] = record.lining.said
    if record.replayed:
        extra["end_replayed"] = record.replayed
    if record.states_stripped:
        extra["states_stripped"] = record.states_stripped
    return extra or None


def _shown(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


class Witness:
    """Hears the first choice's answer where its session is to know it: of a first turn, of a compaction (SES-004)."""

    def __init__(self, sessions: Sessions, kit: Kit, prepared: Prepared, plan: Plan) -> None:
        self._sessions = sessions
        self._kit = kit
        self._prepared = prepared
        self._plan = plan
        self._answer = Answer()

    @classmethod
    def of(cls, here: Context, planned: Planned) -> Witness | None:
        """None where the answer changes nothing."""
        plan, prepared, kit = planned.plan, planned.prepared, here.kit
        if plan is None or prepared is None or kit is None or plan.mode == "raw" or plan.turn in ("side", "text"):
            return None
        is_first = plan.session.head is not None and len(user_messages(prepared.facts.messages)) == 1
        return cls(here.sessions, kit, prepared, plan) if is_first or plan.turn == "compaction" else None

    def hear(self, deltas: Iterable[Delta]) -> None:
        """Before they go to the client, who may come back as soon as it has the last."""
        deltas = tuple(deltas)
        self._answer.feed(deltas)
        match deltas[-1:]:
            case [Finish(reason)] if reason in WHOLE:
                self._commit()
            case _:
                pass

    def _commit(self) -> None:
        said = {"content": "".join(piece.text for piece in self._answer.contents()), "tool_calls": self._calls()}
        message = {name: value for name, value in said.items() if value}
        if (delta := answered(self._kit, self._prepared, self._plan, message)) is not None:
            self._sessions.commit(self._plan.session, delta)

    def _calls(self) -> Sequence[Mapping[str, Any]]:
        calls = self._answer.calls.values()
        return [{"function": {"name": start.name, "arguments": "".join(texts)}} for start, texts in calls]
