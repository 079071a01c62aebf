"""One run over each kind of tiny model, and what a build once gave for it: `recorded.json` (ENG-072).

`python -m tests.engine.decoding.recorded` records it anew, which is for a change that is meant to move numbers.

Bytes are no good record: torch's kernels differ from processor to processor in the last bits. So of all the logits of a
step, and of all that the sequence's state holds after it, the products with a few fixed random vectors are kept. Every
number has its part in each of them, and any change of one moves them all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tandem.engine.decoding.sequence import TorchSequence
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.tree import chain
from tandem.engine.verbs import EMPTY_TREE, Tree
from tests.engine.decoding.engines import GREEDY, KIND, KINDS, PROMPT, read, rounds, tiny_engine
from tests.engine.models.memory import VOCAB

__all__ = ["NEAR", "RECORD", "Step", "run", "sketch", "text_of"]

RECORD = Path(__file__).with_suffix(".json")
NEAR = 1e-5
"""Of a record, as a share of the norm of what it is one of."""
_VECTORS = 12


@dataclass(frozen=True, slots=True)
class Step:
    """What a step of the run gave, and what the sequence held after it."""

    logits: Tensor  # (rows, vocab)
    state: Tensor  # (numbers)


def text_of(engine: TorchEngine, count: int = 12) -> list[int]:
    """The plain greedy answer."""
    seq = read(engine, PROMPT)
    text = rounds(engine, seq, count)
    engine.close(seq)
    return text


def run(engine: TorchEngine, text: Sequence[int]) -> Mapping[str, Step]:
    """All that may happen to a sequence: prefill, decode, block verify, rollback, tree verify, commit."""
    seq, steps = read(engine, PROMPT), dict[str, Step]()

    def taken(name: str, logits: Tensor) -> None:
        steps[name] = Step(logits.clone(), held(engine, seq))

    def verify(tree: Tree) -> Any:
        [rows] = engine.verify([(seq, tree)])
        return rows

    taken("prefill", verify(EMPTY_TREE).logits[None])
    rounds(engine, seq, 3)
    taken("decode", verify(EMPTY_TREE).logits[None])
    assert engine.accept(seq, verify(EMPTY_TREE), GREEDY).ids == (text[3],)
    rows = verify(chain([*text[4:6], _other(text[6]), 7]))
    taken("block verify", torch.cat((rows.logits[None], rows.below)))
    assert engine.accept(seq, rows, GREEDY).ids == tuple(text[4:7])
    engine.trim(seq, 1)
    engine.settle(seq)
    taken("rollback", verify(EMPTY_TREE).logits[None])
    assert engine.accept(seq, verify(EMPTY_TREE), GREEDY).ids == (text[5],)
    rows = verify(Tree((9, text[6], 11, text[7], _other(text[8]), 3), (-1, -1, 0, 1, 3, 1)))
    taken("tree verify", torch.cat((rows.logits[None], rows.below)))
    assert engine.accept(seq, rows, GREEDY).ids == tuple(text[6:9])
    engine.settle(seq)
    taken("commit", verify(EMPTY_TREE).logits[None])
    engine.close(seq)
    return steps


def held(engine: TorchEngine, seq: TorchSequence) -> Tensor:
    """All that the sequence has in its model; unlike a copy of the state this settles nothing and drops no verify."""
    rows, recurrent = engine._state.kv.copy(seq.length), engine._state._recurrent
    memory = [each for layer in recurrent.layers for each in layer]
    return torch.cat([each.flatten() for each in (rows.keys, rows.values, *memory)])


def sketch(numbers: Tensor) -> list[float]:
    """The norm of some numbers, and their products with fixed random vectors."""
    wide = numbers.flatten().double()
    vectors = torch.randn(_VECTORS, len(wide), generator=torch.Generator().manual_seed(72)).double()
    return [round(each, 6) for each in (float(wide.norm()), *(vectors @ wide).tolist())]


def _other(token: int) -> int:
    return (token + 1) % VOCAB


def _record() -> dict[str, Any]:
    engine = tiny_engine()
    text = text_of(engine)
    steps = run(engine, text)
    sketches = {name: {"logits": sketch(step.logits), "state": sketch(step.state)} for name, step in steps.items()}
    return {"text": text, "steps": sketches}


def _main() -> None:
    torch.set_num_threads(1)
    kinds = dict[str, Any]()
    for kind in KINDS:
        KIND.set(kind)
        kinds[kind] = _record()
    RECORD.write_text(json.dumps(kinds, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _main()
