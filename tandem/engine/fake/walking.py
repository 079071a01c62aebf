"""What the fake reads of a prompt, and the walk of its rows, as a real engine walks them (ENG-059, ENG-187)."""

from __future__ import annotations

from collections.abc import Sequence, Set

from tandem.engine.errors import BadInput, EngineError
from tandem.engine.fake.row import pick
from tandem.engine.fake.script import Piece, Script
from tandem.engine.fake.sequence import FakeRows, FakeSeq
from tandem.engine.fake.text import FakePrompt, FakeText
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import SamplingRules, TokenLogprob

__all__ = ["script_of", "tokens_of", "walk"]


def walk(seq: FakeSeq, rows: FakeRows, rules: SamplingRules, end_ids: Set[int]) -> tuple[list[int], list[TokenLogprob]]:
    """From the root into the child that carries the token taken, as far as there is one (ENG-059)."""
    children = {pair: node for node, pair in enumerate(zip(rows.tree.parents, rows.tree.tokens, strict=True))}
    ids: list[int] = []
    logprobs: list[TokenLogprob] = []
    node: int | None = -1
    while node is not None:
        token, logprob = pick(rows.scripted[len(ids)], rules, seq.prompt.ids, seq.output, ids)
        ids.append(token)
        if logprob is not None:
            logprobs.append(logprob)
        is_end = token in end_ids or token in rules.end_ids
        node = None if is_end else children.get((node, token))
    return ids, logprobs


def tokens_of(text: FakeText, say: Sequence[Piece]) -> tuple[int, ...]:
    ids = text.vocabulary.ids
    return tuple(token for piece in say for token in ((piece,) if isinstance(piece, int) else ids(piece)))


def script_of(text: FakeText, prompt: Prompt) -> Script:
    """The script that came with the prompt; a prompt that the fake's text model did not make is read for one."""
    if isinstance(prompt, FakePrompt):
        return prompt.script
    try:
        return text.read(prompt.ids).script
    except BadInput as error:
        raise EngineError(str(error)) from None
