"""The decode loop of one choice as a sans-I/O state machine (ENG-183).

It says what work comes next, takes what came of it, and hands out deltas between two works; whoever drives it owns the
engine, the clock and the thread:

    generation.start(now)
    while not isinstance(work := generation.next(), Ended):
        generation.feed(perform(engine, seq, work, generation.rules), now)
        send(generation.take_deltas())

The prompt is read here; what is written behind it is the `Answering`'s.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Literal

from tandem.engine.decoding.answering import Answering
from tandem.engine.decoding.capping import Capping, ReasoningCap
from tandem.engine.decoding.outlet import Outlet
from tandem.engine.decoding.seams import Reader, Supervisor
from tandem.engine.decoding.tally import Progress, Tally, next_image
from tandem.engine.decoding.watching import Watching
from tandem.engine.decoding.work import Ask, Ended, Force, Prefill, Result, Trimmed, Work
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.deltas import Delta, Finish
from tandem.engine.verbs import Mask, Prefilled, SamplingRules

__all__ = ["Generation", "ReasoningCap"]


class Generation:
    """One choice: `limit` output tokens at most, over a prompt that is read in chunks cut at multiples of `grid`.

    `arrived_at` and every `now` are seconds on one clock. `rules` are completed with the index of the choice and the
    end ids. The reasoning gets `reasoning_cap` tokens exactly, however many a round commits. Hidden tokens take their
    rows from the output where the `window` has no others.
    """

    def __init__(
        self,
        prompt: Prompt,
        rules: SamplingRules,
        *,
        limit: int,
        reader: Reader,
        end_ids: Set[int],
        grid: int,
        arrived_at: float,
        window: int | None = None,
        choice: int = 0,
        reasoning_cap: ReasoningCap | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        if not prompt.ids:
            raise ValueError("a prompt needs at least one token: its last row gives the first token of the answer")
        if limit < 1 or grid < 1:
            raise ValueError(f"limit and grid must be at least 1, not {limit} and {grid}")
        self.prompt = prompt
        self.rules = replace(rules, choice=choice, end_ids=frozenset(end_ids))
        self._reader = reader
        self._grid = grid
        self._cap = reasoning_cap
        self._tally = Tally(arrived_at)
        self._out = Outlet(reader, prompt, self._tally)
        self._watching = Watching(supervisor, reader, self._tally, limit=limit, rows=len(prompt.ids), window=window)
        self._answering = Answering(
            self.rules,
            out=self._out,
            tally=self._tally,
            capping=Capping(reasoning_cap, reader),
            watching=self._watching,
        )

    def for_choice(self, index: int, reader: Reader, mask: Mask | None = None) -> Generation:
        """Another choice over the same prompt, with a reader and a mask of its own, unsupervised (ENG-083)."""
        return Generation(
            self.prompt,
            replace(self.rules, mask=mask),
            limit=self.limit,
            reader=reader,
            end_ids=self.rules.end_ids,
            grid=self._grid,
            arrived_at=self._tally.arrived_at,
            window=self._watching.window,
            choice=index,
            reasoning_cap=self._cap,
        )

    @property
    def choice(self) -> int:
        return self.rules.choice

    @property
    def limit(self) -> int:
        """Output tokens that it may have; hidden ones may take their rows."""
        return self._watching.limit

    @property
    def finish(self) -> Finish | None:
        """How it ended; None while it runs."""
        return self._answering.finish

    @property
    def prefilled(self) -> Prefilled:
        """How far the prompt is read."""
        return Prefilled(self._tally.read, len(self.prompt.ids), self._tally.resumed, self._tally.source)

    @property
    def progress(self) -> Progress:
        """How far it is, for whoever watches."""
        progress = self._tally.progress(len(self.prompt.ids), self.next_image, self._reader)
        return replace(progress, supervising=True) if self._answering.is_hidden else progress

    @property
    def next_image(self) -> tuple[int, int] | None:
        """The first image that the next chunk has rows of, from 1 on, and of how many (ENG-098)."""
        return next_image(self.prompt, self._tally.read, self._grid)

    @property
    def completion_tokens(self) -> int:
        """Output tokens so far, as the usage counts them (API-158)."""
        return self._tally.completion

    def grant(self, prompt: Prompt, window: int) -> None:
        """Before the start: the prompt as its slot has finished it, and the rows that there are (SCH-114)."""
        self.prompt = self._out.prompt = prompt
        self._watching.rows, self._watching.window = len(prompt.ids), window
        self._watching.fit()

    def start(self, now: float) -> None:
        """The grant: waiting ends here. A second start changes nothing."""
        if self._tally.started_at is None:
            self._tally.started_at = now

    def skip_prefill(self, prefilled: Prefilled, now: float) -> None:
        """Begin behind the prompt: the sequence was restored to a snapshot taken where `prefilled` was reported."""
        if prefilled.done != len(self.prompt.ids):
            raise ValueError(f"{prefilled.done} of {len(self.prompt.ids)} prompt rows are read; read them all first")
        self.start(now)
        self._tally.read, self._tally.resumed, self._tally.source = prefilled.done, prefilled.resumed, prefilled.source
        self._answering.begin()

    def next(self) -> Work | Ended:
        """The work at hand; the same until its result is fed."""
        rows = len(self.prompt.ids)
        if self.finish is None:
            if self._tally.started_at is None:
                raise RuntimeError("a generation must be started before its first work")
            if self._tally.read < rows:
                return Prefill(min(rows, (self._tally.read // self._grid + 1) * self._grid))
        return self._answering.next()

    def feed(self, result: Result, now: float) -> None:
        """Take the result of the work at hand, which came at `now`."""
        if isinstance(result, Prefilled):
            if self.finish is None:
                self._take_prefilled(result)
        elif self.finish is None or isinstance(result, Trimmed):
            self._answering.feed(result, now)

    def take_deltas(self) -> list[Delta]:
        """The deltas since the last call; the last one of all is the `Finish`."""
        return self._out.take()

    def force(self, ids: Sequence[int], *, visible: bool) -> None:
        """Have `ids` forwarded next, behind what is already inserted (ENG-040).

        Visible ones are read and counted as if the model had written them, as far as the limit allows; hidden ones
        reach neither the client nor the count.
        """
        if ids:
            self._answering.insert([Force(tuple(ids), visible)])

    def ask(self, ids: Sequence[int], options: Sequence[int]) -> None:
        """Have a hidden question asked in place (ENG-041); the answer goes to the supervisor."""
        self._answering.insert([Ask(tuple(ids), tuple(options))])

    def stop(
        self, reason: Literal["stop", "timeout", "error", "abandoned"], now: float, detail: str | None = None
    ) -> None:
        """End it at this safe point; what was handed out stands. One that has ended stays as it ended."""
        self._answering.stop(reason, now, detail)

    def _take_prefilled(self, result: Prefilled) -> None:
        if result.done <= self._tally.read:
            raise RuntimeError(f"a prefill went from row {self._tally.read} to {result.done}")
        self._tally.read = result.done
        self._tally.resumed, self._tally.source = max(self._tally.resumed, result.resumed), result.source
        self._answering.begin()
