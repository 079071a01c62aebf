"""Where two prompts of one conversation part, and how many tokens that costs (ENG-177).

A follow-up that repeats its session's last prompt token for token can resume behind it. Where it does not, the first
token that differs is the one to look for: everything from there on is read again, however little of it has changed.
Both prompts are compared as caches compare them, by key ids, and without hidden tokens, which no client sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from tandem.engine.shared import shared_length
from tandem.engine.text.prompt import Prompt

__all__ = ["Parting", "client_keys", "parting"]


@dataclass(frozen=True, slots=True)
class Parting:
    """Counts are of client tokens: what the usage counts, and what a client can count itself."""

    position: int
    """The first token of the new prompt that is not the last one's; both have the same ones before it."""
    last: int
    """Tokens of the last prompt."""
    resumed: int
    """Tokens of the new prompt that a cache supplied."""
    read_again: int
    """Tokens that were read and would not have been, had the new prompt kept all of the last one's that it could."""


def client_keys(prompt: Prompt) -> tuple[int, ...]:
    """The key ids of the tokens that the client sent."""
    keys = prompt.keys
    if all(span.kind == "client" for span in prompt.spans):
        return keys
    return tuple(chain.from_iterable(keys[span.start : span.end] for span in prompt.spans if span.kind == "client"))


def parting(last: Sequence[int], prompt: Prompt, resumed: int) -> Parting | None:
    """What became of a follow-up whose prefill found `resumed` rows in a cache; `last` are the `client_keys` before.

    None where it repeats all of the last prompt, or only repeats: then nothing of the client's is to blame, but a grid
    line, a lost cache or a budget.
    """
    keys = client_keys(prompt)
    position = shared_length(last, keys)
    if position == min(len(last), len(keys)):
        return None
    found = min(prompt.client_tokens_before(resumed), position)
    return Parting(position, len(last), found, min(len(last), len(keys)) - found)
