"""GET /openapi.json and GET /docs: what the server answers, for programs and for people (API-265).

Both are made when they are first asked for, in a worker thread, since it takes some 50 ms.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup
from quart import Blueprint, Response, request

import tandem
from tandem.http.context import context
from tandem.http.openai.docs_view import code, operations, shapes
from tandem.http.openai.openapi import CONTRACTS, document
from tandem.http.responses import json_response

__all__ = ["blueprint"]

blueprint = Blueprint("docs", __name__)

PACKAGE = Path(tandem.__file__).parent
POLICY = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The page loads nothing and runs nothing, whatever stands in it."""


@blueprint.get("/openapi.json")
async def openapi() -> Response:
    return json_response(await context().blocking.run("docs", _body))


@blueprint.get("/docs")
async def docs() -> Response:
    here = context()
    base = (here.settings.url or request.host_url).rstrip("/")
    page, policy = await here.blocking.run("docs", _page, base)
    headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}
    return Response(page, headers=headers, content_type="text/html; charset=utf-8")


@cache
def _document() -> dict[str, Any]:
    contracts = {
        name: msgspec.json.decode((PACKAGE / "contract" / file).read_bytes()) for name, file in CONTRACTS.items()
    }
    return document(version=tandem.__version__, contracts=contracts)


@cache
def _body() -> bytes:
    return msgspec.json.encode(_document())


@lru_cache(maxsize=8)
def _page(base: str) -> tuple[str, str]:
    """The page for a server at `base`, and its content security policy."""
    described = _document()
    named = shapes(described)
    style = (PACKAGE / "http/docs/page.css").read_text("utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PACKAGE / "http/docs"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = partial(code, names=frozenset(shape.name for shape in named))
    page = environment.get_template("page.html").render(
        info=described["info"],
        base=base,
        style=Markup(style),  # our own file, and the one thing that a browser reads unescaped
        operations=operations(described, base),
        shapes=named,
    )
    return page, POLICY.format(base64.b64encode(hashlib.sha256(style.encode()).digest()).decode())
