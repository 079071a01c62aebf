"""Tools as clients declare them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["BASH", "SEARCH", "WRITE", "function"]


def function(name: str, description: str = "", **arguments: Any) -> Mapping[str, Any]:
    """A function tool; each argument is its schema, or its type."""
    properties = {key: {"type": value} if isinstance(value, str) else value for key, value in arguments.items()}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


BASH = function("bash", command="string", timeout="integer")
WRITE = function("write", filePath="string", content="string")
SEARCH = function("search", query="string")
