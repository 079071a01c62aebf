"""The conductor's documents over HTTP: read, saved as a new version, restored (API-233, API-234, API-235).

Without --conductor-config there is no conductor, and none of these routes (API-232).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from quart import Blueprint, Response, request

import tandem
from tandem.actors.documents import Config, DocumentsMessage, Put, Refusal, Restore, Show, Versions
from tandem.actors.kit import Ref
from tandem.conductor.documents import KINDS, DocumentKey
from tandem.conductor.documents.documents import PROFILES, split_key
from tandem.conductor.documents.roles import RoleContract, may_share
from tandem.conductor.documents.versions import Version
from tandem.http.actors import answer_of, current_documents, document_keeper
from tandem.http.body import read_fields
from tandem.http.context import context
from tandem.http.openai import errors
from tandem.http.openai.errors import ApiError, invalid
from tandem.http.query import Parameters
from tandem.http.responses import data_response, json_response

__all__ = ["blueprint"]

blueprint = Blueprint("documents", __name__)

SCHEMAS = Path(tandem.__file__).parent / "contract" / "conductor-v1"
BODY_BYTES = 8 * 1024 * 1024
"""More than any document has; a package's text has 200,000 characters at most."""
NOTE_CHARS = 500
LARGEST = 10**9
STATUS = {"invalid": 400, "conflict": 409, "locked": 409, "unknown": 404, "failed": 500}
ONE = f"<any({', '.join(kind for kind in KINDS if kind != PROFILES)}):kind>"


@blueprint.get("/v1/conductor/config")
async def config() -> Response:
    keeper = document_keeper()
    Parameters(request.args).end()
    found = await answer_of(keeper, Config)
    return data_response(
        {
            "documents": [
                {
                    "name": one.key,
                    "version": one.version,
                    "versions": one.versions,
                    "note": one.note,
                    "created": one.created or None,
                    "locked": one.locked,
                    "problem": one.problem,
                }
                for one in found
            ]
        }
    )


@blueprint.get(f"/v1/conductor/schemas/<any({', '.join(KINDS)}):kind>")
async def schema(kind: str) -> Response:
    """What the dashboard's forms are built from."""
    document_keeper()
    Parameters(request.args).end()
    return json_response(_schema(kind), {"Cache-Control": "no-store"})


@blueprint.get(f"/v1/conductor/{ONE}")
async def document(kind: str) -> Response:
    return await _shown(kind)


@blueprint.get("/v1/conductor/profiles/<name>")
async def profile(name: str) -> Response:
    return await _shown(f"{PROFILES}/{name}")


@blueprint.get(f"/v1/conductor/{ONE}/versions")
async def versions(kind: str) -> Response:
    return await _listed(kind)


@blueprint.get("/v1/conductor/profiles/<name>/versions")
async def profile_versions(name: str) -> Response:
    return await _listed(f"{PROFILES}/{name}")


@blueprint.put(f"/v1/conductor/{ONE}")
async def put_document(kind: str) -> Response:
    return await _stored(kind)


@blueprint.put("/v1/conductor/profiles/<name>")
async def put_profile(name: str) -> Response:
    return await _stored(f"{PROFILES}/{name}")


@blueprint.delete("/v1/conductor/profiles/<name>")
async def delete_profile(name: str) -> Response:
    """No profile is ever removed; a locked one says that it is locked (PRF-012)."""
    keeper = document_keeper()
    key = await _known(keeper, f"{PROFILES}/{name}")
    if any(one.key == key and one.locked for one in await answer_of(keeper, Config)):
        raise ApiError(409, f"{key} is locked")
    raise errors.method_not_allowed(["GET", "HEAD", "OPTIONS", "PUT"])


@blueprint.post(f"/v1/conductor/{ONE}/restore")
async def restore_document(kind: str) -> Response:
    return await _restored(kind)


@blueprint.post("/v1/conductor/profiles/<name>/restore")
async def restore_profile(name: str) -> Response:
    return await _restored(f"{PROFILES}/{name}")


