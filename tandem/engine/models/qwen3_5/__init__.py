"""Hybrid decoders of the Qwen3.5 family: Gated DeltaNet (arXiv:2412.06464) in most layers, attention in the others."""

from tandem.engine.models.qwen3_5.load import load_qwen3_5
from tandem.engine.models.qwen3_5.model import Qwen35Model

__all__ = ["Qwen35Model", "load_qwen3_5"]
