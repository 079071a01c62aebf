"""The router: everything that is decided about a request before the model reads it."""

__all__: list[str] = []
