"""Endless outputs of every kind, each with the number of tokens behind its beginning by which a guard has to fire."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from bench.monitor.outputs import Place, sentence

__all__ = ["Loop", "drifting_paragraphs", "endless_outputs"]

Within: TypeAlias = Callable[[int], int]
"""Tokens after the beginning of the loop, by the tokens of one unit."""


@dataclass(frozen=True, slots=True)
class Loop:
    """`head` is sound, then `units` follow one another."""

    kind: str
    place: Place
    head: str
    units: tuple[str, ...]
    within: Within


def endless_outputs(share: int = 1, seed: int = 2) -> Iterator[Loop]:
    """293 of them; with `share` every so-manieth."""
    wanted = [(kind, one) for kind, (count, *_) in MAKERS.items() for one in range(count)]
    for kind, one in wanted[::share]:
        _, place, within, make = MAKERS[kind]
        head, units = make(random.Random(f"{seed} {kind} {one}"))
        yield Loop(kind, place, head, tuple(units), within)


def _short_ids(unit: int) -> int:
    """D1's period: 256 tokens of copies, at two checks 64 tokens apart, none before the 512th token."""
    return 512 + 256 + unit + 2 * 64


def _novelty(unit: int) -> int:
    """D1's novelty: nine tenths of 1,024 tokens have stood three times before, at two checks."""
    return 1_024 + 3 * unit + 3 * 64


def _exact(unit: int) -> int:
    """The long form: 1,024 tokens and six copies."""
    return max(1_024, 6 * unit) + unit + 64


def _three_copies(unit: int) -> int:
    """The short form, for units of 256 characters and more; no block is looked at before its 1,024th token."""
    return max(1_024, 3 * unit + 64)


def _passages(unit: int) -> int:
    """D1's drift: the last five of six passages and more, at two checks."""
    return 10 * unit + 3 * 64


def _size(unit: int) -> int:
    """A1's size: behind 32,768 tokens."""
    return 32_768 + 64


def _head(rng: random.Random) -> str:
    return "\n\n".join(" ".join(sentence(rng, 9) for _ in range(3)) for _ in range(rng.randrange(0, 12)))


def _token(rng: random.Random) -> tuple[str, list[str]]:
    return _head(rng), [rng.choice(("items ", " the", "0", "!", "ha", "\n", " -"))] * 3_000


def _line(rng: random.Random) -> tuple[str, list[str]]:
    return _head(rng), [sentence(rng, rng.randrange(3, 20)) + "\n"] * 700


def _lines(rng: random.Random) -> tuple[str, list[str]]:
    unit = "".join(sentence(rng, rng.randrange(3, 14)) + "\n" for _ in range(rng.randrange(3, 12)))
    return _head(rng), [unit] * 120


def _paragraphs(rng: random.Random) -> tuple[str, list[str]]:
    unit = " ".join(sentence(rng, 12) for _ in range(rng.randrange(6, 12))) + "\n\n"
    return _head(rng), [unit] * 40


def _counters(rng: random.Random) -> tuple[str, list[str]]:
    """Prose with a counter in it that goes on."""
    form = f"Step {{}}: {sentence(rng, 16)} {sentence(rng, 12)}\n\n"
    return _head(rng), [form.format(at) for at in range(1, 200)]


def _growing(rng: random.Random) -> tuple[str, list[str]]:
    """Each line is the one before and a word."""
    words = [sentence(rng, 1)[:-1].lower() for _ in range(60)]
    return _head(rng), ["The list is: " + ", ".join(words[:at]) + ".\n" for at in range(1, 61)]


def drifting_paragraphs(rng: random.Random) -> tuple[str, list[str]]:
    """One paragraph again and again, with a few other words each time: about 80 % of the trigrams stay (H-02)."""
    words = sentence(rng, rng.randrange(60, 90))[:-1].split()
    units = []
    for _ in range(24):
        units.append("Wait, " + " ".join(words) + ".\n\n")
        for _ in range(round(len(words) * 0.065)):
            words[rng.randrange(len(words))] = sentence(rng, 1)[:-1].lower()
    return _head(rng), units


def _written(rng: random.Random, unit: str, copies: int) -> tuple[str, list[str]]:
    head = '{"path": "src/level.js", "content": "' + json.dumps(_head(rng))[1:-1]
    return head, [json.dumps(unit)[1:-1]] * copies


def _row_in_call(rng: random.Random) -> tuple[str, list[str]]:
    row = "".join(rng.choices("#.~T", k=rng.randrange(20, 90)))
    return _written(rng, f'  "{row}",\n', 200)


def _word_in_call(rng: random.Random) -> tuple[str, list[str]]:
    return _written(rng, rng.choice(("items ", "very ", "0, ", "a")), 4_000)


def _frame_in_call(rng: random.Random) -> tuple[str, list[str]]:
    unit = "".join(
        f'  {{ x: {rng.randrange(99)}, name: "{sentence(rng, 2)}" }},\n' for _ in range(rng.randrange(9, 30))
    )
    return _written(rng, unit, 30)


def _escaped_in_call(rng: random.Random) -> tuple[str, list[str]]:
    """JSON inside JSON inside the call."""
    unit = json.dumps(json.dumps({"id": 7, "text": sentence(rng, 8), "next": "\n\t"}))
    return _written(rng, unit, 150)


def _counter_in_call(rng: random.Random) -> tuple[str, list[str]]:
    form = f"    // step {{}}: {sentence(rng, 14)} {sentence(rng, 14)}\\n"
    return '{"path": "a.js", "content": "', [form.format(at) for at in range(2_600)]


Maker: TypeAlias = Callable[[random.Random], tuple[str, list[str]]]
MAKERS: Final[Mapping[str, tuple[int, Place, Within, Maker]]] = {
    "one token, thought": (20, "reasoning", _short_ids, _token),
    "one line, thought": (20, "reasoning", _short_ids, _line),
    "lines, thought": (20, "reasoning", _novelty, _lines),
    "paragraphs, thought": (20, "reasoning", _novelty, _paragraphs),
    "counters, thought": (20, "reasoning", _novelty, _counters),
    "growing, thought": (20, "reasoning", _novelty, _growing),
    "drift, thought": (30, "reasoning", _passages, drifting_paragraphs),
    "one token": (20, "answer", _exact, _token),
    "one line": (20, "answer", _exact, _line),
    "lines": (20, "answer", _exact, _lines),
    "paragraphs": (10, "answer", _exact, _paragraphs),
    "one word in a call": (10, "call", _exact, _word_in_call),
    "one row in a call": (20, "call", _exact, _row_in_call),
    "frames in a call": (20, "call", _three_copies, _frame_in_call),
    "escaped JSON in a call": (20, "call", _exact, _escaped_in_call),
    "counters in a call": (3, "call", _size, _counter_in_call),
}
"""How many of each kind, where, and how soon they are to be found."""
