"""Packages: texts that a turn carries because of its class, and which of them fit its tools (PKG-001 to PKG-011)."""

__all__: list[str] = []
