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
from tandem.conductor.sessions.lineage import holds_summary
from tandem.conductor.sessions.view import Found, SessionDelta, SessionFacts, SessionView

__all__ = ["SessionState", "Sessions"]

KEPT = 1_000
"""Sessions remembered; the least recently used go first (SES-007)."""
_ID: Found = "id"


@dataclass(slots=True)
class SessionState:
    """One session, its view and what finds it again."""

    view: SessionView
    client: str = "anon"
    heads: dict[str, str | None] = field(default_factory=dict)
    """The digest of its complete first turn by the heads under which it was sent; None while that is unknown."""
    summary: str | None = None


class Sessions:
    """The newest sessions by key."""

    def __init__(self, kept: int = KEPT, *, generations: bool = True) -> None:
        """Without `generations` there is one session per head (SES-005)."""
        self._kept = kept
        self._generations = generations
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
        state.client = facts.client
        if head is not None:
            self._name(state, head, facts.first_turn)
        self._states.move_to_end(key)
        self._forget_oldest()
        return replace(state.view, found=found, head=head)

    def commit(self, view: SessionView, delta: SessionDelta) -> None:
        """Apply `delta` to the session that `view` was opened of; one that was forgotten meanwhile stays so."""
        state = self._states.get(view.key)
        if state is None:
            return
        if delta.first_turn is not None and view.head is not None:
            state.heads[view.head] = delta.first_turn
        state.summary = delta.summary or state.summary
        state.view = changed(state.view, delta)

    def states(self) -> Iterator[SessionState]:
        """Every session, the least recently used first."""
        yield from self._states.values()

    def restore(self, states: Iterator[SessionState]) -> None:
        """Take over what was kept over a restart, the least recently used first."""
        for state in states:
            self._states[state.view.key] = state
            for head in state.heads:
                self._heads.setdefault(head, []).append(state.view.key)
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

    def _alias(self, facts: SessionFacts) -> str | None:
        """The session whose summary the head holds (SES-006)."""
        for key, state in reversed(self._states.items()):
            if state.summary and state.client == facts.client and holds_summary(facts.head_texts, state.summary):
                return key
        return None

    def _next_key(self, keys: list[str], head: str) -> str:
        if not keys:
            return head
        numbers = [int(number) for key in keys if (number := key.rpartition("#")[2]).isdigit()]
        return f"{head}#{max(numbers, default=1) + 1}"

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
