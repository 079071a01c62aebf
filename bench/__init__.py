"""Measurements; never part of a timed test."""

__all__: list[str] = []
