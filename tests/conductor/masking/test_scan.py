from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tandem.conductor.masking import Secret, SecretCache, secrets_of
from tandem.conductor.masking.kinds import KINDS, MASK_ONLY, SHAPES

LONG = "abcdefghijklmnop0123"


def found(text: str) -> dict[str, str]:
    return {secret.value: secret.kind for secret in secrets_of(text)}


@pytest.mark.spec("MEM-008", "MEM-009")
@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (f"Authorization: Bearer {LONG}", "auth_header", LONG),
        (f"-H 'Proxy-Authorization: Basic {LONG}=='", "auth_header", f"{LONG}=="),
        (f"key sk-{LONG}", "service_token", f"sk-{LONG}"),
        (f"github_pat_{LONG}.", "service_token", f"github_pat_{LONG}"),
        ("AKIAIOSFODNN7EXAMPLE", "service_token", "AKIAIOSFODNN7EXAMPLE"),
        ("eyJhbGciOi.eyJzdWIiOi.SflKxwRJSM", "jwt", "eyJhbGciOi.eyJzdWIiOi.SflKxwRJSM"),
        ("postgres://me:hunter@db/x", "url_credentials", "hunter"),
        ("Server=a;Password=Abc1;Port=1", "connection_string", "Abc1"),
        ("AccountKey=Abc123==;x", "connection_string", "Abc123=="),
        ('DB_PASSWORD = "hunter"', "assigned_secret", "hunter"),
        ("apiKey: 'hunter'", "assigned_secret", "hunter"),
        ('{"secret_access_key": "hunter"}', "assigned_secret", "hunter"),
        ("use sk-abc123", "api_key", "sk-abc123"),
        ("rk_live_abc123", "api_key", "rk_live_abc123"),
        ("curl bearer abc123def", "bearer", "abc123def"),
        ("export TOKEN=abc123", "assignment", "abc123"),
        ("password: hunter2.", "assignment", "hunter2"),
        ("SIM_PIN: 1234", "pin", "1234"),
        ("the pin is 123456", "pin", "123456"),
    ],
)
def test_each_kind_is_found(text: str, kind: str, value: str) -> None:
    assert found(text) == {value: kind}


@pytest.mark.spec("MEM-009")
@pytest.mark.parametrize(
    "text",
    [
        "bearer tokens",
        "token = tokenizer(text)",
        "X_TOKEN = int(x)",
        "MAX_TOKENS=128000",
        "token = sha256(text)",
        "token = os.environ2['X']",
        "token = self.token2",
        "password=$DB_PASSWORD1",
        'password = "my secret phrase"',
        '"tokenizer": "bert-base-uncased"',
        '"pad_token": "<|endoftext|>"',
        "token_url: https://example.org/oauth2",
        "task-abcdefghijklmnop0123",
        "sk-learn",
        "spin: 1234",
        "pin: 123",
        "http://user:password@host",
        "http://localhost:8000/a@b",
        "password: secret",
        "",
    ],
)
def test_what_is_no_secret(text: str) -> None:
    assert found(text) == {}


@pytest.mark.spec("MEM-009")
def test_a_private_key_is_its_lines() -> None:
    body = ["MIIEpAIBAAKCAQEAabcdefgh", "ijklmnopqrstuvwxyz012345"]
    text = "\n".join(
        ("-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----", "abcdefghijklmnopqrstu")
    )
    for form in (text, json.dumps({"out": text}), text.replace("\n", "\\n")):
        assert set(found(form)) == set(body)
    assert set(found("-----BEGIN PRIVATE KEY-----\n" + body[0])) == {body[0]}


@pytest.mark.spec("MEM-008")
def test_json_strings_are_read_as_they_are_decoded() -> None:
    text = json.dumps({"out": 'TOKEN="abc1\\23"\nexport PASSWORD=abc123\n', "password": 'hun"ter'})
    values = found(text)
    assert values['hun"ter'] == "assigned_secret"
    assert values["abc123"] == "assignment"
    nested = json.dumps({"result": json.dumps({"token": "hunter"})})
    assert found(nested) == {"hunter": "assigned_secret"}
    assert found('{"a": "\\n' + "[" * 100_000) == {}


