"""The reading line: a message that can be read in two ways is built in one, and the answer says in which (RTR-017).

It never makes the model stop to ask: a wrong guess costs the user one correction, a question costs every user a wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tandem.conductor.documents.router import Reading

__all__ = ["SENTENCE", "reading_line"]

SENTENCE: Final = (
    "The request is read as {picked}, not {other}: make {picked}. Open the answer with one short line that says so and "
    "invites a correction, then go on without waiting for one."
)


def reading_line(rules: Reading, picked: str, shares: Mapping[str, float]) -> tuple[str, Mapping[str, Any]] | None:
    """The sentence and what the row says of it; None where nothing was in doubt or no words are at hand."""
    confidence = shares.get(picked)
    if rules.mode == "off" or confidence is None or confidence >= rules.below or picked not in rules.phrases:
        return None
    others = {name: share for name, share in shares.items() if name != picked and share >= rules.other}
    rivals = [name for name in others if name in rules.phrases]
    if not rivals:
        return None
    other = max(rivals, key=others.__getitem__)
    told = {"mode": rules.mode, "class": picked, "share": confidence, "other": other, "other_share": others[other]}
    return SENTENCE.format(picked=rules.phrases[picked], other=rules.phrases[other]), told
