"""The monitor document: versioned here, and read by the monitor alone (CFG-009).

Version 0 is the monitor's policy file. Its keys and parameters belong to the monitor's rules, which check them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["MonitorDocument"]

MonitorDocument: TypeAlias = dict[str, Any]