@pytest.mark.spec("MEM-009")
def test_a_value_of_two_kinds_is_of_the_first() -> None:
    assert found(f'token="sk-{LONG}" bearer {LONG}') == {f"sk-{LONG}": "service_token", LONG: "bearer"}
    assert {shape.kind for shape in SHAPES} | {"api_key", "assignment"} == set(KINDS)
    assert set(KINDS) > MASK_ONLY


@pytest.mark.spec("MEM-008")
def test_tool_results_alone_are_searched() -> None:
    cache = SecretCache()
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "password=hunter1"},
        {"role": "assistant", "content": "password=hunter2"},
        {"role": "tool", "content": "password=hunter3"},
        {"role": "tool", "content": [{"type": "text", "text": "password=hunter4"}, {"type": "image", "index": 0}]},
        {"role": "tool", "content": None},
    ]
    assert [secret.value for secret in cache.of(messages)] == ["hunter4", "hunter3"]


@pytest.mark.spec("MEM-008")
def test_a_result_is_searched_once() -> None:
    cache = SecretCache(kept=2)
    messages = [{"role": "tool", "content": "password=hunter3"}]
    first = cache.of(messages)
    assert cache.of(messages)[0] is first[0]
    cache.of([{"role": "tool", "content": "a"}, {"role": "tool", "content": "b"}])
    assert cache.of(messages)[0] is not first[0]


HOSTILE = [
    "sk-", "sk-abc1 ", "eyJ", "eyJaaaaa.", "://a:b", "://a:", "password=", 'password="', "password='a\"", "token  ",
    "pin:", "pin 1", "-----BEGIN PRIVATE KEY-----", "bearer ", "authorization: bearer ", "api_", "password_key",
    "secret_access_key_value=", "password=a;", "password=a", "a", " ", "a:", "@", ":a@", '"', "AKIA", "token=a.",
]  # fmt: skip


@pytest.mark.spec("SCH-113")
@pytest.mark.parametrize("unit", HOSTILE)
def test_no_shape_backtracks(unit: str) -> None:
    """Every repetition in a shape is possessive or of fixed bounds, so a text of any kind ends soon; a pattern that
    was quadratic would hang here for minutes.
    """
    secrets_of(unit * (400_000 // len(unit)))


def repetitions(pattern: str) -> Iterator[str]:
    yield from re.findall(r"[*+]\+?|\{\d*,\d*\}\+?", re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]", "x", pattern))


@pytest.mark.spec("SCH-113")
def test_every_unbounded_repetition_is_possessive() -> None:
    for shape in SHAPES:
        for each in repetitions(shape.pattern.pattern):
            is_bounded = re.fullmatch(r"\{\d*,\d+\}\+?", each) is not None
            lazy_key = shape.kind == "private_key" and each == "*"  # one that fails ends the text
            assert is_bounded or each.endswith("}+") or lazy_key, (shape.kind, each)


def test_the_newest_secrets_are_kept() -> None:
    messages = [{"role": "tool", "content": f"password=hunter{number}"} for number in range(2_100)]
    kept = SecretCache().of(messages)
    assert len(kept) == 2_000
    assert kept[0] == Secret("assignment", "hunter2099")


def test_long_secrets_are_bounded_together() -> None:
    tokens = [f"ghp_{number:04}{'x' * 8_000}" for number in range(40)]
    kept = SecretCache().of([{"role": "tool", "content": token} for token in tokens])
    assert [secret.value for secret in kept] == tokens[:-13:-1], "the newest"
    assert len(SecretCache().of([{"role": "tool", "content": "\n".join(tokens)}])) == 12
