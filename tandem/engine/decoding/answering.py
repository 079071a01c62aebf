"""What is written behind the prompt: rounds, what is forced and asked between them, and how it ends (ENG-183).

A mask in the rules is read by the engine and moved on here, once a token; where it leaves no choice, what must follow
is forced instead of sampled. An end inside the tokens of one round has the engine take back the rest: one `Trim` comes
behind the `Finish`.

A supervisor is asked after every round (SP1), at an end that the model chose (SP2) and where the reader holds something
at the end (SP3). What it wants at an end begins with a `Trim` that takes the end token back (MON-029).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from tandem.engine.decoding.capping import Capping
from tandem.engine.decoding.outlet import Outlet
from tandem.engine.decoding.seams import SafePoint, Verdict
from tandem.engine.decoding.tally import Tally
from tandem.engine.decoding.watching import OwnEnd, Watching, goes_on
from tandem.engine.decoding.work import Answer, Ask, Ended, Force, Forced, Round, Trim, Trimmed, Work
from tandem.engine.text.reading.deltas import Finish, FinishReason
from tandem.engine.verbs import Accepted, SamplingRules, TokenLogprob

__all__ = ["Answering"]


class Answering:
    """Of one choice, once its prompt is read."""

    def __init__(
        self,
        rules: SamplingRules,
        *,
        out: Outlet,
        tally: Tally,
        capping: Capping,
        watching: Watching,
    ) -> None:
        self.finish: Finish | None = None
        self._rules = rules
        self._out = out
        self._reader = out.reader
        self._tally = tally
        self._capping = capping
        self._watching = watching
        self._inserted: deque[Force | Ask] = deque()
        self._trim: Trim | None = None
        """What the engine is to do before anything else, or after the finish."""
        self._own_end: OwnEnd | None = None
        """The end that the model has chosen, while it is open."""
        self._asked_at = 0.0
        """When the newest question was put, if there was one."""
        self._open_at: SafePoint | None = None
        """Where a question about it was asked; None where none is."""

    def next(self) -> Work | Ended:
        if self._trim is not None:
            return self._trim
        if self.finish is not None:
            return Ended()
        left = self._watching.limit - self._tally.completion
        match self._inserted[0] if self._inserted else None:
            case Force(ids, visible=True):
                return Force(ids[:left], visible=True)
            case Force() | Ask() as work:
                return work
            case None:
                return Round(self._capping.room(left, self._tally.completion))

    @property
    def is_hidden(self) -> bool:
        """What comes next is hidden from the client."""
        if self.finish is not None or not self._inserted:
            return False
        work = self._inserted[0]
        return isinstance(work, Ask) or not work.visible

    def feed(self, result: Accepted | Forced | Answer | Trimmed, now: float) -> None:
        match result:
            case Accepted():
                self._tally.count_round(result)
                if self._take_tokens(result.ids, result.logprobs, now, sampled=True):
                    self._act(self._watching.look("SP1"), "SP1", now)
            case Forced(ids):
                self._take_forced(ids, now)
            case Answer():
                self._take_answer(result, now)
            case Trimmed():
                self._trim = None
                return
            case _:
                assert_never(result)
        self.begin()

    def begin(self) -> None:
        """What comes before the next round of itself: a cap's closer, or what the mask makes certain."""
        if self.finish is None and self._open_at is None:
            self._close_at_cap()
            self._force_what_is_certain()

    def insert(self, works: Sequence[Force | Ask]) -> None:
        self._inserted.extend(works)

    def stop(self, reason: FinishReason, now: float, detail: str | None) -> None:
        self._trim = None
        if self.finish is None:
            self._end(reason, now, detail)

    def _take_forced(self, ids: Sequence[int], now: float) -> None:
        work = self._inserted.popleft()
        assert isinstance(work, Force)
        if work.visible:
            self._take_tokens(ids, (), now)
            return
        self._tally.hidden += len(ids)
        if work.closes:
            self._commit(ids)  # the mask waits for the block's end, which only these ids show
            self._out.close_reasoning()
        self._watching.fit()
        if self._tally.completion >= self._watching.limit:
            self._end("length", now)

    def _take_answer(self, answer: Answer, now: float) -> None:
        self._inserted.popleft()
        point = self._open_at
        answer = replace(answer, ms=1e3 * (now - self._asked_at))
        acted = self._act(self._watching.answered(answer), point or "SP1", now)
        if acted or self.finish is not None or point is None or self._inserted:
            return
        if point == "SP2":
            self._complete(now)
        else:
            self._end_by_model(now)

    def _take_tokens(
        self, ids: Sequence[int], logprobs: Sequence[TokenLogprob], now: float, *, sampled: bool = False
    ) -> bool:
        """Read tokens up to the first end among them; those behind it were never written (ENG-059). Whether none was.

        Of a round, which is `sampled`, they can be taken back.
        """
        self._tally.mark_tokens(now)
        for at, token in enumerate(ids):
            if token in self._rules.end_ids:
                self._commit(ids[:at])
                self._meet_end(OwnEnd(at, len(ids), 1) if sampled else None, now)
                return False
            self._tally.completion += 1
            self._out.read(token, logprobs[at] if logprobs else None)
            # An answer that ends by itself was not cut, also where its last token is the last that the limit allows.
            if self._reader.stopped or self._tally.completion == self._watching.limit:
                self._commit(ids[: at + 1])
                self._stop_at(at + 1, len(ids), now, sampled=sampled)
                return False
        self._commit(ids)
        return True

    def _meet_end(self, end: OwnEnd | None, now: float) -> None:
        """The end token counts and is not delivered, unless the supervisor has the generation go on."""
        if end is None:
            self._tally.completion += 1
            self._end("stop", now)
            return
        self._own_end = end
        if not self._act(self._watching.look("SP2"), "SP2", now):
            self._complete(now)

    def _stop_at(self, kept: int, of: int, now: float, *, sampled: bool) -> None:
        """The reader, or the limit, ends the answer behind the first `kept` tokens."""
        if self._reader.ended_by_call and (sampled or kept == of):
            self._own_end = OwnEnd(kept, of, 0)
            self._complete(now)
            return
        if sampled:
            self._keep(kept, of)
        self._end("stop" if self._reader.stopped else "length", now)

    def _complete(self, now: float) -> None:
        """The model's own end is let through, unless what is held is not."""
        self._out.flush()
        if not self._reader.held or not self._act(self._watching.look("SP3"), "SP3", now):
            self._end_by_model(now)

    def _act(self, verdict: Verdict, point: SafePoint, now: float) -> bool:
        """Do what a verdict says. Whether the answer goes on, has its end open still, or has been ended by it."""
        asks = bool(verdict.works) and not goes_on(verdict.works)
        self._asked_at = now
        self._out.let_go(verdict, releases=point == "SP3" and not asks)
        if verdict.end is not None:
            inside = self._reader.in_reasoning
            self._out.give_up(verdict.end)
            self._end_by_model(now, verdict.end.detail, inside=inside)
            return True
        if not verdict.works or self.finish is not None:
            return False
        if (end := self._own_end) is not None:
            if self._open_at is None:
                self._keep(end.kept, end.of)
            self._open_at = point if asks else None
            if not asks:
                self._own_end = None
                if point == "SP3":
                    self._reader.reopen()
        self._inserted.extend(verdict.works)
        return True

    def _keep(self, count: int, of: int) -> None:
        """Of a round's tokens the first `count` are read; all but its very last were drafted."""
        if count < of:
            self._trim = Trim(count)
            self._tally.draft_accepted -= of - count - 1

    def _commit(self, ids: Sequence[int]) -> None:
        if self._rules.mask is not None and ids:
            self._rules.mask.commit(ids)

    def _force_what_is_certain(self) -> None:
        """Tokens that the mask alone decides need no sampling; a request for log-probabilities wants their rows."""
        mask = self._rules.mask
        if mask is None or self._rules.logprobs is not None or not self._tally.completion:
            return
        if not self._inserted and not self._reader.in_reasoning and (ids := mask.forced()):
            self._inserted.append(Force(tuple(ids), visible=True))

    def _close_at_cap(self) -> None:
        """The closer comes before anything else that is inserted; first of all, where the cap is 0."""
        if any(isinstance(work, Force) and work.closes for work in self._inserted):
            return
        if cap := self._capping.take_due(self._tally.completion):
            if not cap.visible and len(cap.closer) >= self._watching.left:
                return  # there are no rows for it and what it is forced for: the window ends the answer
            self._watching.closed(cap)
            self._inserted.appendleft(
                Force(cap.closer, cap.visible, closes=not cap.visible, shown=0 if cap.visible else cap.shown)
            )

    def _end_by_model(self, now: float, detail: str | None = None, *, inside: bool | None = None) -> None:
        """Its end, if it has chosen one, stands, and what its round had behind it does not."""
        if (end := self._own_end) is not None:
            self._tally.completion += end.token
            if self._open_at is None:
                self._keep(end.kept + end.token, end.of)
            self._own_end = self._open_at = None
        self._deliver("stop", now, detail, inside=self._reader.in_reasoning if inside is None else inside)

    def _end(self, reason: FinishReason, now: float, detail: str | None = None) -> None:
        """An end that the model did not choose. What is held is judged, but nothing can follow (MON-078)."""
        self._out.flush()
        inside = self._reader.in_reasoning
        if self._reader.held and reason not in ("error", "abandoned"):
            verdict = self._watching.look("SP3", reason)
            self._out.let_go(verdict, releases=True)
            if verdict.end is not None:
                self._out.say(verdict.end)
                detail = verdict.end.detail
        self._deliver(reason, now, detail, inside=inside)

    def _deliver(self, reason: FinishReason, now: float, detail: str | None, *, inside: bool) -> None:
        self.finish = self._out.finish(reason, now, detail, inside=inside)
