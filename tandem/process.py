"""What this process takes of the machine, as the kernel tells it; no state.

`tandem.engine.memory` is about the machine as a whole.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["memory_of"]

_PROC = Path("/proc")


def memory_of(proc: Path = _PROC) -> dict[str, int]:
    """`resident` and `peak` bytes in RAM; each is missing where the system does not say."""
    try:
        lines = (proc / "self/status").read_text().splitlines()
    except OSError:
        return {}
    values = {key: rest.split() for key, _, rest in (line.partition(":") for line in lines)}
    named = {"resident": "VmRSS", "peak": "VmHWM"}
    return {name: int(values[key][0]) * 1024 for name, key in named.items() if key in values}
