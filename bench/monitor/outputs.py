"""Outputs as models write them, and none of them endless: real texts of this checkout, and seeded makers of what looks
like a loop without being one (H-05).
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

from bench.conductor.labelled import labelled_prompts

__all__ = ["EVERYWHERE", "Output", "Place", "WORDS", "normal_outputs", "sentence"]

Place: TypeAlias = Literal["reasoning", "answer", "call"]
EVERYWHERE: Final[tuple[Place, ...]] = ("reasoning", "answer", "call")
SHOWN: Final[tuple[Place, ...]] = ("answer", "call")
"""Where data is put out; nobody thinks in it for thousands of tokens."""
ROOT: Final = Path(__file__).parents[2]
SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "Python": ("tandem/**/*.py", "tests/**/*.py"),
    "documents": ("docs/**/*.md", "*.md", "bench/conductor/material/*.txt"),
    "JSON": ("tandem/contract/**/*.json", "ops/**/*.json"),
    "web pages": ("tandem/http/**/*.js", "tandem/http/**/*.css", "tandem/http/**/*.html"),
    "C and Triton": ("tandem/engine/native/*.c", "tandem/engine/kernels/*.py"),
}
_WORDS: Final = """
able account again against air animal answer area arm army art ball bank bird blue board boat body book bottom box
bread bridge bright build call carry center chair change city clean clear close cloud coast cold color corner count
country cover cross dark deep door draw dream drive early earth east edge engine evening eye face fall farm fast
field figure fire fish floor flower follow forest form garden glass gold grass great green ground hand harbor head
heart heavy hill history horse hour house ice inch island judge kitchen lake land language late leaf letter level
light line list machine map market measure metal middle minute mirror moment money moon morning mountain mouth music
name narrow night north number ocean office old open order paper park part past path pattern peace person picture
piece plain plan plant point power pressure process proof quick quiet rain reason record region result rich ring
river road rock room round sail salt sand school science sea season second sense shade shape ship shore short side
silver simple sky sleep slow small smoke snow soft song sound south space spring square stand star stone store storm
story stream street strong summer sun table tall temple test thing thought tower town tree turn valley value view
village voice wall warm watch water wave weather west wheel white wide wild wind window winter wood word work world
yard yellow young
"""
WORDS: Final = tuple(_WORDS.split())


@dataclass(frozen=True, slots=True)
class Output:
    """A text, and the places in which it is judged."""

    kind: str
    text: str
    places: tuple[Place, ...] = EVERYWHERE


def normal_outputs(share: int = 1, seed: int = 1) -> Iterator[Output]:
    """1,490 of them; with `share` every so-manieth."""
    wanted = [(kind, one) for kind, (count, _, _) in MAKERS.items() for one in range(count)]
    for kind, one in wanted[::share]:
        _, places, make = MAKERS[kind]
        yield Output(kind, make(random.Random(f"{seed} {kind} {one}")), places)


def sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words)).capitalize() + "."


@cache
def _paths(kind: str) -> tuple[Path, ...]:
    paths = (path for pattern in SOURCES[kind] for path in ROOT.glob(pattern))
    return tuple(sorted(path for path in paths if path.stat().st_size > 400))


def _slice(kind: str) -> Callable[[random.Random], str]:
    def make(rng: random.Random) -> str:
        text = rng.choice(_paths(kind)).read_text("utf-8", "replace")
        length = rng.choice((2_000, 6_000, 6_000, 12_000, 40_000))
        start = rng.randrange(max(1, len(text) - length))
        return text[start : start + length]

    return make


def _german(rng: random.Random) -> str:
    german = [prompt.text for prompt in labelled_prompts() if prompt.language == "de"]
    return "\n\n".join(rng.sample(german, 30))


def _minified(rng: random.Random) -> str:
    return "".join(line.strip() for line in _slice("web pages")(rng).splitlines())


def _base64(rng: random.Random) -> str:
    return base64.b64encode(rng.randbytes(rng.randrange(800, 5_000))).decode()


def _hex_dump(rng: random.Random) -> str:
    rows = [bytes(16) if rng.random() < 0.3 else rng.randbytes(16) for _ in range(rng.randrange(20, 90))]
    return "\n".join(f"{at * 16:08x}  {row.hex(' ')}" for at, row in enumerate(rows))


def _poem(rng: random.Random) -> str:
    refrain = "\n".join(sentence(rng, 7) for _ in range(rng.randrange(2, 5)))
    verses = ["\n".join(sentence(rng, 7) for _ in range(4)) for _ in range(rng.randrange(4, 16))]
    return "\n\n".join(f"{verse}\n{refrain}" for verse in verses)


def _table(rng: random.Random) -> str:
    columns = rng.randrange(3, 8)
    rows = [" | ".join(rng.choice(WORDS) for _ in range(columns)) for _ in range(rng.randrange(10, 60))]
    empty = " | ".join(["-"] * columns)
    return "\n".join(f"| {row} |" for row in [*rows, *[empty] * rng.randrange(2, 12), *rows[:3]])


def _zeros(rng: random.Random) -> str:
    """A numbered file of zeros; without the numbers it would be a loop from 1,024 tokens on (MON-106)."""
    columns = rng.randrange(2, 12)
    return "id,value\n" + "\n".join(f"{row}{',0' * columns}" for row in range(1, 201))


def _few_zeros(rng: random.Random) -> str:
    columns = rng.randrange(2, 6)
    return "\n".join(["0" + ",0" * (columns - 1)] * (900 // (2 * columns)))


def _test_log(rng: random.Random) -> str:
    lines = [
        f"tests/{rng.choice(WORDS)}/test_{rng.choice(WORDS)}.py::test_{rng.choice(WORDS)}_{rng.choice(WORDS)} PASSED"
        f" [{at * 100 // 150:3d}%]"
        for at in range(rng.randrange(40, 150))
    ]
    return "\n".join([*lines, f"{len(lines)} passed in {rng.random() * 30:.2f}s"])


def _tiles(rng: random.Random) -> str:
    wide, high = rng.randrange(16, 40), rng.randrange(12, 30)
    rows = ["".join(rng.choices("#.~T", (2, 9, 1, 1), k=wide)) for _ in range(high)]
    walls = "#" * wide
    return "const MAP = [\n" + "".join(f'  "{row}",\n' for row in [walls, *rows, walls]) + "];\n"


def _rooms(rng: random.Random) -> str:
    """Stretches of equal rows, as maps have them."""
    wide = rng.randrange(10, 24)
    rows: list[str] = []
    while len(rows) < 40:
        row = "#" + "".join(rng.choices(".#", (8, 1), k=wide)) + "#"
        rows += [row] * rng.randrange(1, 9)
    return "\n".join(rows)


def _numbered(rng: random.Random) -> str:
    return "\n".join(f"{at}. {sentence(rng, rng.randrange(2, 14))}" for at in range(1, rng.randrange(50, 200)))


def _alike(rng: random.Random) -> str:
    names = rng.sample(WORDS, rng.randrange(15, 60))
    form = rng.choice(
        (
            '        self.{0} = config.get("{0}", DEFAULTS["{0}"])',
            "    assert result.{0} == expected.{0}, f'{0}: {{result.{0}}}'",
            '  document.getElementById("{0}").addEventListener("click", () => show("{0}"));',
            "case Kind.{0}: return handle_{0}(state, event);",
        )
    )
    return "\n".join(form.format(name) for name in names)


def _art(rng: random.Random) -> str:
    size = rng.randrange(6, 16)
    tree = [" " * (size - row) + "*" * (2 * row + 1) for row in range(size)]
    box = ["+" + "-" * 2 * size + "+", *["|" + " " * 2 * size + "|"] * rng.randrange(2, 8), "+" + "-" * 2 * size + "+"]
    return "\n".join([*tree, *box, *reversed(tree)])


def _words_asked_for(rng: random.Random) -> str:
    return rng.choice((" ", "\n")).join([rng.choice(("ok", "yes", "la", "I will not talk in class."))] * 100)


def _records(rng: random.Random) -> str:
    items = [
        {"id": at, "name": rng.choice(WORDS), "place": rng.choice(WORDS), "count": rng.randrange(99), "tags": []}
        for at in range(rng.randrange(20, 120))
    ]
    return json.dumps(items, indent=rng.choice((None, 1, 2)))


def _numbers(rng: random.Random) -> str:
    return " ".join(f"{rng.choice('MLHVC')}{rng.random() * 100:.2f},{rng.random() * 100:.2f}" for _ in range(300))


def _cases(rng: random.Random) -> str:
    """A thought that goes through cases, each in the same short form."""
    what = rng.choice(WORDS)
    lines = [
        f"For n = {at}: the {what} gives {at * at}, the formula gives {at * at}, so it holds; next is n = {at + 1}."
        for at in range(1, rng.randrange(8, 30))
    ]
    return "\n".join([sentence(rng, 20), *lines, *(sentence(rng, 25) for _ in range(20))])


def _two_drafts(rng: random.Random) -> str:
    """A draft of code in a thought, and the same once more with a mend."""
    draft = _slice("Python")(rng)[:1_800]
    talk = [" ".join(sentence(rng, 12) for _ in range(4)) for _ in range(6)]
    mended = draft.replace("self", "this", 2)
    return "\n\n".join([*talk[:3], f"```python\n{draft}\n```", *talk[3:], f"```python\n{mended}\n```", *talk])


def _two_texts(rng: random.Random) -> str:
    """A text drafted in a thought, and the same once more in a few other words."""
    draft = [" ".join(sentence(rng, 12) for _ in range(4)) for _ in range(rng.randrange(5, 9))]
    again = [paragraph.replace(" the ", " a ").replace("a", "e", 1) for paragraph in draft]
    return "\n\n".join([sentence(rng, 20), *draft, sentence(rng, 20), *again, sentence(rng, 30)])


def _review(rng: random.Random) -> str:
    """Paragraphs that begin alike and say something else each."""
    openings = ("Wait, let me look at this again: ", "Now the next file. ", "Hmm, but ", "Let me check that. ")
    return "\n\n".join(
        rng.choice(openings) + " ".join(sentence(rng, 11) for _ in range(rng.randrange(1, 5)))
        for _ in range(rng.randrange(20, 60))
    )


def _tasks(rng: random.Random) -> str:
    """A list of steps in one form, which differ in what they are about."""
    return "\n".join(
        f"- Step {at}: open {rng.choice(WORDS)}/{rng.choice(WORDS)}.py, find where {rng.choice(WORDS)} is read, and"
        f" have it take its {rng.choice(WORDS)} from the {rng.choice(WORDS)} instead of the {rng.choice(WORDS)}."
        for at in range(1, 25)
    )


Maker: TypeAlias = Callable[[random.Random], str]
MAKERS: Final[Mapping[str, tuple[int, tuple[Place, ...], Maker]]] = {
    "Python": (160, EVERYWHERE, _slice("Python")),
    "documents": (120, EVERYWHERE, _slice("documents")),
    "JSON": (60, SHOWN, _slice("JSON")),
    "web pages": (90, EVERYWHERE, _slice("web pages")),
    "C and Triton": (60, EVERYWHERE, _slice("C and Triton")),
    "German prompts": (40, EVERYWHERE, _german),
    "minified": (50, EVERYWHERE, _minified),
    "base64": (50, EVERYWHERE, _base64),
    "hex dump": (40, SHOWN, _hex_dump),
    "poem with a refrain": (60, EVERYWHERE, _poem),
    "table": (60, EVERYWHERE, _table),
    "numbered file of zeros": (40, SHOWN, _zeros),
    "short file of zeros": (20, SHOWN, _few_zeros),
    "test log": (60, EVERYWHERE, _test_log),
    "tile map": (60, SHOWN, _tiles),
    "map of equal rows": (60, SHOWN, _rooms),
    "numbered list": (50, EVERYWHERE, _numbered),
    "similar lines of code": (60, EVERYWHERE, _alike),
    "ASCII art": (40, SHOWN, _art),
    "a word a hundred times": (20, SHOWN, _words_asked_for),
    "records": (50, SHOWN, _records),
    "path data": (30, EVERYWHERE, _numbers),
    "cases": (40, EVERYWHERE, _cases),
    "two drafts": (40, EVERYWHERE, _two_drafts),
    "two texts": (40, EVERYWHERE, _two_texts),
    "review": (50, EVERYWHERE, _review),
    "steps": (40, EVERYWHERE, _tasks),
}
"""How many of each kind, and where."""
