"""The language of the scenarios: who comes when and with what, and what each must see when. Values, no I/O.

A story is lines of plain sentences; blank lines and lines that begin with `#` are skipped. Times are `M:SS`,
`H:MM:SS` or `M:SS.t` after the story's begin. A name is one word in small letters.

| line                                              | what happens                                                   |
|---------------------------------------------------|----------------------------------------------------------------|
| `The box has parallel 2, max-queue 8.`            | settings of the service, as on its command line                |
| `The box has 20 GiB of memory.`                   | what is free; a prompt needs one; also `At T, the box has …`   |
| `At T, NAME asks for N tokens of M ms, CLAUSE …`  | a request; see `CLAUSES`                                       |
| `At T, NAME asks again for N tokens of M ms …`    | the next turn of what NAME said and got                        |
| `At T, NAME leaves.` / `… stops reading.`         | its connection closes; it reads no more                        |
| `At T, the box drains.`                           | SIGTERM                                                        |
| `NAME starts at T.` / `by T` / `before OTHER`     | its first token                                                |
| `NAME ends at T.` / `by T` / `before OTHER`       | the end of its response                                        |
| `NAME ends with FINISH.`                          | the finish reason of its row                                   |
| `NAME is refused with STATUS CODE at T.`          | at once, in its status line                                    |
| `NAME is refused in its stream with STATUS CODE.` | as an error in an open stream                                  |
| `NAME is told "WORDS" at T.`                      | a comment that holds these words, T optional                   |
| `NAME is never told "WORDS".`                     | no comment that does                                           |
| `NAME runs on slot N.` / `in the decode lane`     | its row; `in no lane`                                          |
| `NAME waits S s for own work.` / `for memory`     | its row, to a tenth                                            |
| `NAME resumes R rows.`                            | rows of its prompt that a cache supplied, at least             |

Whoever does not leave, is not refused and does not fail must get every token that was asked for: that is always
checked, as is that nothing is left in the box at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

__all__ = ["Act", "Ask", "Expect", "Story", "StoryError", "parse", "seconds"]

CLAUSES: Mapping[str, Callable[[Ask, re.Match[str]], Ask]]


class StoryError(ValueError):
    """A sentence that nobody understands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request. Times in milliseconds."""

    tokens: int
    token_ms: float
    streamed: bool = True
    prompt: int = 0
    """Words that stand before the script, a token each."""
    prompt_ms: float = 0.0
    choices: int = 1
    thinking: int = 0
    """Tokens of a thinking block before the answer."""
    limit: int | None = None
    fails_at: int | None = None
    block: int = 1
    kind: Literal["turn", "title", "next"] = "turn"
    agent: str = "curl/8"
    has_image: bool = False
    thinks: bool = True
    """Whether the request leaves it to the model to think; the lane takes none that does."""


@dataclass(frozen=True, slots=True)
class Act:
    at: float
    who: str
    """Empty: the box."""
    what: Literal["asks", "leaves", "stalls", "drains", "memory"]
    ask: Ask | None = None
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class Expect:
    """A sentence about one who asked, by the kind of sentence, and what stands in its gaps."""

    who: str
    kind: str
    gaps: Mapping[str, str]
    line: str


@dataclass(frozen=True, slots=True)
class Story:
    settings: dict[str, Any] = field(default_factory=dict)
    memory_gib: float | None = None
    acts: tuple[Act, ...] = ()
    expects: tuple[Expect, ...] = ()

    def asks_of(self, who: str) -> list[Ask]:
        return [act.ask for act in self.acts if act.who == who and act.ask is not None]

    def about(self, who: str, *kinds: str) -> bool:
        """Whether a sentence of one of these kinds is about `who`."""
        return any(expect.who == who and expect.kind in kinds for expect in self.expects)


NAME, TIME = r"(?P<who>[a-z]+)", r"\d+(?::\d\d){1,2}(?:\.\d+)?"
ASKS = re.compile(
    rf"{NAME} asks (?P<again>again )?for (?P<tokens>[\d,]+) tokens?(?: of (?P<ms>[\d.]+) ms)?(?P<rest>.*)"
)
CLAUSES = {
    r"unstreamed": lambda ask, _: replace(ask, streamed=False),
    r"over (?P<n>[\d,]+) words(?: of (?P<ms>[\d.]+) ms)?": lambda ask, found: replace(
        ask, prompt=_number(found["n"]), prompt_ms=float(found["ms"] or 0)
    ),
    r"with (?P<n>\d+) choices": lambda ask, found: replace(ask, choices=int(found["n"])),
    r"after (?P<n>[\d,]+) of thinking": lambda ask, found: replace(ask, thinking=_number(found["n"])),
    r"with room for (?P<n>[\d,]+)": lambda ask, found: replace(ask, limit=_number(found["n"])),
    r"failing at token (?P<n>\d+)": lambda ask, found: replace(ask, fails_at=int(found["n"])),
    r"(?P<n>\d+) a round": lambda ask, found: replace(ask, block=int(found["n"])),
    r"as an opencode title": lambda ask, _: replace(ask, kind="title", agent="opencode/1.0"),
    r"from (?P<agent>[a-z]+)": lambda ask, found: replace(ask, agent=f"{found['agent']}/1.0"),
    r"without thinking": lambda ask, _: replace(ask, thinks=False),
    r"with an image": lambda ask, _: replace(ask, has_image=True),
}
EXPECTS = {
    "starts at": rf"starts at (?P<at>{TIME})",
    "starts by": rf"starts by (?P<at>{TIME})",
    "starts before": r"starts before (?P<other>[a-z]+)",
    "ends at": rf"ends at (?P<at>{TIME})",
    "ends by": rf"ends by (?P<at>{TIME})",
    "ends before": r"ends before (?P<other>[a-z]+)",
    "ends with": r"ends with (?P<finish>[a-z_]+)",
    "refused": rf"is refused with (?P<status>\d+) (?P<code>[a-z_]+)(?: at (?P<at>{TIME}))?",
    "refused in stream": rf"is refused in its stream with (?P<status>\d+) (?P<code>[a-z_]+)(?: at (?P<at>{TIME}))?",
    "told": rf'is told "(?P<words>[^"]+)"(?: at (?P<at>{TIME}))?',
    "never told": r'is never told "(?P<words>[^"]+)"',
    "slot": r"runs on slot (?P<slot>\d+)",
    "lane": r"runs in (?:the (?P<lane>decode|prefill|self)|no) lane",
    "waits": r"waits (?P<s>[\d.]+) s for (?P<what>own work|memory)",
    "resumes": r"resumes (?P<rows>[\d,]+) rows",
    "writes": r"writes (?P<n>[\d,]+) tokens",
}


def parse(text: str) -> Story:
    """Raises `StoryError` with the sentence."""
    story = Story()
    for line in text.splitlines():
        sentence = line.strip().removesuffix(".")
        if sentence and not sentence.startswith("#"):
            story = _read(story, sentence)
    return replace(story, acts=tuple(sorted(story.acts, key=lambda act: act.at)))


def seconds(time: str) -> float:
    """Of `M:SS` or `H:MM:SS`."""
    total = 0.0
    for part in time.split(":"):
        total = 60 * total + float(part)
    return total


def _read(story: Story, sentence: str) -> Story:
    if found := re.fullmatch(r"The box has (?P<gib>[\d.]+) GiB of memory", sentence):
        return replace(story, memory_gib=float(found["gib"]))
    if found := re.fullmatch(r"The box has (?P<settings>.+)", sentence):
        return replace(story, settings=story.settings | dict(map(_setting, found["settings"].split(", "))))
    if found := re.fullmatch(rf"At (?P<at>{TIME}), (?P<what>.+)", sentence):
        return replace(story, acts=(*story.acts, _act(seconds(found["at"]), found["what"], sentence)))
    return replace(story, expects=(*story.expects, _expect(sentence)))


def _setting(words: str) -> tuple[str, Any]:
    name, _, value = words.rpartition(" ")
    key = name.replace("-", "_")
    try:
        return key, int(value)
    except ValueError:
        pass
    try:
        return key, float(value)
    except ValueError:
        return key, value


def _act(at: float, what: str, sentence: str) -> Act:
    if what == "the box drains":
        return Act(at, "", "drains")
    if found := re.fullmatch(r"the box has (?P<gib>[\d.]+) GiB of memory", what):
        return Act(at, "", "memory", amount=float(found["gib"]))
    if found := re.fullmatch(rf"{NAME} (?P<what>leaves|stops reading)", what):
        return Act(at, found["who"], "leaves" if found["what"] == "leaves" else "stalls")
    if found := ASKS.fullmatch(what):
        kind: Literal["turn", "next"] = "next" if found["again"] else "turn"
        ask = Ask(tokens=_number(found["tokens"]), token_ms=float(found["ms"] or 0), kind=kind)
        for clause in filter(None, found["rest"].split(", ")):
            ask = _with_clause(ask, clause.strip(), sentence)
        return Act(at, found["who"], "asks", ask)
    raise StoryError(sentence)


def _with_clause(ask: Ask, clause: str, sentence: str) -> Ask:
    for pattern, change in CLAUSES.items():
        if found := re.fullmatch(pattern, clause):
            return change(ask, found)
    raise StoryError(f"{sentence!r}: what is {clause!r}?")


def _expect(sentence: str) -> Expect:
    for kind, pattern in EXPECTS.items():
        if found := re.fullmatch(rf"{NAME} {pattern}", sentence):
            gaps = {name: value for name, value in found.groupdict().items() if value is not None and name != "who"}
            return Expect(found["who"], kind, gaps, sentence)
    raise StoryError(sentence)


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))
