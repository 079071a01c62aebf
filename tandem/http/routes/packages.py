"""Packages as the dashboard shows them: catalog, one of them, their use, and the tokens of texts (API-238).

Nothing here is written or journaled. Without --conductor-config there is no conductor, and none of these routes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from quart import Blueprint, Response, request

from tandem.conductor.documents import Documents
from tandem.conductor.packages.catalog import Count, catalog, item
from tandem.http.actors import current_documents
from tandem.http.body import read_fields
from tandem.http.context import Context, context
from tandem.http.openai.errors import ApiError, invalid
from tandem.http.query import Parameters
from tandem.http.reading import read
from tandem.http.responses import data_response
from tandem.store.package_reads import usage_query

__all__ = ["blueprint"]

blueprint = Blueprint("packages", __name__)

BODY_BYTES = 32 * 1024 * 1024
"""20 texts of 200,000 characters, each of which JSON may write with six bytes and more."""
MOST_TEXTS, MOST_CHARS = 20, 200_000
MOST_ROWS, ROWS = 200, 20


@blueprint.get("/v1/conductor/packages/catalog")
async def whole_catalog() -> Response:
    here = context()
    documents = await current_documents()
    Parameters(request.args).end()
    found = await here.blocking.run("documents", catalog, documents, _count(here), documents.skills)
    return data_response({**_head(documents), "packages": [asdict(one) for one in found]})


@blueprint.get("/v1/conductor/packages/item/<name>")
async def one_package(name: str) -> Response:
    here = context()
    documents = await current_documents()
    Parameters(request.args).end()
    count = _count(here)
    found = await here.blocking.run("documents", item, documents, name, count, documents.skills)
    if found is None:
        raise ApiError(404, "there is no package of that name", param="name")
    texts = {part: getattr(found, part) for part in ("body", "reference", "inserted")}
    counted = await here.blocking.run("documents", _counted, texts, count)
    return data_response(
        {
            **_head(documents),
            "package": asdict(found.entry),
            "frontmatter": found.frontmatter,
            "fields": found.fields,
            **{part: {"text": text, "tokens": counted[part]} for part, text in texts.items()},
            "similar": [],  # of library skills, which there are not yet
        }
    )


@blueprint.get("/v1/conductor/packages/usage")
async def usage() -> Response:
    here = context()
    await current_documents()
    parameters = Parameters(request.args)
    name = parameters.text("name")
    limit = parameters.whole("limit", 1, MOST_ROWS) or ROWS
    parameters.end()
    report = await read(here, usage_query(int(here.wall.now().timestamp() * 1000), name, limit))
    answer: dict[str, Any] = {
        "packages": {package: asdict(counts) for package, counts in sorted(report.packages.items())},
        "library": {"retrievals": 0, "picks": 0},
        "retrievals": [],
    }
    if name is not None:
        answer["rows"] = [asdict(row) for row in report.rows]
    return data_response(answer)


@blueprint.post("/v1/conductor/packages/tokens")
async def tokens() -> Response:
    here = context()
    await current_documents()
    Parameters(request.args).end()
    with here.bodies.hold() as hold:
        texts = _texts(await read_fields(hold, BODY_BYTES, "texts"))
        counted = await here.blocking.run("documents", _each, texts, _count(here))
    return data_response({"counted": "engine", "tokens": counted})


def _head(documents: Documents) -> dict[str, Any]:
    return {"version": documents.versions["packages"], "counted": "engine"}


def _count(here: Context) -> Count:
    return partial(here.token_counts.count, encode=here.text.encode)


def _counted(texts: Mapping[str, str], count: Count) -> dict[str, int]:
    return {name: count(text) for name, text in texts.items()}


def _each(texts: list[str], count: Count) -> list[int]:
    return [count(text) for text in texts]


def _texts(body: Mapping[str, Any]) -> list[str]:
    texts = body.get("texts")
    if not isinstance(texts, list) or not 1 <= len(texts) <= MOST_TEXTS:
        raise invalid("texts", f"texts must be a list of 1 to {MOST_TEXTS} texts")
    for at, text in enumerate(texts):
        if not isinstance(text, str) or len(text) > MOST_CHARS:
            raise invalid(f"texts[{at}]", f"a text has at most {MOST_CHARS:,} characters")
    return texts
