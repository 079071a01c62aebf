"""The client's side of a `Generation`: what its reader says and holds back, on the way out (MON-033, MON-077)."""

from __future__ import annotations

from tandem.engine.decoding.seams import EndNow, Reader, Verdict
from tandem.engine.decoding.tally import Tally
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.deltas import CallEnd, Content, Delta, Finish, FinishReason
from tandem.engine.verbs import TokenLogprob

__all__ = ["PARAGRAPH", "Outlet"]

PARAGRAPH = "\n\n"
"""Between two messages of one answer."""


class Outlet:
    """Of one choice."""

    def __init__(self, reader: Reader, prompt: Prompt, tally: Tally) -> None:
        self.reader = reader
        self.prompt = prompt
        self._tally = tally
        self._deltas: list[Delta] = []
        self._has_call = False
        self._gap = ""
        """What sets a sentence of the server's off from the answer so far."""

    def take(self) -> list[Delta]:
        """The deltas since the last call."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def read(self, token: int, logprob: TokenLogprob | None) -> None:
        self._put(self.reader.feed(token, logprob))

    def flush(self) -> None:
        """The text ends here; what is held stays so."""
        self._put(self.reader.end())

    def close_reasoning(self) -> None:
        self._put(self.reader.close_reasoning())

    def let_go(self, verdict: Verdict, *, releases: bool) -> None:
        """What is held goes out or is dropped; where a verdict says neither it goes out if the point `releases`."""
        reader = self.reader
        if verdict.drop:
            self._drop()
        elif verdict.release is not None:
            self._put(reader.release(verdict.release))
        elif releases and verdict.end is None and reader.held:
            self._put(reader.release(reader.held))

    def give_up(self, end: EndNow) -> None:
        """What is open is closed for the client, what is held is dropped, and the sentence comes last."""
        self._drop()
        if self.reader.in_reasoning:
            self.close_reasoning()
        self.flush()
        self.say(end)

    def say(self, end: EndNow) -> None:
        self._has_call |= end.cut
        if end.sentence:
            self._deltas.append(Content(self._gap + end.sentence))

    def finish(self, reason: FinishReason, now: float, detail: str | None, *, inside: bool) -> Finish:
        """The last delta, with the ends of ENG-043 in their order: error, timeout and length come in, a complete call
        outranks a stop. A block that never closed (`inside`) has every token, the end token too.
        """
        if reason == "stop" and self._has_call:
            reason = "tool_calls"
        reasoning = self._tally.completion if inside else self.reader.reasoning_tokens
        finish = self._tally.finish(reason, self.prompt, reasoning, now, detail)
        self._deltas.append(finish)
        return finish

    def _drop(self) -> None:
        if self.reader.in_call:
            self.reader.drop_block()
        if self.reader.held:
            self.reader.reopen()

    def _put(self, deltas: list[Delta]) -> None:
        self._deltas += deltas
        for delta in deltas:
            if isinstance(delta, Content) and delta.text:
                self._gap = "" if delta.text.endswith("\n") else PARAGRAPH
        self._has_call |= any(isinstance(delta, CallEnd) for delta in deltas)
