"""What a system prompt must hold for a task to have its say (MON-085, MON-120)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tandem.conductor.monitor.events import RequestEvent, Task
from tandem.conductor.router.turns import HEADLESS, text_of

__all__ = ["REQUIRES", "keeps_state_files", "required_system"]

REQUIRES: Final[Mapping[str, Any]] = {
    "type": "string",
    "format": "regex",
    "minLength": 1,
    "description": "What the system prompt of such a project holds.",
}
"""Schema of the parameter `requires`."""


def required_system(task: Task, req: RequestEvent) -> str | None:
    """The system prompt, where it holds what the task requires."""
    system = "\n\n".join(text_of(message) for message in req.messages if message["role"] in HEADLESS)
    return system if re.search(task.params["requires"], system) else None


def keeps_state_files(task: Task, req: RequestEvent) -> bool:
    """There are tools, and by its system prompt the project keeps files of its state."""
    return bool(req.tools) and required_system(task, req) is not None
