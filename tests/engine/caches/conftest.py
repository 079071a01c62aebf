"""What holds for the tests of this folder."""

from __future__ import annotations

from tests.engine.decoding.conftest import kind, one_thread

__all__ = ["kind", "one_thread"]
