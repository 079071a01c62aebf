"""/v1/dashboard/session: whether a password is asked for, sign in, sign out (API-020, API-021, API-242)."""

from __future__ import annotations

import logging

import msgspec
import trio
from quart import Blueprint, Response, request

from tandem.http.access.signin import COOKIE, Ticket
from tandem.http.body import read_body
from tandem.http.context import Context, context
from tandem.http.gate import asked
from tandem.http.openai import errors
from tandem.http.openai.checks import as_str
from tandem.http.openai.decode import decode_body
from tandem.http.responses import json_response

__all__ = ["blueprint"]

blueprint = Blueprint("session", __name__)

log = logging.getLogger(__name__)

PATH = "/v1/dashboard/session"


@blueprint.get(PATH)
async def state() -> Response:
    here = context()
    return _answer(here, here.access.session_ends(asked()))


@blueprint.post(PATH)
async def sign_in() -> Response:
    here = context()
    if not here.access.has_password:
        raise errors.no_password()
    ticket = _check(here, await _read_token(here))
    response = _answer(here, ticket.ends)
    lasts_s = int(here.settings.session_s)
    response.set_cookie(COOKIE, ticket.cookie, lasts_s, secure=_is_secure(), httponly=True, samesite="Strict")
    return response


@blueprint.delete(PATH)
async def sign_out() -> Response:
    response = _answer(context(), None)
    response.delete_cookie(COOKIE, secure=_is_secure(), httponly=True, samesite="Strict")
    return response


async def _read_token(here: Context) -> str:
    with here.bodies.hold() as hold:
        body = decode_body(await read_body(hold, here.settings.max_body_mb * 1024 * 1024))
    token = as_str(body.get("token"), "token")
    if token is None:
        raise errors.invalid("token", "token is missing: it is the password")
    return token


def _check(here: Context, token: str) -> Ticket:
    """Nothing is awaited between the look at earlier failures and the next one: sign-ins at a time count singly."""
    address, now = asked().peer or "", trio.current_time()
    if wait_s := here.failed_sign_ins.wait_s(address, now):
        raise errors.too_many_sign_ins(wait_s)
    ticket = here.access.sign_in(token, asked().now)
    if ticket is None:
        here.failed_sign_ins.note(address, now)
        log.warning("[access] a sign-in failed")
        raise errors.wrong_password()
    return ticket


def _is_secure() -> bool:
    """Over https, at the proxy at least. A client that lies about it restricts its own cookie alone."""
    forwarded = asked().headers.get("x-forwarded-proto", "").partition(",")[0]
    return request.scheme == "https" or forwarded.strip().lower() == "https"


def _answer(here: Context, session_ends: int | None) -> Response:
    """`session_ends` is in seconds since 1970."""
    body = {
        "password_set": here.access.has_password,
        "login": here.access.dashboard_login,
        "session_ends": session_ends,
    }
    return json_response(msgspec.json.encode(body), {"Cache-Control": "no-store"})
