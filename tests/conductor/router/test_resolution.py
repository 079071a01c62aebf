"""Which profile and which mode: header, client kind, tools rule, default; nothing raises a mode."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.conductor.documents import Documents
from tandem.conductor.router.client_kind import ClientKind
from tandem.conductor.router.facts import Facts
from tandem.conductor.router.plan import PlanRefused
from tandem.conductor.router.resolution import MODES, Resolution, lower, resolve
from tandem.engine.text.model import Conversation
from tests.conductor.documents.samples import documents
from tests.conductor.router.driving import DAY, user, with_document, with_profile

TOOL = {"type": "function", "function": {"name": "run"}}


def changed(name: str, **keys: Any) -> Documents:
    return with_profile(documents(), name, **keys)


def resolved(kind: ClientKind = "curl", own: Documents | None = None, **given: Any) -> Resolution:
    conversation = Conversation(messages=[user("a")], tools=given.pop("tools", ()))
    return resolve(own or documents(), Facts(kind=kind, conversation=conversation, today=DAY, **given))


@pytest.mark.spec("PRF-006", "API-067")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("chat-app", "chat-app"),
        ("opencode", "coding"),
        ("open-webui", "chat"),
        ("hermes", "hermes"),
        ("openai-sdk", "general"),
        ("curl", "general"),
        ("anon", "general"),
    ],
)
def test_the_kind_names_the_profile(kind: ClientKind, name: str) -> None:
    assert resolved(kind).name == name
    assert resolved(kind, headers={"x-tandem-profile": "overnight"}).name == "overnight"
    with pytest.raises(PlanRefused) as refused:
        resolved(kind, headers={"x-tandem-profile": "nightly"})
    assert refused.value.param == "X-Tandem-Profile"


@pytest.mark.spec("PRF-007", "API-067")
def test_tools_of_a_client_that_no_profile_lists() -> None:
    assert (resolved(tools=[TOOL]).name, resolved(tools=[TOOL]).source) == ("tools", "tools")
    assert resolved(tools=[TOOL], tool_choice="none").name == "general"
    assert resolved("opencode", tools=[TOOL]).name == "coding"
    assert resolved(tools=[TOOL], own=changed("tools", memory="on")).name == "general"
    own = documents()
    settings = msgspec.structs.replace(own.settings, tools_profile="")
    off = with_document(own, settings=settings)
    assert resolved(tools=[TOOL], own=off).name == "general"
    other = with_document(own, settings=msgspec.structs.replace(settings, default_profile="chat"))
    assert (resolved(own=other).name, resolved(own=other).source) == ("chat", "default")


@pytest.mark.spec("PRF-005", "PRF-008", "PRF-012")
def test_a_header_lowers_and_never_raises() -> None:
    assert [resolved(headers={"x-tandem": value}).mode for value in ("on", "shadow", "raw", "off", " RAW ")] == [
        "on",
        "shadow",
        "raw",
        "raw",
        "raw",
    ]
    assert resolved().mode == "on"
    shadow = changed("general", mode="shadow")
    assert resolved(own=shadow, headers={"x-tandem": "on"}).mode == "shadow"
    for locked in ("raw", "bench"):
        assert resolved(headers={"x-tandem-profile": locked, "x-tandem": "on"}).mode == "raw"
    for bad in ("", "auto", "on,raw"):
        with pytest.raises(PlanRefused) as refused:
            resolved(headers={"x-tandem": bad})
        assert refused.value.param == "X-Tandem"


@given(st.sampled_from(MODES), st.sampled_from(MODES))
def test_the_lower_of_two_modes(one: Any, other: Any) -> None:
    assert MODES.index(lower(one, other)) == min(MODES.index(one), MODES.index(other))


@pytest.mark.spec("PRF-010", "PRF-011")
def test_shadow_lowers_every_switch_and_identity_follows_the_mode() -> None:
    assert resolved("opencode").switches == dict.fromkeys(("classify", "effort", "package", "identity"), "on")
    shadow = resolved("opencode", headers={"x-tandem": "shadow"})
    assert set(shadow.switches.values()) == {"shadow"}
    assert resolved(tools=[TOOL]).switches["classify"] == "off"
    assert set(resolved(headers={"x-tandem": "raw"}).switches.values()) == {"off"}
    decisions = msgspec.structs.replace(documents().profiles["general"].decisions, identity=None)
    follows = changed("general", mode="shadow", decisions=decisions)
    assert resolved(own=follows).switches["identity"] == "shadow"


def test_a_default_that_is_gone_is_the_engines_own_path() -> None:
    own = documents()
    profiles = {name: profile for name, profile in own.profiles.items() if name != "general"}
    without = with_document(own, profiles=profiles)
    assert (resolved(own=without).name, resolved(own=without).mode) == ("raw", "raw")


@given(st.dictionaries(st.sampled_from(["x-tandem", "x-tandem-profile"]), st.text(max_size=40)))
def test_hostile_headers_are_refused_or_resolved(headers: dict[str, str]) -> None:
    try:
        name: str | None = resolved(headers=headers).name
    except PlanRefused:
        name = None
    assert name is None or name in documents().profiles
