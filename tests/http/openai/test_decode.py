from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.http.openai.decode import MAX_DEPTH, decode_body
from tandem.http.openai.errors import ApiError

BROKEN = [
    b"",
    b"{",
    b"{'a':1}",
    b'{"a":1}x',
    b'{"a":NaN}',
    b'{"a":Infinity}',
    b'{"a":-Infinity}',
    b'{"a":1e400}',
    b'{"a":1' + b"0" * 5000 + b"}",
    b'{"a":01}',
    b'{"a":"\x01"}',
    b'{"a":"\\ud83',
    b'{"a":"\\q"}',
    b'{"a":"\xed\xa0\xbd"}',
    b'{"\xff":1}',
    b"\xff\xfe{\x00}\x00",
    b"null",
    b"[1]",
    b'"a"',
    b"5",
]


@pytest.mark.spec("API-004")
@pytest.mark.parametrize("raw", BROKEN)
def test_what_is_not_a_json_object_is_a_400(raw: bytes) -> None:
    with pytest.raises(ApiError) as refusal:
        decode_body(raw)
    assert refusal.value.status == 400
    assert refusal.value.members()["type"] == "invalid_request_error"


@pytest.mark.spec("API-004")
@pytest.mark.parametrize("raw", [b'{"a":"\xed\xa0\xbd"}', b'{"a":"\xff"}', b"\xff\xfe{\x00}\x00"])
def test_bytes_that_are_not_utf8_are_named_as_such(raw: bytes) -> None:
    with pytest.raises(ApiError, match="UTF-8"):
        decode_body(raw)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_has_a_bound(opening: bytes, closing: bytes) -> None:
    def nested(depth: int) -> bytes:
        return b'{"a":' + opening * depth + b"1" + closing * depth + b"}"

    assert decode_body(nested(MAX_DEPTH - 1))
    for depth in (MAX_DEPTH, 900, 100_000):
        with pytest.raises(ApiError, match="nested"):
            decode_body(nested(depth))


def test_a_wide_body_is_not_deep() -> None:
    assert len(decode_body(b'{"a":[' + b"[]," * 5000 + b"[]]}")["a"]) == 5001


def test_a_key_sent_twice_has_its_last_value() -> None:
    assert decode_body(b'{"a":1,"a":2}') == {"a": 2}


def test_a_byte_order_mark_is_skipped() -> None:
    assert decode_body(b'\xef\xbb\xbf{"a":1}') == {"a": 1}


@pytest.mark.spec("API-262")
@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (rb"a\ud83dz", "a\ufffdz"),
        (rb"\udc00", "\ufffd"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\ud83d\ude00\ud83d", "\U0001f600\ufffd"),
        (rb"\\ud83d \ud83d", "\\ud83d \ufffd"),
        (rb"\\\ud83d", "\\\ufffd"),
        (rb"\uD83D\u0041", "\ufffdA"),
        (rb"\ude00\ud83d", "\ufffd\ufffd"),
        (rb"\ud83d\n", "\ufffd\n"),
    ],
)
def test_a_lone_surrogate_escape_is_replaced(escaped: bytes, text: str) -> None:
    assert decode_body(b'{"a":"%b"}' % escaped) == {"a": text}


@pytest.mark.spec("API-262")
@given(st.lists(st.sampled_from(["\ud83d", "\ude00", "\\", "u", "d83d", "\\ud83d", "a", '"', "\n"])).map("".join))
def test_every_text_of_a_json_library_is_read(text: str) -> None:
    raw = json.dumps({"a": text}).encode()
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert decode_body(raw)["a"] == re.sub("[\ud800-\udfff]", "\ufffd", whole)
