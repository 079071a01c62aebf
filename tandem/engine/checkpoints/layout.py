"""From a checkpoint's tensor names to canonical ones (ENG-019)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DECODER", "Layout", "decoder_layout"]


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


_TOWERS = ("visual.", "vision_tower.", "vision_model.", "multi_modal_projector.")
_MTP = ("mtp.",)
_BUFFERS = (
    ".rotary_emb.inv_freq",
    ".attn.masked_bias",
    # Scales of activations and of a cache in 8 bits: both stay in 16 bits or more.
    ".input_scale",
    ".input_global_scale",
    ".output_scale",
    ".k_scale",
    ".v_scale",
)


def decoder_layout(*, vision: bool = False, mtp: bool = False) -> Layout:
    """Decoders as Hugging Face lays them out, alone or inside a vision model.

    `vision` keeps the tower, whose canonical names begin with `visual.`; `mtp` the layer that drafts, `mtp.`.
    """
    return Layout(
        wrappers=("model.language_model.", "language_model.model.", "language_model.", "model."),
        skipped=(*(() if vision else _TOWERS), *(() if mtp else _MTP)),
        buffers=_BUFFERS,
    )


DECODER = decoder_layout()
"""The decoder alone."""
