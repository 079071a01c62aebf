"""Whether a turn ends in a repeat, told from the request's own messages (SMP-005, SMP-007). Pure.

A greedy model that sees its own call fail the same way twice makes it a third time; one drawn token leads out. The run
is that of the monitor's task C3 (MON-092); the near-repeat is looked for here, by similarity of the arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from tandem.conductor.monitor.call_runs import REPEATS, Made, pending_runs, returned, turn_calls
from tandem.conductor.tool_arguments import canonical

__all__ = ["ESCAPE_TEXT", "REPEATS", "Repeat", "repeat_at_end"]

NEAR = 3
LONGEST_NAME = 64
SIMILAR = 0.8
COMPARED = 1_000
"""Characters of the arguments that are compared for being similar, from their beginning."""
ESCAPE_TEXT = "Repeating {tool} brought nothing new. Pick another call or other arguments."
"""Where no policy gives C3's own."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """What the turn ends in."""

    why: Literal["repeat", "near"]
    name: str
    """The tool that was called."""

    def note(self, text: str = ESCAPE_TEXT) -> str:
        """What the model is told at the prompt's end."""
        return text.format(tool=self.name[:LONGEST_NAME])


def repeat_at_end(
    messages: Sequence[Mapping[str, Any]], *, repeats: int = REPEATS, waited: Collection[str] = ()
) -> Repeat | None:
    """`waited` are keys of calls whose result took so long that the call was a wait: they end the streak."""
    done = returned(turn_calls(messages), waited)
    if not done:
        return None
    last = done[0]
    if any(pending_runs(done, repeats, 1)):
        return Repeat("repeat", last.tool)
    near = done[1:NEAR]
    if len(near) == NEAR - 1 and all(_is_near(each, last) for each in near):
        return Repeat("near", last.tool)
    return None


def _is_near(one: Made, last: Made) -> bool:
    if (one.tool, one.result) != (last.tool, last.result):
        return False
    matcher = SequenceMatcher(None, canonical(one.arguments)[:COMPARED], canonical(last.arguments)[:COMPARED])
    # The cheap bounds first: the ratio itself is quadratic.
    return matcher.real_quick_ratio() >= SIMILAR and matcher.quick_ratio() >= SIMILAR and matcher.ratio() >= SIMILAR
