"""The operations of the conductor's documents (API-233 to API-237)."""

from __future__ import annotations

from typing import Any

from tandem.http.openai.openapi_parts import ONLY, body, error_answer, in_path, json_answer, parameter, responses

__all__ = ["paths"]

VERSION = parameter("version", "An older version; the one in use if absent.", {"type": "integer", "minimum": 0})
WRITES = (400, 401, 403, 404, 408, 409, 413, 503)
DOCUMENTS = ["router", "roles", "packages", "settings", "monitor", "deciders", "residency"]
DOCUMENT = in_path("document", "The document.", {"type": "string", "enum": DOCUMENTS}, "router")
KIND = in_path("kind", "The kind of document.", {"type": "string", "enum": ["profiles", *DOCUMENTS]}, "router")
NAME_SHAPE = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}
PROFILE = in_path("name", "The profile's name.", NAME_SHAPE, "coding")


def paths() -> dict[str, Any]:
    """Its routes, with their methods."""
    return {
        "/v1/conductor/config": {"get": _config()},
        "/v1/conductor/schemas/{kind}": {"get": _schema()},
        **_of("", "/v1/conductor/{document}", DOCUMENT),
        **_of("-profile", "/v1/conductor/profiles/{name}", PROFILE),
        "/v1/conductor/memory/disk": {"get": _disk()},
        "/v1/conductor/memory/disk/clear": {"post": _clear()},
    }


def _of(suffix: str, path: str, name: dict[str, Any]) -> dict[str, Any]:
    delete = {"delete": _delete(name)} if suffix else {}
    return {
        path: {"get": _show(suffix, name), "put": _put(suffix, name), **delete},
        f"{path}/versions": {"get": _versions(suffix, name)},
        f"{path}/restore": {"post": _restore(suffix, name)},
    }


def _config() -> dict[str, Any]:
    return {
        "operationId": "conductor-config",
        "summary": "The conductor's documents",
        "description": f"Each with its version in use, and the file of it that cannot be served, if any. {ONLY}",
        "responses": responses(json_answer("The documents.", "ConductorConfig"), 400, 401, 404),
    }


def _schema() -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object", "required": ["$schema"]}}}
    return {
        "operationId": "conductor-schema",
        "summary": "A document's JSON Schema",
        "description": f"Its descriptions are the help texts of the dashboard's forms. {ONLY}",
        "parameters": [KIND],
        "responses": responses({"description": "The schema.", "content": content}, 400, 401, 404),
    }


def _show(suffix: str, name: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": f"conductor-document{suffix}",
        "summary": "One document",
        "description": f"The version in use, as it was stored. {ONLY}",
        "parameters": [name, VERSION],
        "responses": responses(json_answer("The version.", "ConductorDocument"), 400, 401, 404),
    }


def _versions(suffix: str, name: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": f"conductor-versions{suffix}",
        "summary": "A document's history",
        "description": f"Its versions, the newest first. {ONLY}",
        "parameters": [name],
        "responses": responses(json_answer("The versions.", "ConductorVersions"), 400, 401, 404),
    }


def _put(suffix: str, name: dict[str, Any]) -> dict[str, Any]:
    sent = body("DocumentSave", plain={"document": {"mode": "on"}, "note": "another effort"})
    return {
        "operationId": f"conductor-save{suffix}",
        "summary": "Save a document",
        "description": f"As a new version, which the next request uses. Takes the password where one is set. {ONLY}",
        "parameters": [name],
        "requestBody": sent,
        "responses": _written(json_answer("The version.", "ConductorDocument")),
    }


def _restore(suffix: str, name: dict[str, Any]) -> dict[str, Any]:
    sent = body("DocumentRestore", plain={"version": 1, "note": "back to the first"})
    return {
        "operationId": f"conductor-restore{suffix}",
        "summary": "Restore a version",
        "description": f"As a new version, which the next request uses. Takes the password where one is set. {ONLY}",
        "parameters": [name],
        "requestBody": sent,
        "responses": _written(json_answer("The version.", "ConductorDocument")),
    }


def _delete(name: dict[str, Any]) -> dict[str, Any]:
    answers = responses({}, 400, 401, 403, 404)
    del answers["200"]
    return {
        "operationId": "conductor-delete-profile",
        "summary": "No profile is ever deleted",
        "description": f"A 409 for a locked profile, a 405 for any other. {ONLY}",
        "parameters": [name],
        "responses": {
            **answers,
            "405": error_answer("No profile is deleted."),
            "409": error_answer("The profile is locked."),
        },
    }


def _disk() -> dict[str, Any]:
    return {
        "operationId": "conductor-disk",
        "summary": "The disk tier",
        "description": f"What it holds and may hold. Takes the password where one is set. {ONLY}",
        "responses": responses(json_answer("The disk tier.", "DiskTier"), 400, 401, 404),
    }


def _clear() -> dict[str, Any]:
    return {
        "operationId": "conductor-disk-clear",
        "summary": "Empty the disk tier",
        "description": f"Waits at most 30 s for the generation that runs. Takes the password where one is set. {ONLY}",
        "responses": responses(json_answer("What was given up.", "CachesCleared"), 400, 401, 403, 404, 503),
    }


def _written(success: dict[str, Any]) -> dict[str, Any]:
    answers = responses(success, *(status for status in WRITES if status != 409))
    return {**answers, "409": error_answer("Another version is in use by now, or the document is locked.")}
