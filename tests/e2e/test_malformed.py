"""Whatever comes over the wire, no 5xx, no broken connection and no HTML (cases O and P)."""

from __future__ import annotations

import copy
import itertools
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.process import Server
from tests.e2e.wire import CHAT, Connection, Reply, chat, health, post
from tests.e2e.wire import fake as scripted

PROBES = [
    ("GET", "/api/v1/models"), ("GET", "/api/tags"), ("GET", "/props"), ("GET", "/v1/props"), ("GET", "/version"),
    ("GET", "/.well-known/serviceinfo"), ("GET", "/slots"), ("GET", "/favicon.ico"), ("GET", "/v1"),
    ("POST", "/api/chat"), ("POST", "/api/generate"), ("POST", "/v1/embeddings"), ("POST", "/tokenize"),
    ("GET", "/robots.txt"), ("GET", "/nothing"), ("HEAD", "/nowhere"), ("HEAD", "/nothing"), ("OPTIONS", "/nothing"),
    ("DELETE", "/api/tags"), ("GET", "/v1/models/no/such/model"), ("GET", "/.env"), ("GET", "/v1/chat"),
    ("GET", "/%20"), ("GET", "/v2/models"),
]  # fmt: skip

CHAT_BODY: dict[str, Any] = {
    "model": "M",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "user", "content": "go on"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "tool_choice": "auto",
    "max_tokens": 4,
    "temperature": 0.5,
    "top_p": 0.9,
    "seed": 1,
    "stop": ["x"],
    "stream": False,
    "stream_options": {"include_usage": True},
    "logprobs": True,
    "top_logprobs": 1,
    "n": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "logit_bias": {"5": 1},
    "response_format": {"type": "text"},
    "reasoning_effort": "low",
    "chat_template_kwargs": {"enable_thinking": False},
}
VALUES: list[Any] = [
    True, -1, 0, 1.5, 10**30, -(2**63) - 1, "", "x", "\u0000", [], [None], [[]], {}, {"x": {"y": []}}, [{"type": 3}],
]  # fmt: skip
RAW: list[bytes] = [
    b"", b" ", b"{", b"}", b"[]", b"null", b"true", b"0", b'"text"', b"{}", b'{"messages"}', b'{"messages": }',
    b"\xff\xfe{\x00", b"\x00", b"\xef\xbb\xbf{}", b"{'messages': []}", b'{"messages": [}', b'{"a": NaN}',
    b'{"a": 1e999}', b'{"a": -Infinity}', b'{"messages": [], "messages": 1}', b"[" * 100_000, b'{"a":' * 20_000,
    b'{"a": ' + b"9" * 5000 + b"}", b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"\xff": 1}',
    b'{"a": "\xc3\x28"}', b'{"a": "\\u12"}', b"--boundary\r\n", b"messages=hi&model=x",
    json.dumps(CHAT_BODY).encode("utf-16"), json.dumps(CHAT_BODY).encode()[:-1],
]  # fmt: skip


def bodies() -> Iterator[bytes]:
    """Valid requests with something in them replaced, then what is not JSON at all."""
    for path in paths(CHAT_BODY):
        for value in VALUES:
            yield json.dumps(replaced(CHAT_BODY, path, value)).encode()
        yield json.dumps(replaced(CHAT_BODY, path, ..., remove=True)).encode()
    yield from RAW
    dice = random.Random(7)
    for size in range(60):
        yield dice.randbytes(size * 7)
    valid = json.dumps(CHAT_BODY).encode()
    for _ in range(60):
        broken = bytearray(valid)
        for _ in range(dice.randint(1, 5)):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        yield bytes(broken)


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths(value[key], (*at, key))


def replaced(body: Any, path: tuple[Any, ...], value: Any, *, remove: bool = False) -> Any:
    made = copy.deepcopy(body)
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    if remove:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return made


class Sender:
    """Sends one request after the other on one connection, on a new one where the server has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = Connection(port)

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Reply:
        reply = self._connection.ask(method, path, body, headers)
        if reply.headers.get("connection") == "close":
            self.close()
            self._connection = Connection(self._port)
        return reply

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def sender(fake: Server) -> Iterator[Sender]:
    made, before = Sender(fake.port), len(fake.log)
    yield made
    made.close()
    assert health(fake.port)["status"] == "ok"
    assert post(fake.port, chat({"say": "alive"})).text == "alive"
    assert "Traceback" not in fake.log[before:]


def assert_refusal(reply: Reply, what: object) -> None:
    """A refusal is OpenAI's error object with its status."""
    assert 400 <= reply.status < 500, (what, reply.status, reply.body[:300])
    assert reply.headers["content-type"] == "application/json", what
    error = reply.json["error"]
    assert set(error) >= {"message", "type", "param", "code", "status"}, what
    assert error["status"] == reply.status
    assert error["message"]


@pytest.mark.spec("API-004", "API-023", "API-024")
def test_no_body_is_a_server_error(sender: Sender) -> None:
    refused = served = 0
    for body in bodies():
        reply = sender.ask("POST", CHAT, body, {"Content-Type": "application/json"})
        if reply.status == 200:
            served += 1
        else:
            assert_refusal(reply, body[:300])
            refused += 1
    assert refused > 200
    assert served > 50


