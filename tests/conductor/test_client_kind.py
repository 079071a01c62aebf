from __future__ import annotations

from typing import Any

import pytest

from tandem.conductor.router.client_kind import client_kind

HERMES = "You are Hermes Agent, an intelligent AI assistant created by Nous Research."


def system(text: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": text}, {"role": "user", "content": "Hi"}]


def agent(value: str, **more: str) -> dict[str, str]:
    return {"user-agent": value, **{name.replace("_", "-"): text for name, text in more.items()}}


@pytest.mark.spec("API-069", "PRF-020")
@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({}, "anon"),
        (agent("python-httpx/0.28"), "anon"),
        (agent("opencode/1.1.3 ai-sdk/provider-utils/3"), "opencode"),
        (agent("Mozilla/5.0 (compatible; OpenCode)"), "opencode"),
        ({"x-openwebui-user-name": "Ada"}, "open-webui"),
        (agent("Python/3.11 aiohttp/3.11", x_openwebui_chat_id="c1"), "open-webui"),
        (agent("Open-WebUI/0.6"), "open-webui"),
        (agent("hermes-agent/0.19.0"), "hermes"),
        (agent("Nous-HERMES"), "hermes"),
        (agent("OpenAI/Python 2.3.0"), "openai-sdk"),
        (agent("AsyncOpenAI/Python 2.3.0"), "openai-sdk"),
        (agent("openai/js 6.1.0"), "openai-sdk"),
        (agent("like OpenAI/Python"), "anon"),
        (agent("node", x_stainless_lang="js"), "openai-sdk"),
        (agent("curl/8.5.0"), "curl"),
        (agent("CURL/8.5.0"), "curl"),
        (agent("libcurl/8.5.0"), "anon"),
        (agent("openwebui"), "anon"),
    ],
)
def test_each_row_of_the_table(headers: dict[str, str], kind: str) -> None:
    assert client_kind(headers) == kind


@pytest.mark.spec("API-069", "PRF-020")
@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        (agent("opencode/1", x_openwebui_chat_id="c", x_stainless_lang="js"), "opencode"),
        (agent("hermes", x_openwebui_chat_id="c"), "open-webui"),
        (agent("open-webui hermes"), "open-webui"),
        (agent("OpenAI/Python hermes"), "hermes"),
        (agent("curl/8", x_stainless_lang="python"), "openai-sdk"),
    ],
)
def test_the_first_match_wins(headers: dict[str, str], kind: str) -> None:
    assert client_kind(headers) == kind


@pytest.mark.spec("API-069", "PRF-020")
@pytest.mark.parametrize("kind", ["chat-app", "opencode", "open-webui", "hermes", "openai-sdk", "curl", "anon"])
def test_a_named_kind_comes_before_all_else(kind: str) -> None:
    for spelled in (kind, kind.upper()):
        assert client_kind(agent("opencode/1", x_tandem_client=spelled), system(HERMES)) == kind


@pytest.mark.spec("API-069", "PRF-020")
@pytest.mark.parametrize("unknown", ["", "browser", "chat app", "opencode/1"])
def test_an_unknown_name_is_ignored(unknown: str) -> None:
    assert client_kind(agent("curl/8", x_tandem_client=unknown)) == "curl"


@pytest.mark.spec("API-069", "PRF-020")
def test_hermes_is_told_by_its_system_message() -> None:
    sdk = agent("OpenAI/Python 2.3.0", x_stainless_lang="python")
    assert client_kind(sdk, system(HERMES)) == "hermes"
    assert client_kind(agent("curl/8"), system(HERMES)) == "hermes"
    assert client_kind(agent("opencode/1"), system(HERMES)) == "opencode"
    assert client_kind({"x-openwebui-chat-id": "c"}, system(HERMES)) == "open-webui"


@pytest.mark.spec("API-069")
@pytest.mark.parametrize(
    "messages",
    [
        [],
        system("Are you Hermes? " + HERMES),
        [{"role": "user", "content": HERMES}],
        [{"role": "system", "content": "A"}, {"role": "system", "content": HERMES}],
        [{"role": "system", "content": None}],
        [{}],
    ],
)
def test_what_is_not_its_system_message(messages: list[dict[str, Any]]) -> None:
    assert client_kind(agent("OpenAI/Python"), messages) == "openai-sdk"


@pytest.mark.spec("API-069", "PRF-020")
def test_open_webui_shows_in_its_side_requests() -> None:
    title = [{"role": "user", "content": "### Task:\nGenerate a concise title summarizing the chat history."}]
    assert client_kind(agent("Python/3.11 aiohttp/3.14.5"), title) == "open-webui"
    assert client_kind(agent("OpenAI/Python 2.3.0"), title) == "open-webui"
    assert client_kind(agent("curl/8.5.0"), title, has_tools=True) == "curl"
    assert client_kind({}, system("You are a title generator. You output ONLY a thread title. Nothing else.")) == "anon"
