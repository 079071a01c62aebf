"""Session keys and what is remembered under them."""

from __future__ import annotations

import datetime
import hashlib
from typing import Any

import pytest

from tandem.conductor.router.notes import LiveNote, NoteRun
from tandem.conductor.sessions import (
    Answered,
    BadSessions,
    SessionDelta,
    SessionFacts,
    Sessions,
    SessionView,
    dump_sessions,
    load_sessions,
    session_key,
    summary_hash,
)
from tandem.conductor.sessions.lineage import possible_summaries

USER = {"role": "user", "content": "hi"}
DAY = datetime.date(2026, 1, 2)


@pytest.mark.spec("API-070")
def test_the_first_id_there_is_names_the_session() -> None:
    headers = {"x-session-id": "a", "x-openwebui-chat-id": "b", "x-conversation-id": "c"}
    assert session_key(headers, ("d", "e"), [USER]) == "c:a"
    assert session_key({"x-openwebui-chat-id": "b", "x-conversation-id": "c"}, ("d", "e"), [USER]) == "c:b"
    assert session_key({"x-conversation-id": "c"}, ("d", "e"), [USER]) == "c:c"
    assert session_key({}, ("d", "e"), [USER]) == "c:d"
    assert session_key({"x-session-id": ""}, (None, "e"), [USER]) == "c:e"
    long, longer = ("e" * count for count in (256, 1_000_000))
    assert session_key({}, (long,), [USER]) == f"c:{long}"
    assert session_key({}, (longer,), [USER]) == session_key({}, (longer,), []) == f"c:{_sha(longer)}"


@pytest.mark.spec("API-070", "SES-002")
def test_without_an_id_the_head_names_it() -> None:
    hashed = _sha('[["user","hi"]]')[:16]
    assert session_key({}, (), [USER, {"role": "assistant", "content": "x"}]) == f"h:{hashed}"
    system = {"role": "system", "content": "Be brief."}
    first = session_key({}, (), [system, USER])
    assert first.startswith("h:")
    assert len(first) == 18
    assert session_key({}, (), [system, USER, {"role": "assistant", "content": "x"}, USER]) == first
    assert session_key({}, (), [USER]) != first
    assert session_key({}, (), [system, {"role": "user", "content": "ho"}]) != first
    assert session_key({}, (), [{"role": "user", "content": "\ud83d"}]).startswith("h:")


@pytest.mark.spec("API-070", "API-249")
def test_an_image_counts_as_what_its_url_is() -> None:
    seen = {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "index": 0}]}
    url, other = "https://a.example/1.png", "data:image/png;base64,\ud83d"
    first = session_key({}, (), [seen], [url])
    assert session_key({}, (), [seen, USER, seen], [url, other]) == first
    assert session_key({}, (), [seen], [other]) != first
    assert session_key({}, (), [USER]) != first
    earlier = {"role": "assistant", "content": [{"type": "image", "index": 0}]}
    moved = {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "index": 1}]}
    assert session_key({}, (), [earlier, moved], [url, other]) != session_key({}, (), [earlier, moved], [url, url])
    assert session_key({"x-session-id": "a"}, (), [seen], [url]) == "c:a"


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def opened(sessions: Sessions, key: str, today: datetime.date = DAY, **facts: Any) -> SessionView:
    return sessions.open(SessionFacts(key=key, today=today, **facts))


def turned(sessions: Sessions, key: str, **facts: Any) -> SessionView:
    """Opened, and it had a turn."""
    view = opened(sessions, key, **facts)
    sessions.commit(view, SessionDelta(turn=True, class_id=facts.get("first_turn") or "chat"))
    return view


@pytest.mark.spec("SES-007")
def test_the_least_recently_used_go_first() -> None:
    sessions = Sessions(kept=2)
    later = DAY + datetime.timedelta(days=1)
    opened(sessions, "c:a")
    opened(sessions, "h:b")
    assert opened(sessions, "c:a", later).first_date == DAY
    opened(sessions, "c:c", later)
    assert opened(sessions, "c:a", later).first_date == DAY
    assert opened(sessions, "h:b", later).first_date == later
    assert len(sessions) == 2


@pytest.mark.spec("SES-003", "SES-005")
def test_one_head_stands_for_several_conversations() -> None:
    sessions = Sessions()
    first = turned(sessions, "h:x", starts=True)
    assert (first.key, first.found) == ("h:x", "new")
    second = turned(sessions, "h:x", starts=True)
    assert (second.key, second.found) == ("h:x#2", "new")
    again = opened(sessions, "h:x", starts=True)
    assert again.key == "h:x#3"
    assert opened(sessions, "h:x", starts=True).key == "h:x#3", "it has had no turn"
    assert opened(sessions, "c:x", starts=True).found == "id"


@pytest.mark.spec("SES-004", "SES-005")
def test_a_later_turn_is_found_by_its_first() -> None:
    sessions = Sessions()
    for turn in ("one", "two"):
        view = turned(sessions, "h:x", starts=True)
        sessions.commit(view, SessionDelta(first_turn=turn))
    for key, turn in (("h:x", "one"), ("h:x#2", "two"), ("h:x", "one")):
        found = opened(sessions, "h:x", first_turn=turn)
        assert (found.key, found.found) == (key, "continued")
    tools = opened(sessions, "h:x")
    assert (tools.key, tools.found) == ("h:x#2", "continued"), "a tool round of the first turn"
    other = opened(sessions, "h:x", first_turn="edited")
    assert (other.key, other.found) == ("h:x#3", "new")
    assert opened(sessions, "h:x", first_turn="edited").key == "h:x#3"


