"""Tandem: a single-process LLM server for agents."""

__all__ = ["__version__"]

__version__ = "0.1.0"
