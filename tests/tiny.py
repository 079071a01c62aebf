"""Builders of tiny checkpoints (ENG-017); they are part of the engine, for `tandem models make-tiny`."""

from tandem.engine.tiny.llama import build_llama, llama_config, llama_tensors
from tandem.engine.tiny.templates import CHATML, TOOL_CHATML
from tandem.engine.tiny.vocabulary import SPECIALS, tiny_tokenizer

__all__ = ["CHATML", "SPECIALS", "TOOL_CHATML", "build_llama", "llama_config", "llama_tensors", "tiny_tokenizer"]
