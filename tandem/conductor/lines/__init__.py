"""State lines (docs/spec/monitor.md, part B): what they say, how they are framed, and how they are found again."""

__all__: list[str] = []
