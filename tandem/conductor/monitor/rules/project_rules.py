"""C2: what a project does not want: writes outside its root or to protected paths, and rules of its own (MON-085).

It applies where the system prompt says so; the root is what `root` finds there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.call_findings import REGENERATIONS, about, arguments_of, rewritten, words_in
from tandem.conductor.monitor.events import Task, ToolCallEvent, View
from tandem.conductor.monitor.requiring import REQUIRES, required_system
from tandem.conductor.monitor.stopped_calls import shown_name
from tandem.conductor.monitor.tier0 import register, text
from tandem.conductor.monitor.tool_effects import is_writer
from tandem.conductor.tool_arguments import PATHS, declared, texts_in

__all__ = ["project_rules"]

LOOKED_AT: Final = 16_384
"""Characters of a text that the rules are held against, from its beginning."""
OUTSIDE, PROTECTED = "outside_root", "protected"
RULE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,31}$"},
        "match": {"type": "string", "format": "regex", "minLength": 1},
        "reminder": {**text("rule", "tool"), "description": "What the model reads in place of a result."},
    },
    "required": ["id", "match", "reminder"],
    "additionalProperties": False,
}


def holds(task: Task, view: View) -> bool:
    """There are calls to make, and the project has rules."""
    return bool(view.req.tools) and required_system(task, view.req) is not None


@register(
    "project_rules",
    "SP3",
    params={
        "requires": REQUIRES,
        "root": {
            "type": "string",
            "format": "regex",
            "description": "Its first group is the project's root in the system prompt. Blank: writes may go anywhere.",
        },
        "protected": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "description": "Globs of paths, below the root or whole, that are not written to; * goes over slashes.",
        },
        "rules": {"type": "array", "items": RULE, "description": "Held against every text in the arguments."},
        "reminder": {**text("rule", "tool"), "description": "The same, for root and protected paths."},
        "regenerations": REGENERATIONS,
    },
    required=("requires", "root", "protected", "rules", "reminder", "regenerations"),
    doc="Holds back calls against the project's rules.",
    holds=holds,
)
def project_rules(event: ToolCallEvent, task: Task, view: View) -> Action | None:
    if not event.final or event.why is not None:
        return None
    system = required_system(task, view.req)
    if system is None:
        return None
    arguments = arguments_of(event)
    rule, reminder = _path_rule(event, arguments, task, view, system), task.params["reminder"]
    if rule is None:
        own = next(_own_rules(arguments, task), None)
        if own is None:
            return None
        rule, reminder = own["id"], own["reminder"]
    reminder = reminder.format(rule=rule, tool=shown_name(event.name))
    return rewritten(task, view, f"project({rule})", reminder, about(event, rule=rule))


def _path_rule(event: ToolCallEvent, arguments: Mapping[str, Any], task: Task, view: View, system: str) -> str | None:
    """The rule against where the call would write."""
    tool = declared(view.req.tools, event.name)
    if tool is None or not is_writer(tool):
        return None
    found = re.search(task.params["root"], system) if task.params["root"] else None
    root = None if found is None else posixpath.normpath(_slashes(found[1].strip()))
    for path in texts_in(arguments, PATHS):
        whole = posixpath.normpath(posixpath.join(root or "", _slashes(path)))
        inside = root is None or whole == root or whole.startswith(root.rstrip("/") + "/")
        if not inside:
            return OUTSIDE
        below = whole if root is None else posixpath.relpath(whole, root)
        if any(fnmatchcase(each, glob) for glob in task.params["protected"] for each in (below, f"/{below}", whole)):
            return PROTECTED
    return None


def _own_rules(arguments: Mapping[str, Any], task: Task) -> Iterator[Mapping[str, Any]]:
    words = [each[:LOOKED_AT] for each in words_in(arguments)] if task.params["rules"] else []
    for rule in task.params["rules"]:
        search = re.compile(rule["match"]).search
        if any(map(search, words)):
            yield rule


def _slashes(path: str) -> str:
    return path.replace("\\", "/")
