"""Builder of tiny GGUF files (ENG-017); it is part of the engine, for `tandem models make-tiny`."""

from tandem.engine.tiny.gguf import build_gguf, pairs_of_halves

__all__ = ["build_gguf", "pairs_of_halves"]