async def _shown(path: str) -> Response:
    keeper = document_keeper()
    parameters = Parameters(request.args)
    number = parameters.whole("version", 0, LARGEST)
    parameters.end()
    key = await _known(keeper, path)
    found: Version | None = await answer_of(keeper, lambda reply: Show(key, number, reply))
    if found is None:
        raise ApiError(404, f"{key} has no version {number} that can be read", param="version")
    answer = _version(found)
    if key == "roles":
        answer["contracts"] = await _contracts()
    return data_response(answer)


async def _listed(path: str) -> Response:
    keeper = document_keeper()
    Parameters(request.args).end()
    key = await _known(keeper, path)
    found: Sequence[Version] = await answer_of(keeper, lambda reply: Versions(key, reply))
    return data_response({"versions": [_head(version) for version in reversed(found)]})


async def _stored(path: str) -> Response:
    keeper = document_keeper()
    key = _key(path)
    body = await _body("document", "note", "base_version")
    document = body.get("document")
    if not isinstance(document, dict):
        raise invalid("document", "document must be a JSON object")
    note, base = _note(body), _number(body, "base_version", 0)
    saved: Version | Refusal = await answer_of(keeper, lambda reply: Put(key, document, note, base, reply))
    return data_response(_version(_accepted(saved)))


async def _restored(path: str) -> Response:
    keeper = document_keeper()
    key = await _known(keeper, path)
    body = await _body("version", "note")
    note, number = _note(body), _number(body, "version", 1)
    if number is None:
        raise invalid("version", "version must name the version to restore")
    saved: Version | Refusal = await answer_of(keeper, lambda reply: Restore(key, number, note, reply))
    return data_response(_version(_accepted(saved)))


@cache
def _schema(kind: str) -> bytes:
    return (SCHEMAS / f"{kind}.schema.json").read_bytes()


def _key(path: str) -> DocumentKey:
    try:
        split_key(path)
    except KeyError:
        raise invalid("name", "a profile's name has letters, digits, dot, dash and underscore, at most 64") from None
    return path


async def _known(keeper: Ref[DocumentsMessage], path: str) -> DocumentKey:
    """The key of a document that exists; else a 404."""
    if not any(one.key == path for one in await answer_of(keeper, Config)):
        raise errors.not_found(request.path)
    return path


async def _body(*fields: str) -> dict[str, Any]:
    with context().bodies.hold() as hold:
        return await read_fields(hold, BODY_BYTES, *fields)


def _note(body: dict[str, Any]) -> str:
    note = body.get("note")
    if not isinstance(note, str) or not note.strip():
        raise invalid("note", "note must say why the document changes")
    if len(note) > NOTE_CHARS:
        raise invalid("note", f"note has more than {NOTE_CHARS} characters")
    return note.strip()


def _number(body: dict[str, Any], name: str, low: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= LARGEST:
        raise invalid(name, f"{name} must be an integer from {low} on")
    return value


def _accepted(saved: Version | Refusal) -> Version:
    if isinstance(saved, Refusal):
        raise ApiError(STATUS[saved.code], saved.message, param=saved.path or None)
    return saved


def _head(version: Version) -> dict[str, Any]:
    return {
        "version": version.version,
        "note": version.note,
        "created": version.created or None,
        "restored_from": version.restored_from,
    }


def _version(version: Version) -> dict[str, Any]:
    return {"document": version.body, **_head(version)}


async def _contracts() -> list[dict[str, Any]]:
    """Each role as it is read, with what it may share and which fields were filled in (ROL-005, ROL-006)."""
    documents = await current_documents()
    tokenizer = context().card.tokenizer_sha256
    return [_contract(role, tokenizer) for role in documents.contracts.values()]


def _contract(role: RoleContract, tokenizer: str) -> dict[str, Any]:
    found = {name: getattr(role, name) for name in role.__slots__}
    return {**found, "may_share": may_share(role, tokenizer)}
