"""A session replayed with the conductor on, in shadow and raw: how much of each turn's prompt a cache has.

Tokens are counted as the client counts them, so that notes tip no scale. `possible` is what of a prompt the rows ever
read would serve, were none of them lost; `cached` is what the engine took from its caches. Every mode has an engine of
its own and begins with nothing. What a fixture's model answers is forced into the sequence, as if it had written that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from bench.conductor.desk import DAY, Desk, Served
from bench.conductor.fixtures import Fixture, Request, requests
from tandem.bench.report import Report
from tandem.conductor.router.effort import LEVELS
from tandem.conductor.router.plan import Answer, Question
from tandem.conductor.sessions import Sessions, dump_sessions, load_sessions
from tandem.engine.text.model import Conversation, TextModel
from tandem.engine.text.prompt import Prompt

__all__ = ["MODES", "Mode", "Opened", "Turn", "agree", "alone", "efforts", "replayed", "report"]

Mode: TypeAlias = Literal["on", "shadow", "raw"]
MODES: tuple[Mode, ...] = get_args(Mode)
Opened: TypeAlias = Callable[[], AbstractContextManager[Any]]
"""A new engine over the weights, with what the last one spilled."""
OPENING = 16
"""Tokens at most with which a template opens an answer: a closed thinking block there is never sent back."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a replay. Tokens are the client's but for `hidden`."""

    what: str
    prompt: int
    hidden: int
    possible: int | None
    """None where a server alone knows."""
    cached: int | None
    """None where no engine reads."""
    class_id: str | None
    stays: bool
    """What a plan may not change: no directory moved out of the tools."""
    effort: str | None = None
    """The level that the turn ran with; None where none was decided, or a server alone knows."""


def replayed(
    fixture: Fixture, mode: Mode, text: TextModel, opened: Opened | None, window: int | None = None
) -> list[Turn]:
    return list(_Replay(fixture, mode, text, opened, window).turns())


class _Replay:
    def __init__(
        self, fixture: Fixture, mode: Mode, text: TextModel, opened: Opened | None, window: int | None
    ) -> None:
        self._fixture = fixture
        self._mode = mode
        self._text = text
        self._opened = opened
        self._step = fixture.steps[0]
        self._desk = Desk(text, self._asked, window=window)
        self._read: list[tuple[int, ...]] = []
        """Rows of each request so far."""

    def turns(self) -> Iterator[Turn]:
        with ExitStack() as stack:
            engine = stack.enter_context(self._opened()) if self._opened else None
            for number, request in enumerate(requests(self._fixture)):
                if request.messages:
                    yield self._turn(number, request, engine)
                    continue
                self._restart()
                if self._opened and engine is not None:
                    engine.spill()
                    stack.close()
                    engine = stack.enter_context(self._opened())

    def _turn(self, number: int, request: Request, engine: Any) -> Turn:
        self._step = request.step
        headers = {**self._fixture.headers, "x-tandem": self._mode}
        facts = self._desk.facts(
            request.messages, kind=self._fixture.kind, tools=request.tools, headers=headers, now=float(number)
        )
        served = self._desk.serve(facts)
        prompt = served.prompt
        answer = self._answer(request, served)
        common = max((_shared(prompt.ids, rows) for rows in self._read), default=0)
        resumed = None if engine is None else _read(engine, prompt, answer)
        self._read.append((*prompt.ids, *answer))
        if request.answer is not None:
            self._desk.answered(served, request.answer)
        return Turn(
            request.what,
            prompt.client_tokens,
            prompt.hidden_tokens,
            prompt.client_tokens_before(common),
            None if resumed is None else prompt.client_tokens_before(resumed),
            served.plan.class_decision.class_id if served.plan.class_decision else None,
            not self._fixture.moves,
            served.plan.effort.level if served.plan.effort is not None else None,
        )

    def _answer(self, request: Request, served: Served) -> tuple[int, ...]:
        """The ids of the answer as the next turn's history has it, up to its turn's end."""
        if request.answer is None:
            return ()
        conversation = served.prepared.conversation
        before = self._text.render(conversation).ids
        whole = self._text.render(
            Conversation(messages=(*conversation.messages, request.answer), tools=conversation.tools, today=DAY)
        ).ids
        if whole[: len(before)] != before:
            return ()
        end = next((at for at in range(len(before), len(whole)) if whole[at] in self._text.turn_ends), len(before) - 1)
        return whole[len(before) : end + 1]

    def _restart(self) -> None:
        kept = load_sessions(dump_sessions(self._desk.sessions))
        self._desk.sessions = Sessions()
        self._desk.sessions.restore(kept)

    def _asked(self, question: Question) -> Answer:
        """As the step says; the package question is answered with none of them."""
        step, ids = self._step, [option.id for option in question.options]
        picked, sure = (step.class_, step.sure) if question.id == "class" else ("none", 1.0)
        rest = (1 - sure) / (len(ids) - 1)
        return Answer(probabilities={name: sure if name == picked else rest for name in ids})


