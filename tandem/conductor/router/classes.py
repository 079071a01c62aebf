"""The classes of turns as documents and profile have them, and the class that a turn has without a question."""

from __future__ import annotations

from tandem.conductor.documents import ClassDef, Documents, Level, Profile, Router
from tandem.conductor.router.plan import ClassDecision, Kept, Option, TurnKind
from tandem.conductor.sessions import SessionView

__all__ = ["class_effort", "code_classes", "default_class", "options", "session_class", "unasked"]

KEPT: dict[TurnKind, Kept] = {
    "tool": "tool_results",
    "media": "tool_media",
    "after_compaction": "after_compaction",
}


def options(router: Router) -> tuple[Option, ...]:
    """What the class question offers: no class that a request's shape alone gives (RTR-001)."""
    return tuple(Option(one.id, one.description) for one in router.classes if not one.structural)


def code_classes(router: Router) -> frozenset[str]:
    return frozenset(one.id for one in router.classes if one.code)


def session_class(documents: Documents, session: SessionView) -> str | None:
    """The session's class, as long as the router still has it."""
    found = None if session.class_id is None else documents.class_def(session.class_id)
    return None if found is None or found.structural else found.id


def default_class(documents: Documents, profile: Profile) -> str:
    """The class of a session that has none (RTR-007); a profile that names none gets the first of the router's."""
    named = profile.routing.default_class
    if named is not None and documents.class_def(named) is not None:
        return named
    classes = documents.router.classes
    return next((one for one in classes if not one.structural), classes[0]).id


def class_effort(documents: Documents, profile: Profile, class_id: str) -> Level | None:
    """The class's effort, the profile's routing first (PRF-018); None for a class the router does not have."""
    routed = profile.routing.classes.get(class_id)
    if routed is not None and routed.effort is not None:
        return routed.effort
    policy = documents.policy(class_id)
    return None if policy is None else policy.effort


def unasked(documents: Documents, profile: Profile, session: SessionView, turn: TurnKind) -> ClassDecision:
    """The class of a turn that nobody is asked about: a compaction's own, else the session's, else the default."""
    if turn == "compaction":
        own: ClassDef | None = next((one for one in documents.router.classes if one.structural), None)
        if own is not None:
            return ClassDecision(class_id=own.id, source="structural")
    known = session_class(documents, session)
    if known is None:
        return ClassDecision(class_id=default_class(documents, profile), source="default")
    return ClassDecision(
        class_id=known,
        source="structural" if turn in ("tool", "media") else "sticky",
        confidence=session.confidence,
        kept=KEPT.get(turn),
    )
