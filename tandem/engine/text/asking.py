"""The prompt of a hidden question about a conversation: the turn's own up to a parting point, then the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tandem.engine.text.prompt import Prompt, Span

__all__ = ["asking_prompt"]


def asking_prompt(prompt: Prompt, parting: int, question: Sequence[int]) -> Prompt:
    """The prompt of such a question: the first `parting` rows of the turn's, then the ids of `question`.

    It is of the turn's session: what the rows hold hidden comes back before the question as before the turn (ENG-111).
    """
    if not 0 < parting <= len(prompt.ids) or not question:
        raise ValueError(f"a question needs ids, and a parting point within the {len(prompt.ids)} rows, not {parting}")
    ids = (*prompt.ids[:parting], *question)
    before = (replace(span, end=min(span.end, parting)) for span in prompt.spans if span.start < parting)
    spans = (*before, Span("question", parting, len(ids)))
    images = tuple(image for image in prompt.images if image.start < parting)
    if images and images[-1].stop > parting:
        raise ValueError(f"row {parting} is inside an image; a question comes before or after it")
    return replace(prompt, ids=ids, spans=spans, insertion=parting, images=images, head=0, turn_ends=None)
