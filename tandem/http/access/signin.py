"""Dashboard sessions: the signed cookie, and the count of failed sign-ins (API-020, API-021)."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from itsdangerous import BadData, URLSafeSerializer
from werkzeug.sansio.http import parse_cookie  # the other one raises for what is no UTF-8

__all__ = ["COOKIE", "Failures", "Ticket", "Tickets"]

COOKIE = "tandem_session"
MAX_FAILURES = 5
WINDOW_S = 60.0
MAX_ADDRESSES = 1024


@dataclass(frozen=True, slots=True)
class Ticket:
    """A session: the value of its cookie, and when it ends in seconds since 1970."""

    cookie: str = field(repr=False)
    ends: int


class Tickets:
    """Makes and reads session cookies.

    They are signed with a key derived from the password, so a new password ends all sessions; nothing is stored. The
    end is part of what is signed: the clock stays with the caller, in seconds since 1970.
    """

    def __init__(self, password: str, lasts_s: float) -> None:
        self._lasts_s = lasts_s
        self._serializer = URLSafeSerializer(
            password.encode("utf-8", "surrogateescape"),
            salt="tandem.dashboard.session",
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )

    def issue(self, now: float) -> Ticket:
        """A new session."""
        ends = math.ceil(now + self._lasts_s)
        return Ticket(str(self._serializer.dumps({"ends": ends})), ends)

    def ends(self, cookies: str, now: float) -> int | None:
        """When the session in a `Cookie` header ends; None where there is none that still holds."""
        found = [self._read(value) for value in parse_cookie(cookies).getlist(COOKIE)]
        return max((end for end in found if end is not None and end > now), default=None)

    def _read(self, value: str) -> int | None:
        try:
            ticket = self._serializer.loads(value)
        except BadData:
            return None
        end = ticket.get("ends") if isinstance(ticket, dict) else None
        return end if isinstance(end, int) else None


class Failures:
    """Failed sign-ins by address: after five within a minute the address has to wait.

    Bounded: of more addresses than `MAX_ADDRESSES` the one that has failed least recently is forgotten.
    """

    def __init__(self) -> None:
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def note(self, address: str, now: float) -> None:
        """A sign-in from `address` has failed. `now` is in seconds on any clock that never goes back."""
        times = self._times.setdefault(address, deque(maxlen=MAX_FAILURES))
        times.append(now)
        self._times.move_to_end(address)
        if len(self._times) > MAX_ADDRESSES:
            self._times.popitem(last=False)

    def wait_s(self, address: str, now: float) -> int:
        """Whole seconds until `address` may try again; 0 at once."""
        times = self._times.get(address, ())
        recent = [at for at in times if now < at + WINDOW_S]
        return math.ceil(recent[0] + WINDOW_S - now) if len(recent) >= MAX_FAILURES else 0
