"""GET /v1/dashboard/system: what runs and how it is set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trio.testing

import tandem
from tandem.config import declared
from tandem.draining import drain
from tandem.secrets import Secrets
from tests.service.harness import Harness, chat, open_harness
from tests.service.test_metrics_routes import CHAT, ENDLESS, PASSWORD, REMOTE, Broken, Resident

SYSTEM = "/v1/dashboard/system"
CONTRACT = Path(tandem.__file__).parent / "contract"
SCHEMA = json.loads((CONTRACT / "system.schema.json").read_text("utf-8"))


async def system(harness: Harness) -> Any:
    """The document, which keeps to its contract."""
    await harness.look()
    call = await harness.client.send(SYSTEM)
    assert call.status == 200
    jsonschema.Draft202012Validator(SCHEMA).validate(call.json)
    return call.json


def shown(body: Any) -> dict[str, str]:
    return {setting["name"]: setting["value"] for setting in body["settings"]}


def test_the_example_keeps_to_the_contract() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    example = json.loads((CONTRACT / "examples" / "system.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(SCHEMA).validate(example)


@pytest.mark.spec("OBS-083", "OBS-075", "API-241")
async def test_what_runs(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(engine=Resident(), state_dir=tmp_path, max_queue=3) as harness:
        await harness.client.send(CHAT, chat("hi"))
        running = harness.client.start(CHAT, chat(ENDLESS, stream=True, max_tokens=100))
        await running.wait_for_piece()
        harness.client.start(CHAT, chat("hi"))
        body = await system(harness)
        assert body["contract_version"] == "1.0"
        assert (body["status"], body["model"], body["base_model"]) == ("ok", "TandemLLM", "fake")
        assert body["version"] == tandem.__version__
        card = harness.engine.card
        assert body["weights"] == {**card.weights, "tokenizer_sha256": card.tokenizer_sha256}
        assert (body["queue"]["running"], body["queue"]["waiting"], body["queue"]["max_queue"]) == (1, 1, 3)
        assert body["queue"]["slots"] == [{"slot": 0, "phase": "writing"}]
        assert body["totals"]["served"] == 1
        assert body["cache"]["caches"][0]["hits"] == 3
        assert body["disk"]["path"] == str(tmp_path)
        assert body["disk"]["total_bytes"] > body["disk"]["free_bytes"] > 0
        assert body["images"]["state"] == "blind"
        assert body["access"] == {"password_set": False, "login": False}
        assert body["generated_at"] - body["started_at"] == pytest.approx(trio.current_time())


@pytest.mark.spec("OBS-083", "OBS-049")
async def test_every_setting_is_shown_as_it_is_in_effect(autojump_clock: trio.testing.MockClock) -> None:
    named: dict[str, Any] = {
        "max_queue": 3,
        "vision": False,
        "allowed_hosts": ("a.example", "b.example"),
        "log_content": True,
    }
    async with open_harness(
        **named, named=frozenset(named), queue_timeout=0.5, unknown=("TANDEM_MAX_QUEU",)
    ) as harness:
        body = await system(harness)
    assert [setting["name"] for setting in body["settings"]] == list(declared())
    assert {setting["name"] for setting in body["settings"] if setting["source"] == "named"} == set(named)
    values = shown(body)
    assert (values["max_queue"], values["vision"], values["queue_timeout"]) == ("3", "off", "0.5")
    assert (values["allowed_hosts"], values["cors_origins"]) == ("a.example, b.example", "none")
    assert (values["max_len"], values["log_content"]) == ("the model's context", "on")
    assert body["unknown_variables"] == ["TANDEM_MAX_QUEU"]
    assert body["privacy"] == {"log_content": True, "log_request_keys": False}
    for setting in body["settings"]:
        declaration = declared()[setting["name"]]
        assert (setting["flag"], setting["variable"]) == (declaration.flag, declaration.variable)


@pytest.mark.spec("OBS-053", "OBS-055", "API-209", "API-016")
async def test_secrets_are_redacted_and_the_home_directory_is_a_tilde(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "ada"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    secrets = Secrets(admin_token=PASSWORD, api_key="sk-pineapple", metrics_token="mt-pineapple")
    paths: dict[str, Any] = {"model": f"{home}/m.gguf", "usage_ledger": home / "usage.sqlite3", "state_dir": home}
    names = (f"{home}/a", f"{home}", f"{home}x")
    async with open_harness(secrets=secrets, **paths, cors_origins=(), url=None) as harness:
        body = await system(harness)
        values = shown(body)
        assert (values["model"], values["usage_ledger"], values["state_dir"]) == ("~/m.gguf", "~/usage.sqlite3", "~")
        assert body["disk"]["path"] == "~"
        hidden = {name for name, value in values.items() if value == "<redacted>"}
        assert hidden == {
            name for name in values if any(word in name for word in ("token", "key", "secret", "password"))
        }
        assert hidden >= {"api_key_loopback", "log_request_keys"}
        text = json.dumps(body)
        assert not [word for word in (PASSWORD, "pineapple", str(home)) if word in text]
        assert body["access"]["password_set"] is True
    monkeypatch.setattr("tandem.http.access.rules._allowed_hosts", lambda settings: set())
    async with open_harness(allowed_hosts=names) as harness:
        assert shown(await system(harness))["allowed_hosts"] == f"~/a, ~, {home}x"


@pytest.mark.spec("OBS-100", "OBS-101", "API-019")
async def test_who_may_read_it_and_how(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness(secrets=Secrets(admin_token=PASSWORD), dashboard_login=True) as harness:
        assert (await harness.client.send(SYSTEM, peer=REMOTE)).status == 401
        bearer = {"authorization": f"Bearer {PASSWORD}"}
        call = await harness.client.send(SYSTEM, peer=REMOTE, headers=bearer)
        assert call.json["access"] == {"password_set": True, "login": True}
        assert call.headers["cache-control"] == "no-store"
        refused = await harness.client.send(f"{SYSTEM}?verbose=1")
        assert (refused.status, refused.json["error"]["param"]) == (400, "verbose")
        assert (await harness.client.send(SYSTEM, {})).status == 405


@pytest.mark.spec("OBS-100")
async def test_what_cannot_be_read_is_null(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(engine=Broken(), state_dir=tmp_path / "nowhere") as harness:
        assert (await system(harness))["disk"] is None
        await drain(harness.service.context)
        assert (await system(harness))["status"] == "draining"
        harness.service.context.broken.append("queue")
        body = await system(harness)
        assert (body["status"], body["failed"]) == ("failed", ["queue"])
        assert [name for name, block in body.items() if block is None] == ["disk", "cache", "queue", "totals", "watch"]
