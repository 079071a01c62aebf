"""The monitor document: versioned here, and read by the monitor alone (CFG-009).

Version 0 is the monitor's policy file. Its keys and parameters are the monitor's rules', so `documents/checks.py` has
the policy's own reader look at it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["MonitorDocument"]

MonitorDocument: TypeAlias = dict[str, Any]
