"""Whatever is written into a document: it is taken, or refused with the path of a key."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.conductor.documents import DocumentError, parse, shipped_documents
from tandem.conductor.documents.checks import check_saved
from tandem.conductor.documents.documents import split_key
from tests.conductor.documents.samples import documents, shipped

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**6)
    | st.floats(-2, 2)
    | st.sampled_from(["", "on", "chat", "é.[0]"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "a.b", "[0]", "chat", ""]), inner)
    ),
    max_leaves=4,
)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value of a document."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [above, *(place for key, part in inner for place in places(part, (*above, key)))]


def refusal(key: str, body: Any) -> DocumentError | None:
    try:
        check_saved(key, parse(split_key(key)[0], body), documents())
    except DocumentError as error:
        return error
    return None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_changed_document_is_taken_or_refused_by_a_key(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(shipped_documents())))
    body: Any = shipped(key)
    place = data.draw(st.sampled_from(places(body)))
    value = data.draw(VALUES)
    if not place:
        body = value
    else:
        holder = body
        for step in place[:-1]:
            holder = holder[step]
        names = [place[-1], "nonsense", "a.b[0]"] if isinstance(holder, dict) else [place[-1]]
        holder[data.draw(st.sampled_from(names))] = value
    refused = refusal(key, body)
    if refused is None:
        taken = parse(split_key(key)[0], body)
        assert parse(split_key(key)[0], msgspec.to_builtins(taken)) == taken
    else:
        assert refused.message
        assert "..." not in refused.path
