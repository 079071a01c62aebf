"""The contract of roles (ROL-001 to ROL-007)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tandem.conductor.documents import DocumentError, Roles, StoredRole, parse
from tandem.conductor.documents.checks import check_saved
from tandem.conductor.documents.deciders import Deciders
from tandem.conductor.documents.residency import Residency
from tandem.conductor.documents.roles import contract, contracts, may_share
from tests.conductor.documents.samples import documents, shipped


@pytest.mark.spec("ROL-005")
def test_a_role_from_before_the_contract_is_filled() -> None:
    role = contract("decider", StoredRole(model="laya-english", mode="on", timeout_ms=700))
    assert (role.kind, role.window, role.preemptible, role.fallback) == ("decider", "idle", True, "PASS")
    assert (role.writes, role.tokenizer_sha256, role.sharing, role.latency_budget_ms) == ("nothing", "", ("text",), 700)
    assert {"kind", "memory_claim_gib", "window", "sharing"} <= set(role.filled)
    assert [contract(name, StoredRole()).kind for name in ("tester", "narrator", "odd")] == ["decider", "clerk", "tool"]


@pytest.mark.spec("ROL-002", "ROL-004")
@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("decider", {"memory_claim_gib": None}, "memory_claim_gib"),
        ("decider", {"window": None}, "window"),
        ("narrator", {"window": "in_decode"}, "window"),
        ("decider", {"writes": "client_visible"}, "writes"),
        ("decider", {"sharing": ["states"]}, "sharing"),
        ("probe", {"endpoint": "http://elsewhere"}, "sharing"),
        ("decider", {"window": "always"}, "window"),
        ("decider", {"fallback": "retry"}, "fallback"),
        ("decider", {"endpoint": "elsewhere"}, "endpoint"),
    ],
)
def test_a_role_that_breaks_the_contract_is_refused(name: str, change: dict[str, Any], field: str) -> None:
    body = shipped("roles")
    body["roles"][name] |= change
    with pytest.raises(DocumentError) as caught:
        check_saved("roles", parse("roles", body), documents())
    assert caught.value.path == f"roles.{name}.{field}"


@pytest.mark.spec("ROL-004")
def test_what_a_role_is_given() -> None:
    there = contracts(parse("roles", shipped("roles")))  # type: ignore[arg-type]
    assert may_share(there["reasoner"], "f" * 64) == ("text", "tokens")
    assert may_share(there["probe"], "f" * 64) == ("states",)
    assert may_share(there["narrator"], "f" * 64) == ("text",)
    narrator = StoredRole(kind="clerk", tokenizer_sha256="f" * 64, sharing=("text", "tokens"))
    assert may_share(contract("narrator", narrator), "f" * 64) == ("text", "tokens")
    assert may_share(contract("narrator", narrator), "e" * 64) == ("text",)


@pytest.mark.spec("CFG-016")
def test_a_claim_of_the_residency_document_wins() -> None:
    own = documents()
    roles = Roles(roles={"decider": StoredRole(memory_claim_gib=9, window="idle")})
    assert replace(own, roles=roles).contracts["decider"].memory_claim_gib == 3
    free = replace(own, roles=roles, residency=Residency(floor_gib=2, claims={}))
    assert free.contracts["decider"].memory_claim_gib == 9
    assert (own.residency.floor_gib, own.residency.margin_gib) == (None, None)
    assert own.residency.claims == {"decider": 3.0, "narrator": 6.0} == Residency().claims


@pytest.mark.spec("CFG-016")
def test_an_absent_section_of_the_deciders_reads_as_its_defaults() -> None:
    found = parse("deciders", {})
    assert isinstance(found, Deciders)
    assert (found.on_start, found.on_demand, found.api.mode, found.api.deadline_ms) == ((), (), "on", 15_000)
    assert documents().deciders.questions == {"judge": "auto", "laya_api": "auto"}
    bad: list[dict[str, Any]] = [{"questions": {"judge": ""}}, {"api": {"deadline_ms": 60_001}}, {"on_start": "laya"}]
    for body in (*bad, {"claims": {}}):
        with pytest.raises(DocumentError):
            parse("deciders", body)
    with pytest.raises(DocumentError):
        parse("residency", {"claims": {"decider": -1}})


@pytest.mark.spec("ROL-007")
def test_the_tester_is_built_in() -> None:
    found = contracts(Roles(roles={}))
    assert found["tester"].kind == "decider"
    assert found["tester"].latency_budget_ms == 100
