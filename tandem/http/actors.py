"""What routes ask of actors: an answer, or a 500; and the conductor's documents, which only a conductor has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from quart import request

from tandem.actors.documents import Current, DocumentsMessage
from tandem.actors.kit import ActorGone, Ref, Reply
from tandem.conductor.documents import Documents
from tandem.http.context import context
from tandem.http.openai import errors

__all__ = ["answer_of", "current_documents", "document_keeper"]

T = TypeVar("T")


async def answer_of(actor: Ref[Any], question: Callable[[Reply[T]], Any]) -> T:
    """Raises `ApiError` 500 where the actor has ended."""
    try:
        return await actor.ask(question)
    except ActorGone:
        raise errors.internal() from None


def document_keeper() -> Ref[DocumentsMessage]:
    """The actor that keeps the documents. Raises `ApiError` 404 where there is none: without --conductor-config."""
    keeper = context().documents
    if keeper is None:
        raise errors.no_conductor(request.path)
    return keeper


async def current_documents() -> Documents:
    """Those in use. Raises `ApiError` as the two above."""
    return await answer_of(document_keeper(), Current)
