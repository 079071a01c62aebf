"""What of a request is found out before its session is opened: profile, mode, kind of turn, digests.

Reading a long history takes longer than the event loop may stand still, so this half of planning touches no session
and may run in a worker thread (RTR-029, SCH-113).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tandem.conductor.documents import Documents
from tandem.conductor.monitor.stopped_calls import Stop, cut_history, stops_since_user
from tandem.conductor.router.compaction import is_compaction
from tandem.conductor.router.directory import Moved, move_directory
from tandem.conductor.router.facts import Facts
from tandem.conductor.router.kit import Kit
from tandem.conductor.router.plan import TurnKind
from tandem.conductor.router.resolution import Resolution, resolve
from tandem.conductor.router.side_requests import SideRequest, find_side_request
from tandem.conductor.router.turns import kind_of_turn, text_of, user_messages
from tandem.conductor.sessions import Digests, SessionFacts, session_key
from tandem.engine.text.model import Conversation

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that is known but for its session."""

    facts: Facts
    documents: Documents
    resolution: Resolution
    turn: TurnKind
    side: SideRequest | None
    digests: Digests
    moved: Moved | None
    """Its tools without the working directory (FIT-001), where there was one; a plan that is on moves it."""
    session: SessionFacts
    """To be opened."""
    marker: str | None = None
    """What stands in `facts` in place of the repetitions that A1 has stopped (MON-112); None: the cut is off."""
    stops: tuple[Stop, ...] = ()
    """Those behind the newest user message."""

    @property
    def moves(self) -> bool:
        """The directory sentence is moved, not only found."""
        return self.moved is not None and self.resolution.mode == "on" and not self.resolution.keeps_prompt

    @property
    def conversation(self) -> Conversation:
        """What is to be rendered; it lacks the date of the session's first request."""
        return self.moved.conversation if self.moved is not None and self.moves else self.facts.conversation


def prepare(kit: Kit, facts: Facts, documents: Documents, marker: str | None = None) -> Prepared:
    """Raises `PlanRefused` where headers name what there is not. With a `marker` the history cut acts (MON-112)."""
    resolution = resolve(documents, facts)
    marker = marker if resolution.mode == "on" else None
    stops: tuple[Stop, ...] = ()
    if marker is not None:
        messages, _ = cut_history(facts.messages, marker)
        facts = replace(facts, conversation=replace(facts.conversation, messages=messages))
        stops = stops_since_user(messages, marker)
    turn, side = _turn(facts, documents)
    digests, moved = Digests(), None
    if resolution.mode != "raw":
        digests = kit.digests.digests(facts.messages, has_tools=bool(facts.tools), images=facts.images)
        # Where no turn ends there is no note that could hold the sentence.
        moves = kit.client_cwd == "note" and bool(kit.turn_ends)
        moved = move_directory(facts.conversation) if moves else None
    session = _session(facts, resolution, turn, digests)
    return Prepared(facts, documents, resolution, turn, side, digests, moved, session, marker, stops)


def _turn(facts: Facts, documents: Documents) -> tuple[TurnKind, SideRequest | None]:
    """In the order of RTR-002; a first message after a compaction is told once the session is known."""
    messages, has_tools = facts.messages, bool(facts.tools)
    if facts.is_text:
        return "text", None
    if (side := find_side_request(messages, documents.router, has_tools=has_tools)) is not None:
        return "side", side
    if is_compaction(messages, facts.kind, has_tools=has_tools):
        return "compaction", None
    return kind_of_turn(messages), None


def _session(facts: Facts, resolution: Resolution, turn: TurnKind, digests: Digests) -> SessionFacts:
    key = session_key(facts.headers, facts.session_ids, facts.messages, facts.images)
    if resolution.mode == "raw":
        return SessionFacts(key=key, today=facts.today)
    users = user_messages(facts.messages)
    head = facts.messages[: users[0] + 1] if users else facts.messages
    return SessionFacts(
        key=key,
        today=facts.today,
        client=f"{facts.client}|{facts.kind}",
        purpose=turn if turn in ("side", "compaction") else "turn",
        starts=turn == "user" and len(users) == 1,
        first_turn=digests.before(users[1]) if len(users) > 1 else None,
        head_texts=tuple(map(text_of, head)),
    )
