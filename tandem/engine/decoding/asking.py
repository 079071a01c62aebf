"""A hidden question: what its row says of the options, and one about a prompt, asked before its turn (ENG-042).

Such a question is read in a sequence of its own, over the turn's prompt up to a parting point. The turn then resumes at
the last grid line before that point, on rows that a cold run would have written alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tandem.engine.errors import NumericalError
from tandem.engine.text.asking import asking_prompt
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Engine, RowsT, SeqT

__all__ = ["ask_in_prompt", "shares_of"]


def ask_in_prompt(
    engine: Engine[SeqT, RowsT], prompt: Prompt, parting: int, question: Sequence[int], options: Sequence[int]
) -> tuple[float, ...]:
    """Probabilities of `options` after the first `parting` rows of `prompt` and the ids of `question`.

    No sequence may be open on an engine that holds one at a time. Raises `EngineError` as the verbs do, and whatever
    happens closes what it opened.
    """
    asking = asking_prompt(prompt, parting, question)
    seq = engine.open(asking)
    try:
        while engine.prefill(seq, len(asking.ids)).done < len(asking.ids):
            pass
        return engine.ask(seq, (), options)
    finally:
        engine.close(seq)


def shares_of(row: Tensor, options: Sequence[int], position: int) -> tuple[float, ...]:
    """The softmax of a row (vocab) over `options`. `NumericalError` carries `position`, its place in the sequence."""
    scores = row[torch.tensor(options)].double()
    if not scores.isfinite().all():
        raise NumericalError(position)
    return tuple(torch.softmax(scores, dim=0).tolist())
