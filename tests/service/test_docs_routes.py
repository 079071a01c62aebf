"""GET /openapi.json and GET /docs, and that the service keeps to what they say."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest
import trio.testing

from tandem.engine.fake import FakeEngine
from tandem.http.app import create_app
from tandem.http.openai.field_table import CHAT, COMPLETIONS
from tandem.secrets import Secrets
from tests.http.openai.documents import check, described, validator
from tests.http.openai.samples import tool
from tests.service.harness import Call, chat, fake, open_harness

CHAT_PATH = "/v1/chat/completions"
TEXT_PATH = "/v1/completions"
SESSION = "/v1/dashboard/session"
PASSWORD = "a password of thirty-two characters"
SECRETS = Secrets(admin_token=PASSWORD, api_key="sk-key")


def shapes_of(content: Mapping[str, Any]) -> list[str]:
    options = content["schema"].get("anyOf", [content["schema"]])
    return [option["$ref"].rpartition("/")[2] for option in options if "$ref" in option]


def keeps(call: Call, path: str, method: str) -> Mapping[str, Any]:
    """Checks status, headers, media type and body of a response against the document; gives what it says of it."""
    responses = described()["paths"][path][method]["responses"]
    assert str(call.status) in responses, (call.status, call.body)
    response: Mapping[str, Any] = responses[str(call.status)]
    kind = call.headers["content-type"].partition(";")[0]
    assert kind in response["content"]
    shapes = shapes_of(response["content"][kind])
    if kind == "text/event-stream":
        keeps_events(call, *shapes)
    elif shapes:
        assert sum(validator(shape).is_valid(call.json) for shape in shapes) == 1, call.json
    return response


def keeps_events(call: Call, event_shape: str) -> None:
    event = described()["components"]["schemas"][event_shape]
    chunk_shape = event["properties"]["data"]["anyOf"][1]["contentSchema"]["$ref"].rpartition("/")[2]
    events = [block for block in call.body.decode().split("\n\n") if block and not block.startswith(":")]
    assert events[-1] == "data: [DONE]"
    for block in events:
        data = block.removeprefix("data: ")
        check({"data": data}, event_shape)
        if data != "[DONE]":
            check(json.loads(data), chunk_shape)


@pytest.mark.spec("API-265")
async def test_the_document_names_every_route(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        rules = create_app(harness.service.context).url_map.iter_rules()
        routes = {
            (re.sub(r"<[^>]*>", "{}", rule.rule), method.lower())
            for rule in rules
            for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        }
    document = described()
    assert routes == {
        (re.sub(r"{[^}]*}", "{}", path), method) for path, methods in document["paths"].items() for method in methods
    }


@pytest.mark.spec("API-265")
async def test_openapi_json(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send("/openapi.json")
        keeps(call, "/openapi.json", "get")
        assert call.json == described()


class Loads(HTMLParser):
    """What a page would load or run."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, Any]] = []
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "href" and tag == "a":
                self.links.add(value or "")
            elif name == "id":
                assert value not in self.ids
                self.ids.add(value or "")
            elif name in ("src", "href", "srcset", "action", "data", "style") or name.startswith("on"):
                self.found.append((tag, name))
        if tag in ("script", "link", "iframe", "object", "embed", "img", "form", "base"):
            self.found.append((tag, None))


@pytest.mark.spec("API-265")
async def test_docs_show_the_document_and_load_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        call = await harness.client.send("/docs", headers={"host": "localhost:8000"})
    keeps(call, "/docs", "get")
    page = call.body.decode()
    loads = Loads(page)
    assert loads.found == []
    assert {link for link in loads.links if not link.startswith("#")} == {"/openapi.json"}
    assert {link[1:] for link in loads.links if link.startswith("#")} <= loads.ids
    document = described()
    for name in [*document["paths"], *(row.name for row in (*CHAT, *COMPLETIONS))]:
        assert f"<code>{name}</code>" in page
    requests = {"ChatRequest", "ClearRequest", "CompletionRequest", "DocumentRestore", "DocumentSave", "SignIn"}
    requests |= {"PlanTest", "TokensAsked"}
    assert document["components"]["schemas"].keys() - loads.ids == requests
    assert "curl -s http://localhost:8000/v1/chat/completions" in page
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = call.headers["content-security-policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")


async def test_docs_name_the_address_that_is_set(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(url="https://box.example/'<script>/") as harness:
        page = (await harness.client.send("/docs")).body.decode()
    assert "<script>" not in page
    assert "<code>https://box.example/&#39;&lt;script&gt;/v1</code>" in page


TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
CALL = "<tool_call>\n<function=ls>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>"
THOUGHT = "<think>\nwell\n</think>\n\nyes"
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    (CHAT_PATH, chat({"say": "Hello there"})),
    (CHAT_PATH, chat({"say": "Hello there"}, n=2, logprobs=True, top_logprobs=3)),
    (CHAT_PATH, chat({"say": "a b c d", "eos": False}, max_tokens=2)),
    (CHAT_PATH, {"messages": TALK}),
    (CHAT_PATH, chat({"say": THOUGHT})),
    (CHAT_PATH, chat({"say": THOUGHT}, reasoning_format="reasoning_content")),
    (CHAT_PATH, chat({"say": CALL}, tools=[tool()])),
    (CHAT_PATH, chat({"say": f"First: {CALL}"}, tools=[tool()], parallel_tool_calls=False)),
    (CHAT_PATH, chat({"say": '{"a": 1}'}, response_format={"type": "json_object"})),
    (CHAT_PATH, chat({"say": "a b", "fail_at": 1})),
    (TEXT_PATH, {"prompt": fake(say="a b")}),
    (TEXT_PATH, {"prompt": fake(say="a b c"), "logprobs": 3, "n": 2, "best_of": 2}),
    (TEXT_PATH, {"prompt": fake(say="a b", fail_at=1)}),
    (TEXT_PATH, {"prompt": [1, 2, 3], "max_tokens": 2}),
]
REFUSED: list[tuple[str, Any]] = [
    (CHAT_PATH, {}),
    (CHAT_PATH, []),
    (CHAT_PATH, chat("hi", temperature=5)),
    (CHAT_PATH, chat("hi " * 1000)),
    (TEXT_PATH, {"prompt": ["a", "b"]}),
    (TEXT_PATH, {"prompt": "a", "echo": True}),
]


