"""The routes, one blueprint a file."""

__all__: list[str] = []
