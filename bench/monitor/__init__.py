"""How well and how cheaply the monitor's guards tell an endless text from one that merely repeats itself."""

__all__: list[str] = []
