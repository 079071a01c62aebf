"""From a checkpoint's tensor names to canonical ones (ENG-019)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DECODER", "Layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """`wrappers`: prefixes of which the first that matches is stripped. `skipped`: what is not served, by rule.

    A name is skipped when, stripped, it starts with an entry of `skipped` or ends with one of `buffers`.
    """

    wrappers: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()

    def canonical(self, name: str) -> str | None:
        """The canonical name, None for a tensor that is not served."""
        for wrapper in self.wrappers:
            if name.startswith(wrapper):
                name = name.removeprefix(wrapper)
                break
        if name.startswith(self.skipped) or name.endswith(self.buffers):
            return None
        return name


DECODER = Layout(
    wrappers=("model.language_model.", "language_model.model.", "language_model.", "model."),
    skipped=("visual.", "vision_tower.", "vision_model.", "multi_modal_projector.", "mtp."),
    buffers=(".rotary_emb.inv_freq", ".attn.masked_bias"),
)
"""Decoders as Hugging Face lays them out, alone or inside a vision model."""
