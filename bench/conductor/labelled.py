"""The labelled prompts: what a person sends, and the class it is meant to have.

A line of `prompts.jsonl` has `label`, `language` (en, de), `text` and `kind`:

- `short`: nothing but the request;
- `long`: a request at the end, or with `place: start` at the beginning, of `material`, a text that is no part of it;
- `followup`: said in a session whose class so far is `previous`;
- `smell`: prose that smells of code, or code of prose;
- `structural`: a client's compaction request in the shape that `shape` names, which nothing is asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from tandem.conductor.router.compaction import COMPACTION_SHAPES

__all__ = ["KINDS", "Labelled", "Message", "labelled_prompts", "material", "messages_of", "text_of"]

HERE = Path(__file__).parent
KINDS = ("short", "long", "followup", "smell", "structural")
DONE = {"en": "Done, here it is.", "de": "Erledigt, bitte sehr."}

Message = dict[str, Any]


class Labelled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One prompt."""

    label: str
    language: Literal["en", "de"]
    kind: Literal["short", "long", "followup", "smell", "structural"]
    text: str
    material: str | None = None
    place: Literal["start", "end"] = "end"
    """Where the request stands in its material."""
    previous: str | None = None
    shape: Literal["opencode", "agent"] | None = None


@cache
def labelled_prompts() -> tuple[Labelled, ...]:
    lines = (HERE / "prompts.jsonl").read_bytes().splitlines()
    return tuple(msgspec.json.decode(line, type=Labelled) for line in lines)


@cache
def material(name: str) -> str:
    return (HERE / "material" / f"{name}.txt").read_text(encoding="utf-8")


def text_of(prompt: Labelled) -> str:
    """The message with its material."""
    if prompt.material is None:
        return prompt.text
    parts = (prompt.text, material(prompt.material))
    return "\n\n".join(parts if prompt.place == "start" else reversed(parts))


def messages_of(prompt: Labelled) -> Sequence[Message]:
    """The conversation that ends with the prompt: a follow-up has a turn of its previous class before it."""
    newest: Message = {"role": "user", "content": text_of(prompt)}
    if prompt.shape == "agent":
        return ({"role": "system", "content": COMPACTION_SHAPES[0]}, newest)
    if prompt.previous is None:
        return (newest,)
    answer: Message = {"role": "assistant", "content": DONE[prompt.language]}
    return ({"role": "user", "content": _openers()[prompt.language, prompt.previous]}, answer, newest)


@cache
def _openers() -> Mapping[tuple[str, str], str]:
    """The first short prompt of each language and class."""
    shorts = [prompt for prompt in labelled_prompts() if prompt.kind == "short"]
    return {(prompt.language, prompt.label): prompt.text for prompt in reversed(shorts)}
