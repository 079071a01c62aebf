"""Scripts that check or generate parts of the project; `make` runs them."""

__all__: list[str] = []
