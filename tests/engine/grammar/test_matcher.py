"""Masks against brute force: what is allowed is what leads on to a member, over any vocabulary (ENG-084)."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.engine.errors import EngineError
from tandem.engine.fake import FakeText
from tandem.engine.fake.vocabulary import END_OF_TEXT, IM_END, SPECIALS
from tandem.engine.grammar.constraints import Choice, Document, JsonObject, JsonSchema, Regex
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.grammar.matcher import GuidedMatcher
from tandem.engine.text.model import TextModel
from tests.embedded import embedded_checkpoint
from tests.engine.grammar.vocabularies import allowed, listed

TEXTS = ("é", "è!", "no", "note", "日本", "")
NESTED = JsonSchema({"type": "array", "items": {"$ref": "#"}}, "schema")

MIXED = listed(
    *(bytes((byte,)) for byte in sorted({*"".join(TEXTS).encode()})),
    *("no", "ot", "te", "note", "notes", b"\xc3\xa9", b"\xa8!", b"!", b"\xe6\x97", b"\xa5\xe6\x9c", b"no", b""),
    markers=("<tool_call>", "note"),
)
"""Bytes, tokens that begin and end inside a character, one piece twice, and a marker that spells a member."""
LETTERS = listed("a", "b", "c", "d", "ab", "aba", "ca", "bb", "dd", "abd", "xd", "é")
BRACKETS = listed("[", "]", ",", "[[", "]]", "],", ",[", "[]", "],[", ",,", "{")


def matcher(text: TextModel, language: Document) -> GuidedMatcher:
    return Grammars(text).compile(language).matcher.copy()


def texts_begin(prefix: bytes) -> bool:
    return any(text.encode().startswith(prefix) for text in TEXTS)


def is_text(data: bytes) -> bool:
    return data in {text.encode() for text in TEXTS}


REGEX = r"(ab|ca{1,2})*d?"


def is_match(data: bytes) -> bool:
    return re.fullmatch(REGEX.encode(), data) is not None


def leads_to_match(prefix: bytes) -> bool:
    return any(is_match(prefix + bytes(end)) for n in range(3) for end in itertools.product(b"abcd", repeat=n))


def is_nested(data: bytes) -> bool:
    try:
        value = json.loads(data)
    except ValueError:
        return False

    def nests(value: object) -> bool:
        return isinstance(value, list) and all(map(nests, value))

    return nests(value)


def leads_to_nested(prefix: bytes) -> bool:
    return any(is_nested(prefix + more + b"]" * depth) for more in (b"", b"[]") for depth in range(12))


@pytest.mark.spec("ENG-084", "ENG-088", "API-127", "API-128")
@pytest.mark.parametrize(
    ("text", "language", "leads_on", "is_member", "depth"),
    [
        pytest.param(MIXED, Choice(TEXTS, "choice"), texts_begin, is_text, 6, id="choice"),
        pytest.param(LETTERS, Regex(REGEX, "regex"), leads_to_match, is_match, 4, id="regex"),
        pytest.param(BRACKETS, NESTED, leads_to_nested, is_nested, 4, id="recursion"),
    ],
)
def test_masks_are_exact(
    text: TextModel,
    language: Document,
    leads_on: Callable[[bytes], bool],
    is_member: Callable[[bytes], bool],
    depth: int,
) -> None:
    [end] = text.end_ids
    state = matcher(text, language)
    paths: list[tuple[int, ...]] = [()]
    visited = 0
    while paths:
        path = paths.pop()
        data = b"".join(map(text.piece, path))
        expected = {token for token in range(text.vocab_size) if (p := text.piece(token)) and leads_on(data + p)}
        expected |= {end} if is_member(data) else set()
        assert allowed(state.bits(path)) == expected, path
        assert {token for token in range(-1, text.vocab_size + 9) if state.allows(path, token)} == expected
        if len(path) < depth:
            paths += [(*path, token) for token in expected - {end}]
        visited += 1
    assert visited > 20


@pytest.mark.spec("ENG-084", "ENG-088")
def test_after_the_end_and_outside_the_language_nothing_is_allowed() -> None:
    [end] = MIXED.end_ids
    no, te = MIXED.encode("no")[0], MIXED.encode("te")[0]
    for path in [(end,), (no, end), (te,), (no, no), (-1,), (10**6,)]:
        state = matcher(MIXED, Choice(TEXTS, "choice"))
        for state_path, moved in ((path, state), ((), state.copy())):
            if not state_path:
                moved.commit(path)
            assert not any(moved.bits(state_path))
            assert not moved.allows(state_path, no)
            assert not moved.allows(state_path, end)
        assert not moved.accepting
        assert not moved.allows_bytes(b"n")
        assert moved.forced() == ()
        assert state.allows((), no), "a path leaves the committed text alone"


@pytest.mark.spec("ENG-084", "ENG-086")
@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(("bits", "allows", "commit", "copy", "forced", "accepting")), st.binary(max_size=4)),
        max_size=12,
    )
)
def test_an_answer_depends_on_committed_text_and_path_alone(steps: list[tuple[str, bytes]]) -> None:
    """Whatever was asked before: against a matcher that gets the whole text at once."""
    language = Regex("(ab|ca{1,2})*d?(é|è)?", "regex")
    grammars = Grammars(LETTERS)
    state, committed = grammars.compile(language).matcher.copy(), list[int]()
    for act, numbers in steps:
        path = [number % LETTERS.vocab_size for number in numbers]
        fresh = grammars.compile(language).matcher.copy()
        fresh.commit(committed)
        match act:
            case "bits":
                assert state.bits(path) == fresh.bits(path)
            case "allows":
                assert state.allows(path, 0) == fresh.allows(path, 0)
            case "commit" if path and all(state.allows(path[:at], token) for at, token in enumerate(path)):
                state.commit(path)
                committed += path
            case "copy":
                other = state.copy()
                other.commit(path)
                state.copy().commit(path)
            case "forced":
                assert state.forced() == fresh.forced()
            case _:
                assert state.accepting == fresh.accepting
    fresh = grammars.compile(language).matcher.copy()
    fresh.commit(committed)
    assert (state.bits(()), state.accepting) == (fresh.bits(()), fresh.accepting)


@pytest.mark.spec("ENG-085")
def test_copies_are_independent_and_share_no_place() -> None:
    a, b = LETTERS.encode("a")[0], LETTERS.encode("b")[0]
    first = matcher(LETTERS, Regex("aab|abb", "regex"))
    first.bits((a,))
    second = first.copy()
    first.commit((a, a))
    second.commit((a, b))
    assert allowed(first.bits(())) == {b}
    assert allowed(second.bits(())) == {b}
    first.commit((b,))
    assert first.accepting
    assert not second.accepting


@pytest.mark.spec("ENG-084", "API-127")
@pytest.mark.parametrize("text", [FakeText(), embedded_checkpoint().text], ids=["fake", "embedded"])
def test_only_whole_characters_can_be_written(text: TextModel) -> None:
    """The second byte of a character, after each first one that says how long it is."""
    seconds = {
        b"\xc3": range(0x80, 0xC0),
        b"\xe0": range(0xA0, 0xC0),
        b"\xed": range(0x80, 0xA0),
        b"\xf0": range(0x90, 0xC0),
        b"\xf4": range(0x80, 0x90),
    }
    for language in (JsonObject(), Regex(r"\{.*\}", "regex")):
        state = matcher(text, language)
        state.commit_bytes(b'{"k')
        assert not any(state.allows_bytes(bytes((byte,))) for byte in (*range(0x80, 0xC2), *range(0xF5, 0x100)))
        for first, expected in seconds.items():
            inside = state.copy()
            inside.commit_bytes(first)
            assert [byte for byte in range(256) if inside.allows_bytes(bytes((byte,)))] == [*expected]
            assert not inside.accepting


@pytest.mark.spec("ENG-084", "ENG-088")
def test_words_of_an_open_vocabulary_are_judged_by_their_bytes() -> None:
    text = FakeText()
    state = matcher(text, JsonSchema({"type": "object", "properties": {"word": {"enum": ["größer"]}}}, "schema"))
    ids = text.encode('{"word": "größer"}')
    assert max(ids) > 255
    for at, token in enumerate(ids):
        assert state.allows(ids[:at], token)
        assert not state.allows(ids[:at], IM_END)
        assert not any(state.allows(ids[:at], marker) for marker in SPECIALS.values())
        assert text.piece(token)[0] in allowed(state.bits(ids[:at]))
        assert allowed(state.bits(ids[:at])) <= set(range(256))
    assert not state.allows(ids[:6], text.encode("wort")[0])
    assert state.forced() == ()
    state.commit(ids)
    assert state.accepting
    assert allowed(state.bits(())) == {IM_END, END_OF_TEXT}


@pytest.mark.spec("ENG-084", "ENG-088")
def test_the_embedded_vocabulary_token_by_token() -> None:
    text = embedded_checkpoint().text
    state = matcher(text, JsonObject())
    ids = text.encode('{\n  "größe": [1.5e3, {"日本": null}, "🦙 <|im_end|>"]\n}')
    for at, token in enumerate(ids):
        mask = allowed(state.bits(ids[:at]))
        assert token in mask
        assert mask.isdisjoint(text.end_ids | set(text.markers.values()))
        for other in list(mask)[:: max(1, len(mask) // 40)]:
            twin = state.copy()
            twin.commit(ids[:at])
            assert twin.allows_bytes(text.piece(other))
            twin.commit((other,))
            assert any(twin.bits(()))
    assert set(text.end_ids) == allowed(state.bits(ids))


@pytest.mark.spec("ENG-084")
def test_forced_tokens_are_those_every_member_has() -> None:
    text = embedded_checkpoint().text
    state = matcher(text, Choice(("The quick brown fox", "The quick brown dog"), "choice"))
    mask = state.bits(())
    forced = state.forced()
    assert b"".join(map(text.piece, forced)) == b"The quick brown"
    assert state.bits(()) == mask
    for at, token in enumerate(forced):
        assert state.allows(forced[:at], token)
    state.commit(forced)
    assert state.forced() == ()


@pytest.mark.spec("ENG-084")
def test_bytes_before_the_first_whole_token_are_committed_without_a_token() -> None:
    state = matcher(MIXED, Choice(TEXTS, "choice"))
    assert state.allows_bytes(b"")
    state.commit_bytes(b"")
    assert state.allows_bytes(b"not")
    assert not state.allows_bytes(b"nota")
    state.commit_bytes(b"not")
    [e] = MIXED.encode("e")
    assert allowed(state.bits(())) == {e}
    state.commit((e,))
    assert state.accepting


@pytest.mark.spec("ENG-043")
def test_a_grammar_that_cannot_go_on_is_an_error_and_no_end() -> None:
    """The library's mask of a failed matcher is that of a finished one."""

    class Failed:
        def compute_bitmask(self) -> bytes:
            return b"\xff"

        def is_error(self) -> bool:
            return True

    state = matcher(LETTERS, Regex("a*", "regex"))
    state._inner = Failed()  # type: ignore[assignment]
    with pytest.raises(EngineError, match="too complex"):
        state.bits(())
