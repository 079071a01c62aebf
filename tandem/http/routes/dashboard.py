"""GET /dashboard/…: the page's own files, public and without data (API-240, OBS-073).

What a client asks for is looked up among the files that were found there, and never opened as a path. Each is read
once. Every address in an answer is relative, so that the page works behind a proxy that puts a prefix before it.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from quart import Blueprint, Response, request

import tandem
from tandem.http.openai import errors

__all__ = ["blueprint"]

blueprint = Blueprint("dashboard", __name__)

FOLDER = Path(tandem.__file__).parent / "http/dashboard"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Other files are not served."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing but the page's own files runs, and nothing but this server is asked."""
HEADERS = {
    "Cache-Control": "no-cache",  # a browser asks each time, and gets a 304: files of two versions never mix for long
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class File:
    body: bytes
    packed: bytes
    """The same by gzip: a third of it, which a phone in a wireless network notices."""
    content_type: str
    etag: str


@blueprint.get("/")
async def root() -> Response:
    return _to_page()


@blueprint.get("/dashboard")
async def without_slash() -> Response:
    return _to_page()


@blueprint.get("/dashboard/")
async def page() -> Response:
    return _answer("index.html")


@blueprint.get("/dashboard/<path:name>")
async def file(name: str) -> Response:
    return _answer(name)


def _to_page() -> Response:
    """Relative to `/` and to `/dashboard` alike."""
    return Response(b"", status=302, headers={"Location": "dashboard/"})


def _answer(name: str) -> Response:
    path = _paths().get(name)
    if path is None:
        raise errors.not_found(request.path)
    found = _file(path)
    headers = {**HEADERS, "ETag": f'W/"{found.etag}"'}  # weak: packed or not, it is the same file
    if request.if_none_match.contains_weak(found.etag):
        return Response(b"", status=304, headers=headers)
    if not request.accept_encodings.quality("gzip"):
        return Response(found.body, headers=headers, content_type=found.content_type)
    return Response(found.packed, headers={**headers, "Content-Encoding": "gzip"}, content_type=found.content_type)


@cache
def _paths() -> dict[str, Path]:
    """The page's files by their path below the folder."""
    found = (path for path in FOLDER.rglob("*") if path.suffix in TYPES)
    return {path.relative_to(FOLDER).as_posix(): path for path in found}


@cache
def _file(path: Path) -> File:
    body = path.read_bytes()
    return File(body, gzip.compress(body, mtime=0), TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:16])