def _read(engine: Any, prompt: Prompt, answer: Sequence[int]) -> int:
    """The prompt read and the answer forced; rows found in a cache."""
    seq = engine.open(prompt)
    try:
        while (read := engine.prefill(seq, len(prompt.ids))).done < read.total:
            pass
        if answer:
            engine.force(seq, answer)
    finally:
        engine.close(seq)
    return int(read.resumed)


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def agree(modes: dict[Mode, list[Turn]], grid: int = 0) -> list[str]:
    """Turns in which the three do not agree; what an engine resumes may differ by a grid line."""
    apart = []
    for on, shadow, raw in zip(*(modes[mode] for mode in MODES), strict=True):
        lost = any(
            (
                _less(on.possible, raw.possible) > OPENING,
                _less(on.cached, raw.cached) > grid + OPENING,
                _less(shadow.cached, raw.cached) > grid + OPENING,
                shadow.possible != raw.possible,
                shadow.hidden > 0,
            )
        )
        if lost or (on.stays and not on.prompt == shadow.prompt == raw.prompt):
            apart.append(on.what)
    return apart


def _less(one: int | None, other: int | None) -> int:
    """By how much `one` is below `other`; 0 where either is not known."""
    return 0 if one is None or other is None else other - one


def efforts(turns: Iterable[Turn]) -> str:
    """How many of them ran at each level (EFF-018)."""
    counts = Counter(turn.effort or "none" for turn in turns)
    return ", ".join(f"{level} {counts[level]}" for level in (*LEVELS, "none") if counts[level])


def report(name: str, fixture: Fixture, modes: dict[Mode, list[Turn]], grid: int = 0) -> Report:
    rows = []
    for turns in zip(*(modes[mode] for mode in MODES), strict=True):
        on = turns[0]
        rows.append((on.what, on.class_id or "-", f"{on.prompt:,}", f"{on.hidden:,}", *map(_share, turns)))
    total = [sum(turn.prompt - _found(turn) for turn in modes[mode]) for mode in MODES]
    rows.append(("read in all", "", "", "", *(f"{count:,}" for count in total)))
    apart = agree(modes, grid)
    within = f" within a grid line of {grid:,} tokens" if grid else ""
    notes = [
        fixture.about,
        f"the three agree{within}" if not apart else f"the three do not agree in {', '.join(apart)}",
    ]
    if any(turn.effort for turn in modes["on"]):
        notes.append(f"turns at each level of effort: {efforts(modes['on'])}")
    if fixture.moves:
        notes.append("a directory that moves out of the tools saves what raw reads again, and is counted at its turn")
    return Report(f"Session {name}: cached share of a turn's prompt", COLUMNS, tuple(rows), tuple(notes))


def alone(name: str, mode: Mode, turns: Sequence[Turn]) -> Report:
    """The table of one mode, which nothing is compared with."""
    rows = [(turn.what, f"{turn.prompt:,}", f"{turn.hidden:,}", _share(turn)) for turn in turns]
    return Report(f"Session {name}: cached share of a turn's prompt", ("turn", "tokens", "hidden", mode), tuple(rows))


COLUMNS = ("turn", "class", "tokens", "hidden", *MODES)


def _found(turn: Turn) -> int:
    return (turn.possible if turn.cached is None else turn.cached) or 0


def _share(turn: Turn) -> str:
    return f"{100 * _found(turn) / max(turn.prompt, 1):.1f} %"
