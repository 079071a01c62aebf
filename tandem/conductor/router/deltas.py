"""What a request changes in its session: when its prompt is placed, and when its answer has ended (SES-007)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tandem.conductor.router.draft import FRESH, Draft
from tandem.conductor.router.kit import Kit
from tandem.conductor.router.plan import Plan
from tandem.conductor.router.prepare import Prepared
from tandem.conductor.router.turns import user_messages
from tandem.conductor.sessions import Answered, SessionDelta, summary_hash

__all__ = ["answered", "begun"]


def begun(draft: Draft) -> SessionDelta | None:
    """Of a turn; nothing else changes a session when it begins (SES-011)."""
    if draft.turn in ("side", "compaction", "text"):
        return None
    decided, prepared = draft.class_decision, draft.prepared
    class_id = _class_of(draft)
    return SessionDelta(
        turn=True,
        class_id=class_id,
        confidence=decided.confidence if decided is not None and class_id is not None else None,
        dropped=draft.carried.dropped if draft.is_on and not prepared.resolution.keeps_prompt else (),
        package=draft.packages.pick if draft.packages is not None else None,
        size=draft.size,
        compacted=False if draft.turn == "after_compaction" else None,
        answered=_answered(draft),
        escaping_since=draft.sampling.escaping_since if draft.is_on else None,
    )


def _answered(draft: Draft) -> Answered | None:
    newest = draft.prepared.digests.newest
    if draft.turn not in FRESH or newest is None:
        return None
    return Answered(newest, draft.prepared.facts.now, draft.prepared.digests.place, _class_of(draft))


def _class_of(draft: Draft) -> str | None:
    """A class by default is none yet: the session's next message still is the first that is classified (RTR-016)."""
    decided = draft.class_decision
    return None if decided is None or decided.source == "default" else decided.class_id


def answered(kit: Kit, prepared: Prepared, plan: Plan, answer: Mapping[str, Any]) -> SessionDelta | None:
    """`answer` is the message as its client will send it back: `content` and `tool_calls`. None: nothing changes.

    A summary is remembered by a hash of its beginning, a first turn by its digest: by them a conversation without an id
    is found again (SES-004, SES-006).
    """
    if plan.mode == "raw" or plan.turn in ("side", "text"):
        return None
    if plan.turn == "compaction":
        return SessionDelta(compacted=True, summary=summary_hash(str(answer.get("content") or "")))
    if plan.session.head is None or len(user_messages(prepared.facts.messages)) != 1:
        return None
    whole = {"role": "assistant", **answer}
    return SessionDelta(first_turn=kit.digests.after(prepared.digests.newest, whole))
