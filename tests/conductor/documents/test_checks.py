"""What is refused, and with which path (CFG-004)."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.conductor.documents import DocumentError, parse
from tandem.conductor.documents.checks import check_itself, check_saved
from tandem.conductor.documents.documents import KINDS, document_key, split_key
from tests.conductor.documents.samples import documents, shipped


def refused(key: str, body: Any) -> str:
    """The path at which a save fails."""
    with pytest.raises(DocumentError) as caught:
        check_saved(key, parse(split_key(key)[0], body), documents())
    return caught.value.path


def saved(key: str, body: Any) -> None:
    check_saved(key, parse(split_key(key)[0], body), documents())


@pytest.mark.spec("CFG-004", "PRF-017")
@pytest.mark.parametrize(
    ("kind", "body", "path"),
    [
        ("profiles", {}, "mode"),
        ("profiles", {"mode": "loud"}, "mode"),
        ("profiles", {"mode": "on", "decision": {}}, "decision"),
        ("profiles", {"mode": "on", "decisions": {"classify": True}}, "decisions.classify"),
        ("profiles", {"mode": "on", "tasks": {"S5": {"mode": "act"}}}, "tasks.S5"),
        ("profiles", {"mode": "on", "tasks": {"E2": {"claim_at": 2}}}, "tasks.E2.claim_at"),
        (
            "profiles",
            {"mode": "on", "routing": {"classes": {"chat": {}, "b": {"effort": "huge"}}}},
            "routing.classes.b.effort",
        ),
        ("profiles", {"mode": "on", "routing": {"classes": {"a.b[0]": {}}}}, "routing.classes.a.b[0]"),
        ("profiles", {"mode": "on", "ui": {"kinds": {"route": "off", "nonsense": "off"}}}, "ui.kinds.nonsense"),
        ("profiles", {"mode": "on", "thinking": {"budgets": {"low": 0}}}, "thinking.budgets.low"),
        ("router", {"classes": [], "policies": {}}, "classes"),
        ("router", {"classes": [{"id": "A", "label": "x", "description": "y"}], "policies": {}}, "classes[0].id"),
        ("packages", {"packages": [{"name": "a", "description": "b"}]}, "packages[0].max_tokens"),
        ("roles", {"roles": {"x": {"nope": 1}}}, "roles.x.nope"),
        ("residency", {"claims": {"a": 1, "b": -1}}, "claims.b"),
        ("residency", {"claims": {"a b": 1}}, "claims.a b"),
        ("settings", {"memory": {"disk_cache": {"size": 1}}}, "memory.disk_cache.size"),
        ("settings", {"memory": {"disk_cache": {"budget_gb": -1}}}, "memory.disk_cache.budget_gb"),
        ("deciders", {"api": {"deadline_ms": 60_001}}, "api.deadline_ms"),
        ("settings", [], ""),
        ("monitor", "x", ""),
    ],
)
def test_a_body_that_fails_its_schema(kind: Any, body: Any, path: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(kind, body)
    assert caught.value.path == path


SHAPE = {"id": "x", "client": "opencode", "kind": "title", "max_tokens": 9}


@pytest.mark.spec("CFG-004")
@pytest.mark.parametrize(
    ("key", "changes", "path"),
    [
        ("profiles/coding", {"routing": {"default_class": "nope"}}, "routing.default_class"),
        ("profiles/coding", {"routing": {"classes": {"nope": {}}}}, "routing.classes.nope"),
        (
            "profiles/coding",
            {"routing": {"classes": {"chat": {"core": ["coding", "no"]}}}},
            "routing.classes.chat.core[1]",
        ),
        ("profiles/coding", {"clients": ["opencode", "netscape"]}, "clients[1]"),
        ("profiles/coding", {"clients": ["hermes"]}, "clients[0]"),
        ("profiles/coding", {"locked": True}, "locked"),
        ("settings", {"default_profile": "nope"}, "default_profile"),
        ("router", {"policies": {}}, "policies.chat"),
        ("router", {"effort": {"size": {"files": [8, 3]}}}, "effort.size.files"),
        (
            "router",
            {"structural": {"side_shapes": [{**SHAPE, "match": "You are a title"}]}},
            "structural.side_shapes[0].match",
        ),
        (
            "router",
            {"structural": {"side_shapes": [{**SHAPE, "match": "a" * 24, "client": "x"}]}},
            "structural.side_shapes[0].client",
        ),
        ("packages", {"packages": []}, "packages"),
    ],
)
def test_documents_agree_with_each_other(key: str, changes: dict[str, Any], path: str) -> None:
    assert refused(key, shipped(key, **changes)) == path


def test_a_class_names_packages_that_exist() -> None:
    body = shipped("router")
    body["policies"]["chat"]["packages"] = ["coding", "nope"]
    assert refused("router", body) == "policies.chat.packages[1]"


def test_no_more_classes_than_the_question_has_letters() -> None:
    body = shipped("router")
    more = [f"own_{at}" for at in range(53 - sum(not one.get("structural") for one in body["classes"]))]
    body["classes"] += [{"id": name, "label": name, "description": name} for name in more]
    body["policies"] |= {name: {"effort": "low"} for name in more}
    assert refused("router", body) == "classes"
    del body["policies"][body["classes"].pop()["id"]]
    saved("router", body)


def test_what_others_name_does_not_go() -> None:
    body = shipped("router")
    body["classes"] = [one for one in body["classes"] if one["id"] != "code_edit"]
    del body["policies"]["code_edit"]
    assert refused("router", body) == "classes"
    body = shipped("packages")
    body["packages"] = [one for one in body["packages"] if one["name"] != "threejs-scene"]
    assert refused("packages", body) == "packages"


@pytest.mark.spec("PRF-007")
def test_the_tools_profile_may_be_absent() -> None:
    saved("settings", {"tools_profile": "nope"})
    saved("settings", {"tools_profile": ""})


@pytest.mark.spec("SES-010")
def test_a_short_opening_is_refused() -> None:
    shapes = {"side_shapes": [{**SHAPE, "match": ["a" * 24, "b   " * 11]}]}
    assert refused("router", shipped("router", structural=shapes)) == "structural.side_shapes[0].match"
    saved("router", shipped("router", structural={"side_shapes": [{**SHAPE, "match": ["a" * 24, "b" * 24]}]}))


def package(**more: Any) -> dict[str, Any]:
    body = shipped("packages")
    body["packages"].append({"name": "mine", "description": "d", "max_tokens": 100, **more})
    return body


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({}, "text"),
        ({"text": "a", "source": "skill:a"}, "text"),
        ({"text": "a", "fallback": "mine"}, "fallback"),
        ({"text": "a", "fallback": "nope"}, "fallback"),
        ({"text": "a", "name": "coding"}, "name"),
    ],
)
def test_packages_in_themselves(more: dict[str, Any], field: str) -> None:
    body = package(**more)
    assert refused("packages", body) == f"packages[{len(body['packages']) - 1}].{field}"


@pytest.mark.spec("CFG-014")
@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("curl {tandem_url}/v1/laya/ask", True),
        ("POST /v1/laya and GET /v1/library/x are routes", True),
        ('curl "{tandem_url}/s/{token}/v1/memory"', True),
        ("curl https://box.local/v1/laya/ask", False),
        ("curl http://127.0.0.1:8000/v1/library", False),
        ("curl localhost:8000/v1/memory", False),
        ("ask box.example.org/v1/laya", False),
        ("ask box:8000/s/abc/v1/laya", False),
        ("curl http://[::1]:8000/v1/laya", False),
        ("see https://example.org/v1/layaway", True),
        ("http://" * 20_000, True),
        ("a." * 90_000, True),
    ],
)
def test_a_text_names_the_server_by_its_placeholder(text: str, passes: bool) -> None:
    body = package(text=text)
    if passes:
        saved("packages", body)
    else:
        assert refused("packages", body) == f"packages[{len(body['packages']) - 1}].text"
        check_itself("packages", parse("packages", body))  # one that is stored is served


@pytest.mark.spec("PRF-012")
def test_a_locked_profile_is_raw() -> None:
    for name in ("raw", "bench"):
        assert refused(f"profiles/{name}", {"mode": "on"}) == "mode"


def test_keys_are_paths() -> None:
    for kind in KINDS:
        key = document_key(kind, "coding" if kind == "profiles" else None)
        assert document_key(*split_key(key)) == key
    for bad in (
        "",
        "profiles",
        "profiles/",
        "router/x",
        "router/",
        "profiles/../router",
        "profiles/a/b",
        "x",
        "profiles/.a",
    ):
        with pytest.raises(KeyError):
            split_key(bad)
