"""The engine's own choice question, asked through the queue as one small request (RTR-006, RTR-008 to RTR-010).

One about the conversation is no request: `Asking` is what the request's own slot runs for it (RTR-019).

A holder serves it at a safe point as a lane job; else an idle side slot has it, or slot 0 as a guest, whose rows stay.
Where none of them can be had soon there is no answer: a question never waits behind a turn.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

import trio

from tandem.actors.kit import ActorGone
from tandem.actors.line import Rank
from tandem.actors.outbox import Outbox
from tandem.actors.queue import Needs
from tandem.conductor.router.plan import Answer, Question
from tandem.conductor.router.questions import Asked, rendered
from tandem.engine.decoding import work
from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.seams import NOTHING, Close, SafePoint, Seen, Verdict
from tandem.engine.errors import BadInput
from tandem.engine.text.reading.reader import PlainReader
from tandem.engine.verbs import SamplingRules
from tandem.http.context import Context, new_id
from tandem.http.entry import Entry, Limits
from tandem.http.events import End
from tandem.http.exchange import Exchange
from tandem.http.openai.errors import ApiError

__all__ = ["BUSY_S", "Asking", "ask"]

log = logging.getLogger(__name__)

BUSY_S = 0.5
"""How long a question that no holder can take stands in line before the engine counts as busy."""


async def ask(here: Context, question: Question) -> Answer:
    """The options' probabilities, or why there are none."""
    if question.stage != "engine":
        return Answer(error=f"no_{question.stage}")
    started = trio.current_time()
    answer = Answer(error="engine_timeout")
    with trio.move_on_after(question.deadline_ms / 1e3):
        answer = await _asked(here, question)
    here.metrics.asked(question.id, failed=answer.error is not None)
    ms = round(1e3 * (trio.current_time() - started), 3)
    if answer.error is not None:
        log.info("[conductor] the %s question had no answer after %.0f ms: %s", question.id, ms, answer.error)
        return Answer(error=answer.error, ms=ms)
    return Answer(
        probabilities=answer.probabilities,
        ms=ms,
        prompt_tokens=answer.prompt_tokens,
        prefilled=answer.prefilled,
        reused=answer.reused,
    )


async def _asked(here: Context, question: Question) -> Answer:
    try:
        asked = rendered(question, here.text)
    except BadInput:
        return Answer(error="engine_failed")
    is_lane = here.settings.side_lane != "off" and len(asked.prompt.ids) <= here.settings.side_lane_prompt_max
    wait_s = question.deadline_ms / 1e3 if is_lane else min(BUSY_S, question.deadline_ms / 1e3)
    asking = Asking(here, question, asked)
    exchange = Exchange(
        new_id("ask-"),
        (asking.generation,),
        queue=here.queue,
        outbox=Outbox(stall_s=here.settings.client_stall_s),
        entry=Entry(
            rank=Rank.SIDE,
            needs=Needs(prompt=len(asked.prompt.ids), output=1, text_only=True, keys=asked.prompt.keys),
            wait_s=wait_s,
            is_lane=is_lane,
            is_guest=True,
        ),
        limits=Limits(request_timeout=question.deadline_ms / 1e3, prefill_heartbeat=0),
        stream=False,
        arrived_at=trio.current_time(),
    )
    try:
        while not isinstance(await exchange.next(), End):
            pass
    except (ApiError, ActorGone):
        return Answer(error="engine_busy")
    finally:
        with suppress(ActorGone):
            await exchange.aclose()
    return asking.answer()


class Asking:
    """A question's prompt, whose last row is looked at, as a slot runs it. The token behind it, which is written where
    the question is `alone`, is read by nobody.
    """

    def __init__(self, here: Context, question: Question, asked: Asked, *, alone: bool = True) -> None:
        self._question = question
        self._asked = asked
        self._alone = alone
        self._shares: Sequence[float] | None = None
        self._answered_at = 0.0
        self.generation = Generation(
            asked.prompt,
            SamplingRules(),
            limit=1,
            reader=PlainReader(here.text),
            end_ids=here.text.end_ids,
            grid=here.card.anchor_grid,
            arrived_at=trio.current_time(),
            supervisor=self,
        )
        self.generation.ask((), asked.options)

    def look(self, point: SafePoint, seen: Seen) -> Verdict:
        """Inserts nothing."""
        return NOTHING

    def answered(self, answer: work.Answer, seen: Seen) -> Verdict:
        self._shares, self._answered_at = answer.probabilities, trio.current_time()
        if not self._alone:
            self.generation.stop("stop", self._answered_at)
        return NOTHING

    def closed(self, close: Close) -> None:
        """A question has no reasoning."""

    def answer(self) -> Answer:
        """What came of it, once the generation has ended; `ms` from the start of its work on."""
        generation, rows = self.generation, len(self._asked.prompt.ids)
        if self._shares is None:
            timed_out = generation.finish is not None and generation.finish.reason == "timeout"
            return Answer(error="engine_timeout" if timed_out else "engine_failed")
        resumed, started_at = generation.prefilled.resumed, generation.progress.started_at or 0.0
        return Answer(
            probabilities={
                option.id: share for option, share in zip(self._question.options, self._shares, strict=True)
            },
            ms=round(1e3 * (self._answered_at - started_at), 3),
            prompt_tokens=rows,
            prefilled=rows - resumed,
            reused=resumed,
        )
