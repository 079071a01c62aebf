"""The roles document: who may do what beside the engine, each under one contract (ROL-001 to ROL-007).

A task asks for a kind, never for a model. A role that was stored before the contract existed lacks its fields: it is
read with those of ROL-005, and `StoredRole` keeps what was written, so that saving makes the rest explicit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias, get_args

from msgspec import Meta

from tandem.conductor.documents.words import Name, Section, Switch

__all__ = ["BUILT_IN", "RoleContract", "Roles", "StoredRole", "contract", "contracts", "may_share", "violation"]

RoleKind: TypeAlias = Literal["reasoner", "decider", "probe", "clerk", "librarian", "tool"]
Window: TypeAlias = Literal["idle", "in_decode", "any"]
Fallback: TypeAlias = Literal["PASS", "stale", "skip", "next-role"]
Writes: TypeAlias = Literal["client_visible", "hidden_notes", "memory_files", "nothing"]
Sharing: TypeAlias = Literal["text", "tokens", "states"]

KINDS = get_args(RoleKind)
KIND_OF = {"tester": "decider", "narrator": "clerk"}
"""The kind of a role whose name is not that of a kind."""
CONTRACT = (
    "kind", "memory_claim_gib", "window", "preemptible", "latency_budget_ms", "fallback", "writes", "tokenizer_sha256",
    "sharing",
)  # fmt: skip

Milliseconds = Annotated[int, Meta(ge=0, le=600_000)]


class StoredRole(Section, frozen=True):
    """One role as it is stored; None is a field that its document lacks."""

    kind: Annotated[RoleKind | None, Meta(description="What tasks ask for. Absent: by the role's name.")] = None
    endpoint: Annotated[
        str,
        Meta(
            pattern=r"^(self|engine:[A-Za-z0-9._-]+|https?://.+)$", description="self, engine:<family> or an address."
        ),
    ] = "self"
    model: Annotated[str, Meta(min_length=1, max_length=200, description="The model's name, or auto.")] = "auto"
    mode: Annotated[Switch, Meta(description="off: never loaded. shadow: only journals.")] = "off"
    memory_claim_gib: Annotated[
        Annotated[float, Meta(ge=0, le=100_000)] | None, Meta(description="Memory it claims; 0: it shares another's.")
    ] = None
    window: Annotated[Window | None, Meta(description="When it may run.")] = None
    preemptible: Annotated[bool | None, Meta(description="Whether a request stops it.")] = None
    latency_budget_ms: Annotated[Milliseconds | None, Meta(description="How long a task waits. 0: no limit.")] = None
    fallback: Annotated[Fallback | None, Meta(description="What the task does past the budget.")] = None
    writes: Annotated[Writes | None, Meta(description="What its output may become.")] = None
    tokenizer_sha256: Annotated[
        Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$")] | None, Meta(description="The hash of its tokenizer.")
    ] = None
    sharing: Annotated[tuple[Sharing, ...] | None, Meta(description="What it may be given of a request.")] = None
    timeout_ms: Annotated[Milliseconds | None, Meta(description="Older name of the latency budget.")] = None


class Roles(Section, frozen=True):
    roles: Annotated[dict[Name, StoredRole], Meta(description="The roles by name.")]


@dataclass(frozen=True, slots=True)
class RoleContract:
    """One role with every field of the contract."""

    name: str
    kind: RoleKind
    endpoint: str
    model: str
    mode: Switch
    memory_claim_gib: float
    window: Window
    preemptible: bool
    latency_budget_ms: int
    fallback: Fallback
    writes: Writes
    tokenizer_sha256: str
    sharing: tuple[Sharing, ...]
    filled: tuple[str, ...] = ()
    """Fields that the stored role lacks and that were filled in (ROL-005)."""


BUILT_IN: Mapping[str, StoredRole] = {
    "tester": StoredRole(
        kind="decider",
        mode="on",
        memory_claim_gib=0,
        window="idle",
        preemptible=True,
        latency_budget_ms=100,
        fallback="PASS",
        writes="nothing",
        tokenizer_sha256="",
        sharing=("text",),
    )
}
"""What a document that lacks the role gets (ROL-007)."""


def contracts(roles: Roles, claims: Mapping[str, float] | None = None) -> dict[str, RoleContract]:
    """Every role there is, by name; one of the residency document's `claims` wins over the role's own (CFG-016)."""
    found = {name: contract(name, role) for name, role in {**BUILT_IN, **roles.roles}.items()}
    return {
        name: replace(one, memory_claim_gib=(claims or {}).get(name, one.memory_claim_gib))
        for name, one in found.items()
    }


def contract(name: str, role: StoredRole) -> RoleContract:
    """The role with ROL-005's values where its document has none."""
    kind: RoleKind = role.kind or _kind(name)
    budget = role.latency_budget_ms if role.latency_budget_ms is not None else role.timeout_ms
    return RoleContract(
        name=name,
        kind=kind,
        endpoint=role.endpoint,
        model=role.model,
        mode=role.mode,
        memory_claim_gib=role.memory_claim_gib or 0.0,
        window=role.window or "idle",
        preemptible=role.preemptible is not False,
        latency_budget_ms=budget or 0,
        fallback=role.fallback or "PASS",
        writes=role.writes or "nothing",
        tokenizer_sha256=role.tokenizer_sha256 or "",
        sharing=("text",) if role.sharing is None else role.sharing,
        filled=tuple(field for field in CONTRACT if getattr(role, field) is None),
    )


def _kind(name: str) -> RoleKind:
    for kind in KINDS:
        if name == kind or KIND_OF.get(name) == kind:
            found: RoleKind = kind
            return found
    return "tool"


def violation(role: RoleContract) -> tuple[str, str] | None:
    """The field that breaks the contract and why, or None (ROL-002, ROL-004)."""
    if "memory_claim_gib" in role.filled:
        return "memory_claim_gib", "a role says how much memory it claims"
    if "window" in role.filled:
        return "window", "a role says when it may run"
    if role.window == "in_decode" and role.kind not in ("decider", "probe"):
        return "window", "only a decider or a probe may run inside a decode"
    if role.writes == "client_visible" and role.kind != "reasoner":
        return "writes", "only the reasoner may write what a client sees"
    if "states" in role.sharing and (role.kind != "probe" or role.endpoint != "self"):
        return "sharing", "states are given to a probe inside the engine only"
    return None


def may_share(role: RoleContract, engine_tokenizer: str) -> tuple[Sharing, ...]:
    """What the role may be given of a request, the engine's tokenizer hash being `engine_tokenizer` (ROL-004)."""
    itself = role.endpoint == "self" and role.model == "engine"
    same_ids = itself or (role.tokenizer_sha256 != "" and role.tokenizer_sha256 == engine_tokenizer)
    inside = role.kind == "probe" and role.endpoint == "self"
    allowed = {"text": True, "tokens": same_ids, "states": inside}
    return tuple(sharing for sharing in ("text", "tokens", "states") if sharing in role.sharing and allowed[sharing])
