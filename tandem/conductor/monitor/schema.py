"""The policy's JSON Schema, made of what the registered rules declare (MON-014, MON-015, MON-017)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tandem.conductor.monitor.tier0 import Rule, text

__all__ = ["policy_schema", "schema_text"]

SWITCH: Final = {"enum": ["off", "on"]}
TEXTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "vendor_close": {
        "type": ["string", "null"],
        "x-placeholders": [],
        "description": "Ends the reasoning; must hold the model's closing tag. null: the model's own closing phrase.",
    },
    "nudge": {**text(), "description": "Said to a turn that ended without an answer."},
    "nudge_again": {**text(), "description": "Said the second time."},
    "give_up": {**text(), "description": "What the client reads where the monitor ends a turn."},
    "answer_loop": {**text("unit", "copies"), "description": "The same, for an answer that repeats itself."},
}
TEMPLATES: Final[Mapping[str, Mapping[str, Any]]] = {
    "hidden_turn": {
        **text("text", needed=("text",)),
        "description": "Around what the model reads in a hidden user turn.",
    },
    "regen_turn": {
        **text("text", needed=("text",)),
        "description": "Around what it reads in place of the results of held calls.",
    },
}


def policy_schema(rules: Mapping[str, Rule]) -> dict[str, Any]:
    """The schema of a policy whose tasks have these rules."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The policy of Tandem's session monitor",
        **_object(
            {
                "policy": {"type": "integer", "minimum": 1, "description": "Revision of the policy."},
                "caps": _object(
                    {
                        "acts_per_request": _whole(1_000, "Acts in one request."),
                        "acts_per_session_hour": _whole(10_000, "Acts in a session within an hour."),
                    },
                    about="How often it may act.",
                ),
                "sessions": _object(
                    {
                        "lineage_tokens": _whole(1_000_000, "Prompt tokens that tell a conversation without an id."),
                        "join_window_s": {"type": "number", "minimum": 0, "description": "How long it is continued."},
                    },
                    about="How conversations without an id are told apart where no router does it.",
                ),
                "texts": _object(TEXTS, about="What it says where a task has no text of its own."),
                "templates": _object(TEMPLATES, about="Around what the model reads unseen."),
                "journal": _object(
                    {"tool_passes": {**SWITCH, "description": "A row for an answer of clean calls."}},
                    about="What is written down besides findings.",
                ),
                "notify": _object(
                    {
                        "enabled": {"type": "boolean", "description": "Whether the watch pushes."},
                        "url": {"type": "string", "description": "Where to; blank: TANDEM_NOTIFY_URL."},
                        "token_file": {"type": "string", "description": "File of the credential, below STATE."},
                        "ca_file": {"type": "string", "description": "Trust root; blank: the system's."},
                    },
                    about="Messages to somebody when a session's client is gone.",
                ),
                "tasks": {
                    "type": "array",
                    "items": _task(rules),
                    "description": "In the order of evaluation, which is the precedence among notes too.",
                },
            }
        ),
        "$defs": {name: _entry(rule) for name, rule in sorted(rules.items())},
    }


def schema_text(rules: Mapping[str, Rule]) -> str:
    """As the file beside the policy has it."""
    return json.dumps(policy_schema(rules), indent=2, ensure_ascii=False) + "\n"


def _task(rules: Mapping[str, Rule]) -> dict[str, Any]:
    chosen = [
        {
            "if": {"properties": {"rule": {"const": name}}, "required": ["rule"]},
            "then": {"$ref": f"#/$defs/{name}"},
        }
        for name in sorted(rules)
    ]
    return {
        "type": "object",
        "properties": {"rule": {"enum": sorted(rules)}},
        "required": ["id", "rule", "mode", "tier"],
        "allOf": chosen,
    }


def _entry(rule: Rule) -> dict[str, Any]:
    """A task of one rule."""
    common = {
        "id": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_.-]{0,31}$"},
        "rule": {"const": rule.name},
        "mode": {"enum": ["off", "shadow", "act"]},
        "tier": {"enum": [0, 1]},
    }
    described = {"description": f"{rule.doc} ({rule.safe_point})" if rule.doc else rule.safe_point}
    return described | _object({**common, **rule.params}, required=(*common, *rule.required))


def _object(
    properties: Mapping[str, Any], required: tuple[str, ...] | None = None, *, about: str | None = None
) -> dict[str, Any]:
    names = tuple(properties) if required is None else required
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(names),
        "additionalProperties": False,
        **({} if about is None else {"description": about}),
    }


def _whole(most: int, description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": most, "description": description}
