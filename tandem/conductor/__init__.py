"""The conductor: what a turn is, what the model is told, what is done about it."""

__all__: list[str] = []