@pytest.mark.spec("API-043", "API-044", "API-048", "API-154", "API-160", "API-265")
@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_bodies_keep_to_the_document(
    autojump_clock: trio.testing.MockClock, path: str, body: dict[str, Any]
) -> None:
    check(body, "ChatRequest" if path == CHAT_PATH else "CompletionRequest")
    async with open_harness() as harness:
        call = await harness.client.send(path, body)
        assert call.status == (500 if "fail_at" in json.dumps(body) else 200), call.body
        response = keeps(call, path, "post")
        assert {name.lower() for name in response["headers"]} <= call.headers.keys()


@pytest.mark.spec("API-136", "API-137", "API-140", "API-145", "API-265")
@pytest.mark.parametrize("options", [None, {"include_usage": True}, {"include_usage": False}])
@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_streams_keep_to_the_document(
    autojump_clock: trio.testing.MockClock, path: str, body: dict[str, Any], options: Any
) -> None:
    body = {name: value for name, value in body.items() if name not in ("n", "best_of")}
    async with open_harness() as harness:
        call = await harness.client.send(path, {**body, "stream": True, "stream_options": options})
        assert call.status == 200
        keeps(call, path, "post")
        assert len(call.chunks) > 1


@pytest.mark.spec("API-023", "API-265")
@pytest.mark.parametrize(("path", "body"), REFUSED)
async def test_refusals_keep_to_the_document(autojump_clock: trio.testing.MockClock, path: str, body: Any) -> None:
    async with open_harness(engine=FakeEngine(max_len=512)) as harness:
        call = await harness.client.send(path, body)
        assert call.status == 400
        keeps(call, path, "post")


@pytest.mark.spec("API-049", "API-050", "API-053", "API-265")
async def test_the_other_routes_keep_to_the_document(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        send = harness.client.send
        keeps(await send("/v1/models"), "/v1/models", "get")
        keeps(await send("/v1/models/TandemLLM"), "/v1/models/{id}", "get")
        missing = await send("/v1/models/a/b")
        assert missing.status == 404
        keeps(missing, "/v1/models/{id}", "get")
        await send(CHAT_PATH, chat("hi"))
        await harness.look()
        keeps(await send("/health"), "/health", "get")


@pytest.mark.spec("API-020", "API-242")
async def test_the_session_keeps_to_the_document(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for method, body in (("GET", None), ("DELETE", None), ("POST", {"token": "x"})):
            call = await harness.client.send(SESSION, body, method=method)
            keeps(call, SESSION, method.lower())
    async with open_harness(secrets=SECRETS) as harness:
        statuses = []
        bodies: list[Any] = [{}, [], {"token": PASSWORD}, *[{"token": "x"}] * 6]
        for each in bodies:
            call = await harness.client.send(SESSION, each)
            keeps(call, SESSION, "post")
            statuses.append(call.status)
        assert statuses == [400, 400, 200, 401, 401, 401, 401, 401, 429]


@pytest.mark.spec("API-017", "API-252", "API-253", "API-254")
async def test_refused_callers_are_told_as_documented(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(secrets=SECRETS) as harness:
        send = harness.client.send
        short = await send("/health", peer="192.0.2.7")
        assert short.json.keys() == {"status", "model"}
        keeps(short, "/health", "get")
        for path, methods in described()["paths"].items():
            for method in methods:
                at = path.replace("{id}", "TandemLLM")
                call = await send(at, method=method.upper(), headers={"host": "evil.example"})
                assert call.status == 421
                keeps(call, path, method)
                if "security" in methods[method]:
                    call = await send(at, method=method.upper(), peer="192.0.2.7")
                    assert call.status == 401
                    keeps(call, path, method)
        key = {"origin": "https://evil.example", "authorization": f"Bearer {SECRETS.api_key}"}
        for path in (CHAT_PATH, TEXT_PATH):
            call = await send(path, chat("hi"), headers=key)
            assert call.status == 403
            keeps(call, path, "post")


@pytest.mark.spec("API-023", "API-265")
async def test_errors_outside_the_document_have_its_shape(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for path, method in (("/nothing", "GET"), ("/docs", "POST"), (CHAT_PATH, "GET"), ("/openapi.json/", "GET")):
            call = await harness.client.send(path, method=method)
            assert call.status in (404, 405)
            check(call.json, "ErrorBody")


async def test_the_examples_of_the_document_are_served(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for path in (CHAT_PATH, TEXT_PATH):
            examples = described()["paths"][path]["post"]["requestBody"]["content"]["application/json"]["examples"]
            for example in examples.values():
                call = await harness.client.send(path, example["value"])
                assert call.status == 200
                keeps(call, path, "post")
