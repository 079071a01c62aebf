"""What the conductor's decisions are worth and cost: `python -m bench conductor` and `python -m bench sessions`."""

__all__: list[str] = []
