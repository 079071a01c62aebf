"""What a plan's decisions change: the part of them that the mode and the profile let through (PRF-010 to PRF-014)."""

from __future__ import annotations

from dataclasses import replace

from tandem.conductor.router.classes import code_classes
from tandem.conductor.router.draft import Draft
from tandem.conductor.router.plan import Effects
from tandem.conductor.sampling import GREEDY

__all__ = ["effects_of"]


def effects_of(draft: Draft) -> tuple[Effects, tuple[str, ...]]:
    """The effects, and the kinds of those that `prompt: client` left out (PRF-014)."""
    prepared = draft.prepared
    resolution = prepared.resolution
    mask = resolution.lowered(resolution.profile.secret_mask)
    if not draft.is_on:
        return Effects(secret_mask=mask), ()
    effects = Effects(under_plan=True, secret_mask=mask, sampling=draft.sampling, drop_ngram=_drops_ngram(draft))
    if draft.turn == "text":
        return Effects(), ()
    if draft.side is not None:
        effects = replace(effects, side=draft.side, limit=draft.side.cap, close_thinking=not draft.side.thinking)
    else:
        effects = _with_effort(_with_prompt(effects, draft), draft)
    return _client_prompt(effects, draft) if resolution.keeps_prompt else (effects, ())


def _with_prompt(effects: Effects, draft: Draft) -> Effects:
    return replace(
        effects,
        replays=draft.carried.replays,
        note=draft.carried.new,
        hidden_session=draft.session.key if draft.turn != "compaction" else None,
    )


def _with_effort(effects: Effects, draft: Draft) -> Effects:
    effort = draft.effort
    if effort is None or effort.level is None or draft.switches["effort"] != "on":
        return effects
    closes = effort.thinking == "off"
    return replace(
        effects,
        close_thinking=closes,
        decides_cap=effort.thinking == "on",
        cap=effort.cap,
        is_clients_cap=effort.budget_source == "client",
    )


def _drops_ngram(draft: Draft) -> bool:
    """The client's own n-gram rule would forbid what code is made of (SMP-009)."""
    facts, decided = draft.prepared.facts, draft.class_decision
    is_code = decided is not None and decided.class_id in code_classes(draft.prepared.documents.router)
    return bool(facts.ngram) and (is_code or facts.offers_tools)


def _client_prompt(effects: Effects, draft: Draft) -> tuple[Effects, tuple[str, ...]]:
    """The effects that leave prompt and budget as the client sent them."""
    parts = effects.note.parts if effects.note is not None else ()
    there = {
        "note": bool(effects.replays) or any(part.kind == "class" for part in parts),
        "identity": any(part.kind == "identity" for part in parts),
        "moved_tool": draft.prepared.moved is not None,
        "router_budget": effects.decides_cap,
        "closed_think": effects.close_thinking,
        "side": effects.side is not None,
        "regenerate": effects.sampling.why == "regenerate",
    }
    kept = Effects(
        under_plan=True,
        secret_mask=effects.secret_mask,
        drop_ngram=effects.drop_ngram,
        sampling=GREEDY if there["regenerate"] else effects.sampling,
    )
    return kept, tuple(kind for kind, is_there in there.items() if is_there)