@pytest.mark.spec("API-004", "API-023")
def test_no_body_is_a_server_error_for_text_completions(sender: Sender) -> None:
    base: dict[str, Any] = {
        "prompt": "hi",
        "max_tokens": 2,
        "logprobs": 1,
        "stop": "x",
        "seed": 1,
        "best_of": 1,
        "echo": False,
    }
    for path, value in itertools.product(paths(base), VALUES):
        body = json.dumps(replaced(base, path, value)).encode()
        reply = sender.ask("POST", "/v1/completions", body)
        if reply.status != 200:
            assert_refusal(reply, body)
    for body in RAW:
        assert_refusal(sender.ask("POST", "/v1/completions", body), body[:300])


@pytest.mark.spec("API-004")
@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/json; charset=utf-16",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
        "x",
    ],
)
def test_the_content_type_does_not_matter(sender: Sender, kind: str) -> None:
    reply = sender.ask("POST", CHAT, json.dumps(chat({"say": "hi"})).encode(), {"Content-Type": kind})
    assert reply.text == "hi"


def test_odd_headers_change_nothing(sender: Sender) -> None:
    odd: list[dict[str, str]] = [
        {"Authorization": "Bearer"},
        {"Authorization": "Basic \xff\xfe"},
        {"Authorization": "Bearer " + "k" * 5000},
        {"User-Agent": "\xe4\xf6\xfc"},
        {"User-Agent": ""},
        {"Cookie": "=;=;;="},
        {"X-Forwarded-For": "not an address"},
        {"X-Tandem-Client": "\xff"},
        {"Accept": "text/html"},
        {"Accept-Encoding": "gzip"},
        {"Content-Encoding": "gzip"},
        {"Expect": "100-continue"},
        {"Range": "bytes=0-5"},
        {"If-None-Match": "*"},
        {"Connection": "Upgrade", "Upgrade": "websocket"},
        {"X-HTTP-Method-Override": "DELETE"},
    ]
    for headers in odd:
        reply = sender.ask("POST", CHAT, json.dumps(chat({"say": "hi"})).encode(), headers)
        assert (reply.status, reply.text) == (200, "hi"), headers
    assert sender.ask("POST", CHAT, b"{}", {"Expect": "something"}).status < 500


@pytest.mark.spec("API-005")
def test_wrong_methods_name_the_right_ones(sender: Sender) -> None:
    for path, right in ((CHAT, "POST"), ("/v1/completions", "POST"), ("/v1/models", "GET"), ("/health", "GET")):
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"):
            if method != right:
                reply = sender.ask(method, path, b"{}" if method == "POST" else b"")
                assert_refusal(reply, (method, path))
                assert reply.status == 405
                assert right in reply.headers["allow"].split(", ")


@pytest.mark.spec("API-005")
def test_odd_paths_are_not_found(sender: Sender) -> None:
    odd = [
        "/%00",
        "/%ff",
        "/%",
        "/../../etc/passwd",
        "/v1/%2e%2e/health",
        "/" + "x" * 30_000,
        "/v1/models/%ff",
        "/\\",
        "/dashboard/../../etc/passwd",
        "/dashboard/%2e%2e/routes/chat.py",
    ]
    for path in odd:
        reply = sender.ask("GET", path)
        assert_refusal(reply, path[:50])
        assert reply.status == 404, path[:50]
    for target in ("*", "http://127.0.0.1/nothing", "http://[/", "x", "?"):
        reply = sender.ask("OPTIONS", target)
        assert reply.status < 500, target


@pytest.mark.spec("API-005")
def test_two_dozen_probes_take_no_time(sender: Sender) -> None:
    start = time.monotonic()
    for method, path in PROBES:
        reply = sender.ask(method, path)
        assert reply.status == 404, (method, path)
        assert reply.headers["content-type"] == "application/json"
        if method != "HEAD":
            assert_refusal(reply, path)
    assert time.monotonic() - start < 0.04 * len(PROBES)


def test_what_is_not_http_ends_its_own_connection_only(sender: Sender, fake: Server) -> None:
    odd = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS client
        b"\x00" * 100,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]
    for data in odd:
        with Connection(fake.port, timeout_s=2) as client:
            client.send_raw(data)
            client.half_close()
            try:
                answer = client.socket.recv(1000)
            except ConnectionError:
                answer = b""
            assert b" 500 " not in answer[:14], (data, answer)


@pytest.mark.spec("API-262")
def test_a_lone_surrogate_is_replaced(sender: Sender) -> None:
    """P-02: raw bytes, since no JSON library would write them."""
    body = json.dumps(chat({"say": "fine"})).replace("@fake", "a\\ud83dz @fake").encode()
    first, second = (sender.ask("POST", CHAT, body) for _ in range(2))
    assert (first.status, first.text) == (200, "fine")
    assert first.json["usage"] == second.json["usage"]


@pytest.mark.spec("API-136")
@pytest.mark.parametrize(
    "text",
    ["a\x00b", "\ufeffa", "a\rb", "a\u2028b\u2029c", "a\nb\n\nc", "\x85\x0b\x0c", "data: [DONE]\n\n", "é한👩‍👩‍👧"],
)
def test_odd_text_survives_a_stream(sender: Sender, text: str) -> None:
    """P-04: in and out again, with the framing intact."""
    body = chat(text + scripted(say=[text, " end"]), stream=True)
    reply = sender.ask("POST", CHAT, json.dumps(body).encode())
    assert reply.text == text + " end"
    assert reply.is_done
    assert sender.ask("POST", CHAT, json.dumps(chat({"say": [text]})).encode()).text == text
