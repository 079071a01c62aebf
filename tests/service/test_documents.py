"""The conductor's documents over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trio
import trio.testing

import tandem
from tandem.actors.documents import Current
from tandem.actors.store import Flush
from tandem.conductor.documents import Documents, shipped_documents
from tandem.conductor.monitor.policy import shipped_body
from tandem.secrets import Secrets
from tests.service.harness import Harness, chat, open_harness

CONTRACT = Path(tandem.__file__).parent / "contract" / "conductor-v1"
ROOT = "/v1/conductor"
PASSWORD = "a password of thirty-two characters"


def validate(name: str, body: Any) -> None:
    schema = json.loads((CONTRACT / f"{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(body)


async def get(harness: Harness, path: str, shape: str | None = None, *, status: int = 200) -> Any:
    call = await harness.client.send(f"{ROOT}/{path}")
    assert call.status == status, call.body
    if shape is not None:
        validate(shape, call.json)
    return call.json


async def put(harness: Harness, path: str, document: Any, note: Any = "why", **more: Any) -> Any:
    """The answer; a refusal as its status and `param`."""
    call = await harness.client.send(f"{ROOT}/{path}", {"document": document, "note": note, **more}, method="PUT")
    if call.status != 200:
        return call.status, call.json["error"]["param"]
    validate("document", call.json)
    return call.json


async def documents(harness: Harness) -> Documents:
    keeper = harness.service.context.documents
    assert keeper is not None
    return await keeper.ask(Current)


@pytest.mark.spec("API-232", "PRF-001")
async def test_without_a_directory_there_are_no_routes(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for path in ("config", "router", "profiles/coding", "router/versions", "schemas/router", "memory/disk"):
            await get(harness, path, status=404)
        assert await put(harness, "settings", {}) == (404, None)


@pytest.mark.spec("CFG-007", "CFG-015", "API-233")
async def test_documents_are_read(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        config = await get(harness, "config", "config")
        names = [one["name"] for one in config["documents"]]
        assert names == sorted([*shipped_documents(), "monitor"])
        assert {one["name"] for one in config["documents"] if one["locked"]} == {"profiles/raw", "profiles/bench"}
        for key, body in shipped_documents().items():
            shown = await get(harness, key, "document")
            assert (shown["document"], shown["version"], shown["note"]) == (body, 1, "as shipped")
            assert [one["version"] for one in (await get(harness, f"{key}/versions", "versions"))["versions"]] == [1]
        monitor = await get(harness, "monitor", "document")
        assert (monitor["document"], monitor["version"]) == (shipped_body(), 0)
        assert (await get(harness, "router?version=1", "document"))["version"] == 1
        assert (await get(harness, "schemas/profiles"))["$ref"] == "#/$defs/Profile"
        for path in ("profiles/nobody", "profiles/nobody/versions", "nothing", "router?version=7", "schemas/nothing"):
            await get(harness, path, status=404)
        assert (await get(harness, "router?x=1", status=400))["error"]["param"] == "x"


@pytest.mark.spec("ROL-004", "ROL-005", "ROL-006")
async def test_roles_say_what_they_may_share(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        shown = await get(harness, "roles", "document")
        roles = {role["name"]: role for role in shown["contracts"]}
        assert roles["reasoner"]["may_share"] == ["text", "tokens"]
        assert roles["narrator"]["may_share"] == ["text"]
        assert all(role["filled"] == [] for role in roles.values())
        await put(harness, "roles", {"roles": {"decider": {"memory_claim_gib": 1, "window": "idle"}}})
        shown = await get(harness, "roles", "document")
        filled = {role["name"]: role["filled"] for role in shown["contracts"]}
        assert filled["decider"] == [
            "kind", "preemptible", "latency_budget_ms", "fallback", "writes", "tokenizer_sha256", "sharing",
        ]  # fmt: skip
        assert filled["tester"] == []
        weights = (await harness.client.send("/health")).json["weights"]
        same = {"memory_claim_gib": 1, "window": "idle", "tokenizer_sha256": weights["tokenizer_sha256"]}
        other = {**same, "tokenizer_sha256": "0" * 64}
        shares = {"sharing": ["text", "tokens"]}
        await put(harness, "roles", {"roles": {"decider": {**same, **shares}, "narrator": {**other, **shares}}})
        shown = await get(harness, "roles", "document")
        told = {role["name"]: role["may_share"] for role in shown["contracts"]}
        assert (told["decider"], told["narrator"]) == (["text", "tokens"], ["text"])


@pytest.mark.spec("CFG-003", "CFG-005", "CFG-006", "CFG-008", "API-234", "API-235")
async def test_a_document_is_saved_and_restored(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        saved = await put(harness, "settings", {"default_profile": "coding"}, base_version=1)
        assert (saved["version"], saved["restored_from"]) == (2, None)
        assert (await documents(harness)).settings.default_profile == "coding"
        assert await put(harness, "settings", {}, base_version=1) == (409, "base_version")
        call = await harness.client.send(f"{ROOT}/settings/restore", {"version": 1, "note": " back "})
        validate("document", call.json)
        assert (call.json["version"], call.json["restored_from"], call.json["note"]) == (3, 1, "back")
        assert (await documents(harness)).settings.default_profile == "general"
        listed = await get(harness, "settings/versions", "versions")
        assert [(one["version"], one["note"]) for one in listed["versions"]] == [
            (3, "back"),
            (2, "why"),
            (1, "as shipped"),
        ]
        mine = await put(harness, "profiles/mine", {"mode": "shadow"})
        assert mine["version"] == 1
        assert (await documents(harness)).profiles["mine"].mode == "shadow"
        assert (await put(harness, "monitor", shipped_body()))["version"] == 1


@pytest.mark.spec("CFG-003", "CFG-004", "API-234", "PRF-012", "PRF-017")
async def test_what_is_refused_names_its_key(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        before = await get(harness, "config")
        for path, document, note, expected in (
            ("settings", {}, "", (400, "note")),
            ("settings", {}, "  ", (400, "note")),
            ("settings", {}, None, (400, "note")),
            ("settings", {}, "x" * 501, (400, "note")),
            ("settings", [], "n", (400, "document")),
            ("settings", {"nonsense": 1}, "n", (400, "document.nonsense")),
            ("settings", {"default_profile": "nope"}, "n", (400, "document.default_profile")),
            ("profiles/coding", {"mode": "on", "ui": {"x": 1}}, "n", (400, "document.ui.x")),
            (
                "profiles/coding",
                {"mode": "on", "routing": {"default_class": "x"}},
                "n",
                (400, "document.routing.default_class"),
            ),
            ("profiles/a b", {"mode": "on"}, "n", (400, "name")),
            ("profiles/..", {"mode": "on"}, "n", (400, "name")),
            ("profiles/raw", {"mode": "raw"}, "n", (409, None)),
            ("profiles/bench", {"mode": "raw"}, "n", (409, None)),
            ("nothing", {}, "n", (404, None)),
        ):
            assert await put(harness, path, document, note) == expected, path
        assert await put(harness, "settings", {}, base_version=-1) == (400, "base_version")
        assert await put(harness, "settings", {}, base_version=True) == (400, "base_version")
        assert await put(harness, "settings", {}, extra=1) == (400, "extra")
        for body, status, param in (
            ({"note": "n"}, 400, "version"),
            ({"version": 9, "note": "n"}, 404, "version"),
            ({"version": 1}, 400, "note"),
            ({"version": 0, "note": "n"}, 400, "version"),
        ):
            call = await harness.client.send(f"{ROOT}/settings/restore", body)
            assert (call.status, call.json["error"]["param"]) == (status, param)
        for name, status in (("raw", 409), ("coding", 405), ("nobody", 404)):
            call = await harness.client.send(f"{ROOT}/profiles/{name}", method="DELETE")
            assert call.status == status
        call = await harness.client.send(f"{ROOT}/profiles/raw/restore", {"version": 1, "note": "n"})
        assert call.status == 409
        assert await get(harness, "config") == before


@pytest.mark.spec("CFG-003")
async def test_writes_follow_the_admin_rule(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    secrets = Secrets(admin_token=PASSWORD)
    async with open_harness(conductor_config=tmp_path / "c", secrets=secrets, allowed_hosts=["box"]) as harness:
        body = {"document": {}, "note": "n"}
        stranger = {"peer": "203.0.113.9", "method": "PUT"}
        refused = await harness.client.send(f"{ROOT}/settings", body, **stranger)
        assert refused.status == 401
        bearer = {"authorization": f"Bearer {PASSWORD}"}
        taken = await harness.client.send(f"{ROOT}/settings", body, headers=bearer, **stranger)
        assert taken.status == 200
        read = await harness.client.send(f"{ROOT}/settings", peer="203.0.113.9")
        assert read.status == 200  # the dashboard's read rule
        disk = await harness.client.send(f"{ROOT}/memory/disk", peer="203.0.113.9")
        assert disk.status == 401


@pytest.mark.spec("JRN-005")
async def test_each_change_is_a_row(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        await put(harness, "settings", {})
        await put(harness, "settings", {"SECRET VALUE": 1})
        await harness.client.send(f"{ROOT}/settings/restore", {"version": 1, "note": "n"})
        await harness.service.context.store.ask(Flush)
        rows = (await get(harness, "events?kind=config&task=settings"))["events"]
        assert [row["decision"] for row in rows] == ["restored", "refused", "stored", "stored"]
        assert rows[0]["detail"] == {"version": 3, "note": "n", "restored_from": 1}


@pytest.mark.spec("CFG-007")
async def test_a_broken_file_is_shown_and_requests_go_on(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        (tmp_path / "c/router/v1.json").write_bytes(b"{")
        await trio.sleep(2)
        config = await get(harness, "config", "config")
        router = next(one for one in config["documents"] if one["name"] == "router")
        assert router["problem"] == {"file": "router/v1.json", "path": "", "message": "the file is not valid JSON"}
        assert router["version"] == 1
        assert (await harness.client.send("/v1/chat/completions", chat("hi"))).status == 200


async def test_a_large_and_a_deep_body(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        deep = b'{"note": "n", "document": ' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}"
        for body, status in ((deep, 400), (b"{", 400), (b'{"a":"' + b"x" * (8 << 20) + b'"}', 413), (b"[]", 400)):
            call = await harness.client.send(f"{ROOT}/monitor", body, method="PUT")
            assert call.status == status
        texts = [{"name": f"p{at}", "description": "d", "max_tokens": 9, "text": "é" * 100_000} for at in range(12)]
        packages = shipped_documents()["packages"]
        saved = await put(harness, "packages", {**packages, "packages": [*packages["packages"], *texts]})
        assert saved["version"] == 2