@pytest.mark.spec("SES-005")
def test_without_generations_a_head_is_one_session() -> None:
    sessions = Sessions(generations=False)
    assert turned(sessions, "h:x", starts=True).found == "new"
    assert turned(sessions, "h:x", starts=True).found == "continued"
    assert opened(sessions, "h:x", first_turn="any").key == "h:x"


@pytest.mark.spec("SES-006")
def test_a_head_with_the_engines_summary_goes_on_with_the_old_session() -> None:
    sessions = Sessions()
    summary = "The user wants a game. " * 20
    old = turned(sessions, "h:old", starts=True, client="a")
    compacting = opened(sessions, "h:history", purpose="compaction", client="a")
    assert (compacting.key, compacting.found) == (old.key, "alias")
    sessions.commit(compacting, SessionDelta(compacted=True, summary=summary_hash(summary)))
    text = f"What was done so far:\n  {summary}\nGo on."
    head = ("Be brief.", text)
    assert opened(sessions, "h:new", starts=True, head_texts=head, client="b").key == "h:new"
    found = opened(sessions, "h:new", starts=True, head_texts=head, client="a")
    assert found.key == "h:old"
    assert found.found == "alias"
    assert found.compacted
    sessions.commit(found, SessionDelta(turn=True, first_turn="f"))
    assert opened(sessions, "h:new", first_turn="f").key == "h:old"
    assert summary_hash("short") is None


@pytest.mark.spec("SES-011", "SES-020")
def test_what_runs_beside_a_session_leaves_it_alone() -> None:
    sessions = Sessions()
    before = turned(sessions, "c:a")
    side = opened(sessions, "c:a", purpose="side")
    assert side.class_id == "chat"
    assert side.turns == before.turns + 1
    opened(sessions, "c:new", purpose="side")
    opened(sessions, "h:new", purpose="compaction")
    assert len(sessions) == 1
    assert [state.view.turns for state in sessions.states()] == [1]


@pytest.mark.spec("SES-020")
def test_deltas_apply_in_order_and_a_view_stays_as_it_was() -> None:
    sessions = Sessions()
    view = opened(sessions, "c:a")
    sessions.commit(view, SessionDelta(turn=True, class_id="chat", confidence=0.5))
    sessions.commit(view, SessionDelta(class_id="debug", answered=Answered("d", 0.0)))
    assert (view.turns, view.class_id) == (0, None)
    now = opened(sessions, "c:a")
    assert (now.turns, now.class_id, now.confidence) == (1, "debug", 0.5)
    for at in range(40):
        sessions.commit(view, SessionDelta(answered=Answered(str(at), float(at))))
    assert [each.digest for each in opened(sessions, "c:a").answered] == [str(at) for at in range(8, 40)]
    sessions.commit(view, SessionDelta(answered=Answered("late", 90_000.0)))
    assert opened(sessions, "c:a").answered == (Answered("late", 90_000.0),)
    sessions.commit(SessionView(key="c:forgotten", first_date=DAY), SessionDelta(turn=True))
    assert len(sessions) == 1


NOTE = LiveNote(1, "ab", (NoteRun("note", "\n\nThink."),), (("class", "effort", "cd"),), 3)


@pytest.mark.spec("NOTE-009", "SES-007")
def test_a_restart_keeps_what_the_next_turn_renders_with() -> None:
    sessions = Sessions()
    view = turned(sessions, "h:x", starts=True)
    delta = SessionDelta(first_turn="one", notes=(NOTE,), confidence=0.9, answered=Answered("d", 1.0))
    sessions.commit(view, delta)
    turned(sessions, "h:x", starts=True)
    opened(sessions, "c:never-had-a-turn")
    again = Sessions()
    again.restore(load_sessions(dump_sessions(sessions)))
    assert len(again) == 2
    found = opened(again, "h:x", DAY + datetime.timedelta(days=1), first_turn="one")
    assert found == opened(sessions, "h:x", first_turn="one")
    assert (found.first_date, found.notes) == (DAY, (NOTE,))
    assert opened(again, "h:x", starts=True).key == "h:x#3"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format":1}', b'{"format":2,"sessions":[]}', b"\xff", b"null"])
def test_a_broken_file_of_sessions_is_refused(data: bytes) -> None:
    with pytest.raises(BadSessions):
        list(load_sessions(data))


@pytest.mark.spec("SES-003", "NOTE-009")
def test_no_two_conversations_get_one_key_after_a_restart() -> None:
    sessions = Sessions()
    for turn in ("one", "two", "three"):
        sessions.commit(turned(sessions, "h:x", starts=True), SessionDelta(first_turn=turn))
    opened(sessions, "h:x", first_turn="two")  # so the newest is not the last that comes back
    again = Sessions()
    again.restore(load_sessions(dump_sessions(sessions)))
    assert opened(again, "h:x", starts=True).key == "h:x#4"


@pytest.mark.spec("NOTE-010", "SES-020")
def test_of_requests_that_were_planned_at_once_one_note_stands_at_a_place() -> None:
    sessions = Sessions()
    other = LiveNote(1, "ab", (NoteRun("note", "\n\nBuild it."),), (("class", "rule", "ef"),), 4)
    one, two = opened(sessions, "c:a"), opened(sessions, "c:a")
    sessions.commit(one, SessionDelta(turn=True, notes=(NOTE,)))
    sessions.commit(two, SessionDelta(turn=True, notes=(other,)))
    after = opened(sessions, "c:a")
    assert after.notes == (other,), "neither prompt had both"
    sessions.commit(after, SessionDelta(notes=(NOTE,)))
    assert opened(sessions, "c:a").notes == (other, NOTE), "this one had"


def test_a_head_of_white_space_holds_no_summary() -> None:
    text = " \n" * 500_000
    assert possible_summaries([text]) == frozenset()
    assert possible_summaries([text + "a" * 200]) == {summary_hash("a" * 200)}
