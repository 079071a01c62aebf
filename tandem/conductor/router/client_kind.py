"""Which client sends: found once a request from its headers and, where they do not tell, its messages (PRF-020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from tandem.engine.text.side import side_shape

__all__ = ["ClientKind", "client_kind"]

ClientKind: TypeAlias = Literal["chat-app", "opencode", "open-webui", "hermes", "openai-sdk", "curl", "anon"]

KINDS: dict[str, ClientKind] = {kind: kind for kind in get_args(ClientKind)}
HERMES_OPENING = "You are Hermes Agent"


def client_kind(
    headers: Mapping[str, str], messages: Sequence[Mapping[str, Any]] = (), *, has_tools: bool = False
) -> ClientKind:
    """The kind, first match of the table in API-069. `headers` have lower-case names; values count in any case."""
    named = KINDS.get(headers.get("x-tandem-client", "").lower())
    if named is not None:
        return named
    agent = headers.get("user-agent", "").lower()
    if "opencode" in agent:
        return "opencode"
    if "open-webui" in agent or any(name.startswith("x-openwebui-") for name in headers):
        return "open-webui"
    if "hermes" in agent or _opens_as_hermes(messages):
        return "hermes"
    if (shape := side_shape(messages, has_tools=has_tools)) is not None and shape.client == "open-webui":
        return "open-webui"
    if agent.startswith(("openai/", "asyncopenai/")) or "x-stainless-lang" in headers:
        return "openai-sdk"
    return "curl" if agent.startswith("curl/") else "anon"


def _opens_as_hermes(messages: Sequence[Mapping[str, Any]]) -> bool:
    if not messages or messages[0].get("role") != "system":
        return False
    content = messages[0].get("content")
    return isinstance(content, str) and content.startswith(HERMES_OPENING)
