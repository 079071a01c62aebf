"""The decode loop of one choice as a sans-I/O state machine (ENG-183).

It says what work comes next, takes what came of it, and hands out deltas between two works; whoever drives it owns the
engine, the clock and the thread:

    generation.start(now)
    while not isinstance(work := generation.next(), Ended):
        generation.feed(perform(engine, seq, work, generation.rules), now)
        send(generation.take_deltas())

A mask in the rules is read by the engine and moved on here, once a token; where it leaves no choice, what must follow
is forced instead of sampled. An end inside the tokens of one round has the engine take back the rest: one `Trim` comes
between the `Finish` and `Ended`. What else `feed` gets after the end is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Literal, assert_never

from tandem.engine.decoding.capping import Capping, ReasoningCap
from tandem.engine.decoding.seams import Reader, SafePoint, Supervisor
from tandem.engine.decoding.tally import Progress, Tally
from tandem.engine.decoding.work import Answer, Ask, Ended, Force, Forced, Prefill, Result, Round, Trim, Trimmed, Work
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.deltas import CallEnd, Delta, Finish, FinishReason
from tandem.engine.verbs import Accepted, Mask, Prefilled, SamplingRules, TokenLogprob

__all__ = ["Generation", "ReasoningCap"]


class Generation:
    """One choice: `limit` output tokens at most, over a prompt that is read in chunks cut at multiples of `grid`.

    `arrived_at` and every `now` are seconds on one clock. `rules` are completed with the index of the choice and the
    end ids. The reasoning gets `reasoning_cap` tokens exactly, however many a round commits.
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
        self.limit = limit
        self._reader = reader
        self._end_ids = end_ids
        self._grid = grid
        self._supervisor = supervisor
        self._capping = Capping(reasoning_cap, reader)
        self._closer: Force | None = None
        """The cap's closer, from when it is inserted."""
        self._tally = Tally(arrived_at)
        self._inserted: deque[Force | Ask] = deque()
        self._deltas: list[Delta] = []
        self._has_call = False
        self._finish: Finish | None = None
        self._trim: Trim | None = None
        """What the engine is to do after the finish."""

    def for_choice(self, index: int, reader: Reader, mask: Mask | None = None) -> Generation:
        """Another choice over the same prompt, with a reader and a mask of its own, unsupervised (ENG-083)."""
        return Generation(
            self.prompt,
            replace(self.rules, mask=mask),
            limit=self.limit,
            reader=reader,
            end_ids=self._end_ids,
            grid=self._grid,
            arrived_at=self._tally.arrived_at,
            choice=index,
            reasoning_cap=self._capping.cap,
        )

    @property
    def choice(self) -> int:
        return self.rules.choice

    @property
    def finish(self) -> Finish | None:
        """How it ended; None while it runs."""
        return self._finish

    @property
    def prefilled(self) -> Prefilled:
        """How far the prompt is read."""
        return Prefilled(self._tally.read, len(self.prompt.ids), self._tally.resumed, self._tally.source)

    @property
    def progress(self) -> Progress:
        """How far it is, for whoever watches."""
        return self._tally.progress(len(self.prompt.ids), self.next_image, self._reader)

    @property
    def next_image(self) -> tuple[int, int] | None:
        """The first image that the next chunk has rows of, from 1 on, and of how many (ENG-098)."""
        read, images = self._tally.read, self.prompt.images
        end = (read // self._grid + 1) * self._grid
        here = (at for at, image in enumerate(images, 1) if read < image.stop and image.start < end)
        return next(((at, len(images)) for at in here), None)

    @property
    def completion_tokens(self) -> int:
        """Output tokens so far, as the usage counts them (API-158)."""
        return self._tally.completion

    def start(self, now: float) -> None:
        """The grant: waiting ends here. A second start changes nothing."""
        if self._tally.started_at is None:
            self._tally.started_at = now
            self._look("SP4")

    def skip_prefill(self, prefilled: Prefilled, now: float) -> None:
        """Begin behind the prompt: the sequence was restored to a snapshot taken where `prefilled` was reported."""
        if prefilled.done != len(self.prompt.ids):
            raise ValueError(f"{prefilled.done} of {len(self.prompt.ids)} prompt rows are read; read them all first")
        self.start(now)
        self._tally.read, self._tally.resumed, self._tally.source = prefilled.done, prefilled.resumed, prefilled.source
        self._close_at_cap()

    def next(self) -> Work | Ended:
        """The work at hand; the same until its result is fed."""
        if self._trim is not None:
            return self._trim
        if self._finish is not None:
            return Ended()
        if self._tally.started_at is None:
            raise RuntimeError("a generation must be started before its first work")
        rows = len(self.prompt.ids)
        if self._tally.read < rows:
            return Prefill(min(rows, (self._tally.read // self._grid + 1) * self._grid))
        left = self.limit - self._tally.completion
        match self._inserted[0] if self._inserted else None:
            case Force(ids, visible=True):
                return Force(ids[:left], visible=True)
            case Force() | Ask() as work:
                return work
            case None:
                return Round(self._capping.room(left, self._tally.completion))

    def feed(self, result: Result, now: float) -> None:
        """Take the result of the work at hand, which came at `now`."""
        if isinstance(result, Trimmed):
            self._trim = None
        if self._finish is not None:
            return
        match result:
            case Prefilled():
                self._take_prefilled(result)
            case Accepted():
                self._tally.count_round(result)
                self._take_tokens(result.ids, result.logprobs, now, can_trim=True)
                if self._finish is None:
                    self._look("SP1")
            case Forced(ids):
                self._take_forced(ids, now)
            case Answer():
                self._inserted.popleft()
                if self._supervisor is not None:
                    self._inserted.extend(self._supervisor.answered(result))
            case Trimmed():
                pass
            case _:
                assert_never(result)
        if self._finish is None:
            self._close_at_cap()
            self._force_what_is_certain()

    def take_deltas(self) -> list[Delta]:
        """The deltas since the last call; the last one of all is the `Finish`."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def force(self, ids: Sequence[int], *, visible: bool) -> None:
        """Have `ids` forwarded next, behind what is already inserted (ENG-040).

        Visible ones are read and counted as if the model had written them, as far as the limit allows; hidden ones
        reach neither the client nor the count.
        """
        if ids:
            self._inserted.append(Force(tuple(ids), visible))

    def ask(self, ids: Sequence[int], options: Sequence[int]) -> None:
        """Have a hidden question asked in place (ENG-041); the answer goes to the supervisor."""
        self._inserted.append(Ask(tuple(ids), tuple(options)))

    def stop(
        self, reason: Literal["stop", "timeout", "error", "abandoned"], now: float, detail: str | None = None
    ) -> None:
        """End it at this safe point; what was handed out stands. One that has ended stays as it ended."""
        self._trim = None
        if self._finish is None:
            self._end(reason, now, detail)

    def _take_prefilled(self, result: Prefilled) -> None:
        if result.done <= self._tally.read:
            raise RuntimeError(f"a prefill went from row {self._tally.read} to {result.done}")
        self._tally.read = result.done
        self._tally.resumed, self._tally.source = max(self._tally.resumed, result.resumed), result.source

    def _take_forced(self, ids: Sequence[int], now: float) -> None:
        work = self._inserted.popleft()
        if isinstance(work, Force) and work.visible:
            self._take_tokens(ids, (), now)
        elif work is self._closer:
            self._commit(ids)  # the mask waits for the block's end, which only these ids show
            self._hand_out(self._reader.close_reasoning())

    def _take_tokens(
        self, ids: Sequence[int], logprobs: Sequence[TokenLogprob], now: float, *, can_trim: bool = False
    ) -> None:
        """Read tokens up to the first end among them; those behind it were never written (ENG-059)."""
        self._tally.mark_tokens(now)
        for at, token in enumerate(ids):
            if token in self._end_ids:
                self._commit(ids[:at])
                self._drop(len(ids) - at - 1, of=len(ids), can_trim=can_trim)
                self._take_end_token(now)
                return
            self._tally.completion += 1
            self._hand_out(self._reader.feed(token, logprobs[at] if logprobs else None))
            # An answer that ends by itself was not cut, also where its last token is the last that the limit allows.
            if self._reader.stopped or self._tally.completion == self.limit:
                self._commit(ids[: at + 1])
                self._drop(len(ids) - at - 1, of=len(ids), can_trim=can_trim)
                self._end("stop" if self._reader.stopped else "length", now)
                return
        self._commit(ids)

    def _drop(self, count: int, *, of: int, can_trim: bool) -> None:
        """The last `count` of a round's tokens are neither read nor counted; all but its very last were drafted."""
        if count and can_trim:
            self._trim = Trim(of - count)
            self._tally.draft_accepted -= count - 1

    def _commit(self, ids: Sequence[int]) -> None:
        if self.rules.mask is not None and ids:
            self.rules.mask.commit(ids)

    def _force_what_is_certain(self) -> None:
        """Tokens that the mask alone decides need no sampling; a request for log-probabilities wants their rows."""
        mask = self.rules.mask
        if mask is None or self.rules.logprobs is not None or not self._tally.completion:
            return
        if not self._inserted and not self._reader.in_reasoning and (ids := mask.forced()):
            self._inserted.append(Force(tuple(ids), visible=True))

    def _close_at_cap(self) -> None:
        """The closer comes before anything else that is inserted; first of all, where the cap is 0."""
        if cap := self._capping.take_due(self._tally.completion):
            self._closer = Force(cap.closer, cap.visible)
            self._inserted.appendleft(self._closer)

    def _take_end_token(self, now: float) -> None:
        """The end token counts and is not delivered, unless the supervisor has the generation go on."""
        if self._look("SP2") or (self._has_call and self._look("SP3")):
            return
        self._tally.completion += 1
        self._end("stop", now)

    def _look(self, point: SafePoint) -> bool:
        """Whether the supervisor has inserted work."""
        if self._supervisor is None:
            return False
        works = self._supervisor.look(point)
        self._inserted.extend(works)
        return bool(works)

    def _hand_out(self, deltas: list[Delta]) -> None:
        self._deltas += deltas
        self._has_call |= any(isinstance(delta, CallEnd) for delta in deltas)

    def _end(self, reason: FinishReason, now: float, detail: str | None = None) -> None:
        """The ends of ENG-043 in their order: error, timeout and length come in, a complete call outranks a stop."""
        self._hand_out(self._reader.end())
        if reason == "stop" and self._has_call:
            reason = "tool_calls"
        # A block that never closed has everything, the end token too.
        reasoning = self._tally.completion if self._reader.in_reasoning else self._reader.reasoning_tokens
        usage = self._tally.usage(self.prompt, reasoning)
        self._finish = Finish(reason, usage, self._tally.timings(now), detail)
        self._deltas.append(self._finish)
