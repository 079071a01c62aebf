"""The monitor's policy: modes, thresholds and wordings of its tasks, from a YAML file or the document `monitor`.

Reading one says all that is wrong with it at once, each problem with the path of its key (MON-013 to MON-018).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from tandem.conductor.monitor.checks import Problem, schema_problems, text_problems
from tandem.conductor.monitor.events import Task
from tandem.conductor.monitor.tier0 import Rule, registered

__all__ = [
    "Caps",
    "Notify",
    "NotYaml",
    "Policy",
    "PolicyError",
    "SessionRules",
    "body_of",
    "policy_of",
    "shipped_body",
    "shipped_text",
]

COMMON = ("id", "rule", "mode", "tier")


class NotYaml(Exception):
    """A policy that cannot be read at all; one line."""


class PolicyError(Exception):
    """A policy that is not valid."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How many acts there may be (MON-039)."""

    acts_per_request: int
    acts_per_session_hour: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRules:
    """How conversations are told apart where no router does it (MON-139)."""

    lineage_tokens: int
    join_window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Where the watch pushes to (MON-128)."""

    enabled: bool
    url: str
    token_file: str
    ca_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A valid policy."""

    revision: int
    caps: Caps
    sessions: SessionRules
    texts: Mapping[str, str | None]
    """`vendor_close` may be None: the model's own closing phrase."""
    templates: Mapping[str, str]
    tool_passes: Literal["off", "on"]
    """Whether an answer of clean calls gets a row (MON-083)."""
    notify: Notify
    tasks: tuple[Task, ...]
    """In the order of evaluation (MON-016)."""


def shipped_text() -> str:
    """The policy file that ships."""
    return (files("tandem.conductor.monitor") / "supervisor.yaml").read_text("utf-8")


@lru_cache(maxsize=1)
def _shipped_body() -> dict[str, Any]:
    return body_of(shipped_text())


def shipped_body() -> dict[str, Any]:
    """What stands in the file that ships: a copy of one's own, since the file takes a tenth of a second to read."""
    return deepcopy(_shipped_body())


def body_of(source: Path | str) -> dict[str, Any]:
    """What stands in a policy file, or in the text of one. Raises `NotYaml`, and `PolicyError` for duplicate keys."""
    try:
        text = source.read_text("utf-8") if isinstance(source, Path) else source
        yaml = YAML(typ="safe", pure=True)
        node = yaml.compose(StringIO(text))
        if duplicates := tuple(_duplicates(node, "")):
            raise PolicyError(duplicates)
        body = None if node is None else yaml.constructor.construct_document(node)
    except YAMLError as error:
        raise NotYaml(" ".join(str(error).split())) from None
    except OSError as error:
        raise NotYaml(error.strerror or type(error).__name__) from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise NotYaml(f"it is no YAML: {type(error).__name__}") from None
    if not isinstance(body, dict):
        raise NotYaml("it holds no mapping of keys to values")
    return body


def policy_of(body: Mapping[str, Any], rules: Mapping[str, Rule] | None = None) -> Policy:
    """The policy in `body`. Raises `PolicyError`."""
    rules = registered() if rules is None else rules
    problems = tuple(schema_problems(body, rules)) or tuple(text_problems(body, rules))
    if problems:
        raise PolicyError(problems)
    return Policy(
        revision=body["policy"],
        caps=Caps(**body["caps"]),
        sessions=SessionRules(**body["sessions"]),
        texts=dict(body["texts"]),
        templates=dict(body["templates"]),
        tool_passes=body["journal"]["tool_passes"],
        notify=Notify(**body["notify"]),
        tasks=tuple(_task(each) for each in body["tasks"]),
    )


def _task(entry: Mapping[str, Any]) -> Task:
    params = {name: value for name, value in entry.items() if name not in COMMON}
    return Task(id=entry["id"], rule=entry["rule"], mode=entry["mode"], tier=entry["tier"], params=params)


def _duplicates(node: Node | None, path: str) -> Iterator[Problem]:
    """The safe loader refuses these too, but names a line, and a document has none."""
    match node:
        case MappingNode():
            seen = set()
            for key, value in node.value:
                name = str(key.value)
                here = f"{path}.{name}" if path else name
                if name in seen:
                    yield Problem(here, name, "the key stands twice")
                seen.add(name)
                yield from _duplicates(value, here)
        case SequenceNode():
            for at, value in enumerate(node.value):
                yield from _duplicates(value, f"{path}[{at}]")
        case _:
            pass
