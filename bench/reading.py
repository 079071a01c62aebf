"""What reading and constraining an answer costs: CPU a token of the reader, and tokens a second under a grammar.

    python -m bench.reading [--rounds N] [--write]

The reader takes tokens of the fake's vocabulary, each of its stages in turn. The second table writes the same number of
tokens with the embedded model free and under grammars, one after the other in each round.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, Final

import click
from rich.console import Console

from tandem.bench.report import RESULTS, Report, keep, machine, render
from tandem.bench.stats import ratio, summary
from tandem.config import Settings
from tandem.engine.checkpoints.embedded import ensure
from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.seams import Reader
from tandem.engine.decoding.work import Ended, Prefill, perform
from tandem.engine.fake import FakeText
from tandem.engine.fake.vocabulary import SCRIPT_MARKERS
from tandem.engine.grammar.constraints import Constraint, JsonObject, JsonSchema, Regex
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.load import load_engine
from tandem.engine.memory import default_threads
from tandem.engine.text.model import Conversation
from tandem.engine.text.reading.calls import xml_calls
from tandem.engine.text.reading.reader import AnswerReader, PlainReader
from tandem.engine.verbs import Engine, Mask, SamplingRules

__all__ = ["main"]

PROSE: Final = "The quick brown fox jumps over the lazy dog, and then it rests for a while. " * 60
TOOLS: Final = (
    {"type": "function", "function": {"name": "write", "parameters": {"properties": {"text": {"type": "string"}}}}},
)
WRITTEN: Final = 120
"""Tokens written under each grammar."""
ITEMS: Final = {"type": "array", "items": {"type": "string"}, "minItems": 200}
LANGUAGES: Final[Mapping[str, Constraint | None]] = {
    "free": None,
    "regex .*": Regex("(?s:.{4000,})", "regex"),
    "JSON Schema, strings": JsonSchema(ITEMS, "schema"),
    "json_object": JsonObject(),
}


def read_costs(rounds: int) -> Report:
    """Microseconds of CPU a token, the best of the rounds' medians being of no interest: their median."""
    text = FakeText()
    ids = count()

    def calls(live: bool) -> Any:
        return xml_calls(TOOLS, live=live, new_id=lambda: f"call_{next(ids)}")

    say = PROSE
    call = f"<tool_call>\n<function=write>\n<parameter=text>\n{PROSE}\n</parameter>\n</function>\n</tool_call>"
    cases: dict[str, tuple[Callable[[], Reader], str]] = {
        "text completion": (lambda: PlainReader(text), say),
        "answer": (lambda: AnswerReader(text, thinking="off"), say),
        "reasoning, then answer": (lambda: AnswerReader(text, thinking="open"), f"{PROSE}</think>\n\n{PROSE}"),
        "answer with tools on offer": (lambda: AnswerReader(text, thinking="off", calls=calls(True)), say),
        "answer with stop strings": (lambda: AnswerReader(text, thinking="off", stops=["\n\nUser:", "END"]), say),
        "a call, streamed": (lambda: AnswerReader(text, thinking="off", calls=calls(True)), call),
        "a call, whole": (lambda: AnswerReader(text, thinking="off", calls=calls(False)), call),
    }
    rows = []
    for name, (make, said) in cases.items():
        tokens = _tokens(text, said)
        spent = []
        for _ in range(rounds * 3):
            reader = make()
            start = time.process_time()
            for token in tokens:
                reader.feed(token)
            reader.end()
            spent.append(1e6 * (time.process_time() - start) / len(tokens))
        shown = summary(spent)
        rows.append((name, f"{shown.median:.1f} us", f"{shown.low:.1f} to {shown.high:.1f}"))
    return Report("Reading an answer: CPU a token", ("what is read", "median", "range"), tuple(rows), ("aim: 10 us",))


def _tokens(text: FakeText, said: str) -> list[int]:
    """As the fake's script becomes tokens: its markers are one each."""
    tokens: list[int] = []
    while said:
        at, name = min(((said.find(name), name) for name in SCRIPT_MARKERS if name in said), default=(len(said), ""))
        tokens += text.encode(said[:at])
        if name:
            tokens.append(text.markers[name])
        said = said[at + len(name) :]
    return tokens


def constrained(rounds: int) -> Report:
    """Tokens a second of the embedded model, free and under grammars."""
    path = ensure(Settings.from_sources({}, os.environ).state_dir, lambda done, total: None)
    engine = load_engine(path, max_len=1024, threads=default_threads())
    grammars = Grammars(engine.text)
    compiled = {name: None if each is None else grammars.compile(each) for name, each in LANGUAGES.items()}
    speeds: dict[str, list[float]] = {name: [] for name in LANGUAGES}
    for at in range(rounds + 1):
        for name, language in compiled.items():
            speed = _speed(engine, None if language is None else language.mask("off"))
            if at:  # the first round warms up
                speeds[name].append(speed)
    rows = tuple(
        (name, f"{summary(each).median:.1f}", f"{ratio(each, speeds['free']):.3f}") for name, each in speeds.items()
    )
    columns = ("answer", "tokens/s", "against free")
    return Report(f"{WRITTEN} tokens under a grammar", columns, rows, ("aim: 0.95 of the free answer",))


def _speed(engine: Engine[Any, Any], mask: Mask | None) -> float:
    """Tokens a second behind the prefill; a document that ends before that many tokens counts as far as it goes."""
    prompt = engine.text.render(Conversation(messages=[{"role": "user", "content": "List many animals."}]))
    generation = Generation(
        prompt,
        replace(SamplingRules(), mask=mask),
        limit=WRITTEN,
        reader=PlainReader(engine.text),
        end_ids=engine.text.end_ids if mask is not None else frozenset(),
        grid=engine.card.anchor_grid,
        arrived_at=0.0,
    )
    seq = engine.open(prompt)
    generation.start(0.0)
    start = 0.0
    while not isinstance(work := generation.next(), Ended):
        if not isinstance(work, Prefill) and not start:
            start = time.perf_counter()
        generation.feed(perform(engine, seq, work, generation.rules), 0.0)
    spent = time.perf_counter() - start
    engine.close(seq)
    return generation.completion_tokens / spent


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--write", is_flag=True, help="Keep the tables under bench/results/.")
def main(rounds: int, write: bool) -> None:
    """Print what the reader and grammars cost."""
    here = machine()
    reports = [read_costs(rounds), constrained(rounds)]
    console = Console(width=110)
    for report in reports:
        render(report, console)
    lines = here.lines(default_threads())
    for line in lines:
        console.print(line, markup=False, highlight=False)
    if write:
        kept = keep("reading", reports, lines, RESULTS, here.started.date())
        console.print(f"kept in {kept}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
