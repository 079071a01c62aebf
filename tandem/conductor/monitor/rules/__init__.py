"""The rules of the monitor, one a file; importing this package registers them all."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

__all__ = ["MODULES"]

MODULES: Final = tuple(importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__))
