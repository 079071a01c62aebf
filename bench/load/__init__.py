"""Many clients at once against a real server: `python -m bench load` and `python -m bench soak`."""

__all__: list[str] = []
