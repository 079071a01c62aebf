"""Session keys and what is remembered under them."""

from __future__ import annotations

import datetime

import pytest

from tandem.conductor.sessions import Sessions, session_key

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


@pytest.mark.spec("API-070")
def test_without_an_id_the_head_names_it() -> None:
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


def test_the_least_recently_used_go_first() -> None:
    sessions = Sessions(kept=2)
    later = DAY + datetime.timedelta(days=1)
    sessions.open("a", DAY)
    sessions.open("b", DAY)
    assert sessions.open("a", later).first_date == DAY
    sessions.open("c", later)
    assert sessions.open("a", later).first_date == DAY
    assert sessions.open("b", later).first_date == later
