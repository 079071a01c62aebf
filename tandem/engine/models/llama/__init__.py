"""Decoders of the Llama family (arXiv:2302.13971, 2307.09288, 2407.21783)."""

from tandem.engine.models.llama.fit import declared_fit
from tandem.engine.models.llama.load import load_llama
from tandem.engine.models.llama.model import LlamaModel

__all__ = ["LlamaModel", "declared_fit", "load_llama"]
