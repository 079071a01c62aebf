"""`Sessions`: the one object that knows every session, for router and monitor alike (SES-003 to SES-007, SES-020).

It is the named exception to one owner per state: more than one actor uses it, so no call awaits, `open` gives a frozen
view and `commit` applies deltas in order.

A conversation without an id is found by its head, and one head can stand for several conversations: `h:<hash>`, and
`#2` and on for those that began with the same words. A later turn belongs to the one whose complete first turn it has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tandem.conductor.sessions.changes import changed
from tandem.conductor.sessions.keys import HEAD_PREFIX
from tandem.conductor.sessions.lineage import possible_summaries
from tandem.conductor.sessions.view import Answered, Found, SessionDelta, SessionFacts, SessionView

__all__ = ["SessionState", "Sessions"]

KEPT = 1_000
"""Sessions remembered; the least recently used go first (SES-007)."""
ASKED_BEFORE = 8
"""Conversations of one head that are looked at for a first turn that is asked for again."""
_ID: Found = "id"


@dataclass(slots=True)
class SessionState:
    """One session, its view and what finds it again."""

    view: SessionView
    client: str = ""
    heads: dict[str, str | None] = field(default_factory=dict)
    """The digest of its complete first turn by the heads under which it was sent; None while that is unknown."""
    summary: str | None = None


class Sessions:
    """The newest sessions by key."""

    def __init__(self, kept: int = KEPT, *, generations: bool = True) -> None:
        """Without `generations` there is one session per head (SES-005)."""
        self._kept = kept
        self._generations = generations
        self.commits = 0
        """How often a session has changed: whoever keeps them looks at it."""
        self._states: OrderedDict[str, SessionState] = OrderedDict()
        self._heads: dict[str, list[str]] = {}
        """Keys of the conversations that begin with a head, oldest first."""

    def __len__(self) -> int:
        return len(self._states)

    def open(self, facts: SessionFacts) -> SessionView:
        """The session of a request. A turn begins one where there is none; nothing else does."""
        if facts.purpose != "turn":
            return self._beside(facts)
        head = facts.key if facts.key.startswith(HEAD_PREFIX) else None
        key, found = self._by_head(facts) if head is not None else (facts.key, _ID)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = SessionState(SessionView(key=key, first_date=facts.today))
        state.client = facts.client or state.client
        if head is not None:
            self._name(state, head, facts.first_turn)
        self._states.move_to_end(key)
        self._forget_oldest()
        before = self._asked_before(facts, key) if found == "new" else ()
        return replace(state.view, found=found, head=head, asked_before=before)

    def commit(self, view: SessionView, delta: SessionDelta) -> None:
        """Apply `delta` to the session that `view` was opened of; one that was forgotten meanwhile stays so."""
        state = self._states.get(view.key)
        if state is None:
            return
        self.commits += 1
        if delta.first_turn is not None and view.head is not None:
            state.heads[view.head] = delta.first_turn
        state.summary = delta.summary or state.summary
        state.view = changed(state.view, delta, view)

    def states(self) -> Iterator[SessionState]:
        """Every session, the least recently used first."""
        yield from self._states.values()

    def restore(self, states: Iterator[SessionState]) -> None:
        """Take over what was kept over a restart, the least recently used first."""
        for state in states:
            key = state.view.key
            if key in self._states:
                continue
            self._states[key] = state
            for head in state.heads:
                self._heads.setdefault(head, []).append(key)
        self._forget_oldest()

    def _beside(self, facts: SessionFacts) -> SessionView:
        """The session that a side request runs beside, or that a compaction compacts; one of its own, kept nowhere,
        where there is none.
        """
        state = self._states.get(facts.key)
        if facts.purpose == "compaction" and facts.key.startswith(HEAD_PREFIX):
            # It has neither id nor head of the conversation: that is the sender's newest.
            mine = (each for each in reversed(self._states.values()) if each.client == facts.client and each.view.turns)
            state = next(mine, None)
        if state is None:
            return SessionView(key=facts.key, first_date=facts.today)
        return replace(state.view, found="id" if facts.key == state.view.key else "alias")

    def _by_head(self, facts: SessionFacts) -> tuple[str, Found]:
        head = facts.key
        keys = self._heads.get(head, [])
        if not self._generations:
            return head, "continued" if keys else "new"
        if facts.first_turn is not None:
            for key in reversed(keys):
                if self._states[key].heads[head] == facts.first_turn:
                    return key, "continued"
        elif keys and not facts.starts:
            return keys[-1], "continued"
        if (aliased := self._alias(facts)) is not None:
            return aliased, "alias"
        if facts.first_turn is None and keys and not self._states[keys[-1]].view.turns:
            return keys[-1], "new"
        return self._next_key(keys, head), "new"

    def _asked_before(self, facts: SessionFacts, key: str) -> tuple[Answered, ...]:
        """The turns of the sender's other conversations of this head: of a first turn that is asked for again without
        an id nothing else tells (SMP-001).
        """
        keys = [each for each in self._heads.get(facts.key, ())[-ASKED_BEFORE:] if each != key]
        others = (self._states[each] for each in keys)
        return tuple(turn for state in others if state.client == facts.client for turn in state.view.answered)

    def _alias(self, facts: SessionFacts) -> str | None:
        """The session whose summary the head holds (SES-006)."""
        mine = [key for key, each in self._states.items() if each.summary and each.client == facts.client]
        if not mine:
            return None
        held = possible_summaries(facts.head_texts)
        return next((key for key in reversed(mine) if self._states[key].summary in held), None)

    def _next_key(self, keys: list[str], head: str) -> str:
        if not keys:
            return head
        # In any order, since a restart brings back the least recently used first. An alias is another head's key.
        suffixes = (key.removeprefix(head).removeprefix("#") for key in keys)
        return f"{head}#{max((int(suffix) for suffix in suffixes if suffix.isdigit()), default=1) + 1}"

    def _name(self, state: SessionState, head: str, first_turn: str | None) -> None:
        keys = self._heads.setdefault(head, [])
        if state.view.key not in keys:
            keys.append(state.view.key)
        state.heads[head] = first_turn or state.heads.get(head)

    def _forget_oldest(self) -> None:
        while len(self._states) > self._kept:
            key, state = self._states.popitem(last=False)
            for head in state.heads:
                self._heads[head].remove(key)
                if not self._heads[head]:
                    del self._heads[head]
