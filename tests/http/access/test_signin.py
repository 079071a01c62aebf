"""Session cookies and the count of failed sign-ins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.http.access.signin import COOKIE, MAX_ADDRESSES, Failures, Tickets
from tests.http.access.asking import NOW, PASSWORD


@pytest.mark.spec("API-021", "OBS-077")
def test_a_session_lasts_as_long_as_it_should() -> None:
    tickets = Tickets(PASSWORD, 100.0)
    ticket = tickets.issue(NOW)
    assert ticket.ends == NOW + 100
    cookies = f"{COOKIE}={ticket.cookie}"
    assert tickets.ends(cookies, NOW) == tickets.ends(f"x=y; {cookies}; z", NOW + 99) == ticket.ends
    assert tickets.ends(cookies, NOW + 100) is None
    assert ticket.cookie not in repr(ticket)


@pytest.mark.spec("API-021")
def test_a_new_password_ends_all_sessions() -> None:
    cookies = f"{COOKIE}={Tickets(PASSWORD, 100.0).issue(NOW).cookie}"
    assert Tickets(PASSWORD, 5.0).ends(cookies, NOW) is not None
    assert Tickets(PASSWORD + "x", 100.0).ends(cookies, NOW) is None


def test_a_cookie_of_another_service_on_the_host_is_passed_over() -> None:
    tickets = Tickets(PASSWORD, 100.0)
    good, other = tickets.issue(NOW), Tickets("another password, of another one", 100.0).issue(NOW)
    assert tickets.ends(f"{COOKIE}={other.cookie}; {COOKIE}={good.cookie}", NOW) == good.ends
    assert tickets.ends(f"{COOKIE}={good.cookie}; {COOKIE}={other.cookie}", NOW) == good.ends


@pytest.mark.spec("API-021")
@given(st.text() | st.text('=;., "\\abc'), st.integers(0, 200))
def test_no_other_text_is_a_session(text: str, at: int) -> None:
    tickets = Tickets(PASSWORD, 100.0)
    cookie = tickets.issue(NOW).cookie
    assert tickets.ends(text, NOW) is None
    assert tickets.ends(f"{COOKIE}={text}", NOW) is None
    place = at % len(cookie)
    changed = cookie[:place] + ("A" if cookie[place] != "A" else "B") + cookie[place + 1 :]
    # The last character of a base64 text holds spare bits.
    assert place == len(cookie) - 1 or tickets.ends(f"{COOKIE}={changed}", NOW) is None


@pytest.mark.spec("API-020")
def test_five_failures_in_a_minute_close_an_address() -> None:
    failures = Failures()
    for at in (0.0, 10.0, 20.0, 30.0):
        failures.note("a", at)
        assert failures.wait_s("a", at) == 0
    failures.note("a", 40.0)
    assert [failures.wait_s("a", at) for at in (40.0, 50.5, 59.9, 60.0)] == [20, 10, 1, 0]
    assert failures.wait_s("b", 40.0) == 0
    failures.note("a", 60.0)
    assert failures.wait_s("a", 60.0) == 10


def test_failures_are_bounded() -> None:
    failures = Failures()
    for number in range(MAX_ADDRESSES + 10):
        for _ in range(6):
            failures.note(str(number), 0.0)
    assert len(failures._times) == MAX_ADDRESSES
    assert failures.wait_s("0", 0.0) == 0
    assert failures.wait_s(str(MAX_ADDRESSES), 0.0) == 60
