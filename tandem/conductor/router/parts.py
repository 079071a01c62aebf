"""The parts of a turn's note, in their order (NOTE-003). Which of them are live already, the notes know."""

from __future__ import annotations

from tandem.conductor.router.draft import FRESH, Draft
from tandem.conductor.router.identity import asks_identity, identity_part
from tandem.conductor.router.notes import NotePart
from tandem.conductor.router.turns import newest_text

__all__ = ["note_parts"]


def note_parts(draft: Draft) -> list[NotePart]:
    """A turn that nobody begins, on tool results, has the directory sentence alone (NOTE-006), and the way out of a
    loop (SMP-006).
    """
    moved = draft.prepared.moved
    parts = [moved.part] if moved is not None else []
    if draft.sampling.note is not None:
        parts.append(NotePart("outcome", "loop_escape", draft.sampling.note))
    if draft.turn not in FRESH or draft.is_there:
        return parts
    return [*parts, *_class_block(draft), *_identity(draft)]


def _class_block(draft: Draft) -> list[NotePart]:
    """Effort sentence, packages, rules, reading line, tool-fit sentence."""
    decided, packages = draft.class_decision, draft.packages
    block = _effort(draft)
    if packages is not None and draft.applies("package"):
        block += packages.packages
    if decided is not None and draft.applies("classify"):
        block += [NotePart("class", "rule", rule) for rule in _rules(draft, decided.class_id)]
        block += [NotePart("class", "reading", decided.reading)] if decided.reading else []
    if packages is not None and packages.tool_fit is not None and draft.applies("package"):
        block.append(packages.tool_fit)
    return block


def _effort(draft: Draft) -> list[NotePart]:
    effort = draft.effort
    if effort is None or effort.note_level in (None, "off") or not draft.applies("effort"):
        return []
    sentences = draft.prepared.documents.router.effort.sentences
    return [NotePart("class", "effort", getattr(sentences, effort.note_level or ""))]


def _rules(draft: Draft, class_id: str) -> tuple[str, ...]:
    """The class's rules, those of the profile first (PRF-018)."""
    prepared = draft.prepared
    if not draft.kit.fit.rules:
        return ()
    routed = prepared.resolution.profile.routing.classes.get(class_id)
    if routed is not None and routed.rules is not None:
        return routed.rules
    policy = prepared.documents.policy(class_id)
    return () if policy is None else policy.rules


def _identity(draft: Draft) -> list[NotePart]:
    if not draft.applies("identity") or not asks_identity(newest_text(draft.prepared.facts.messages)):
        return []
    return [identity_part(draft.kit.model_name)]
