"""An act as work of the engine: the hidden ids of its text, wrapped as the policy says (MON-031, MON-032, MON-054)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tandem.conductor.monitor.actions import Action
from tandem.conductor.monitor.case import Case, Setup
from tandem.conductor.monitor.record import Finding
from tandem.engine.decoding.outlet import PARAGRAPH
from tandem.engine.decoding.seams import Seen, Verdict
from tandem.engine.decoding.work import Force

__all__ = ["Forced", "NoWay", "act", "forced", "rewriting"]


class NoWay(Exception):
    """The act cannot be done, and the answer goes on as it is: `no_room`, `no_template`."""


@dataclass(frozen=True, slots=True)
class Forced:
    """Works in their order, and what the model reads in them."""

    works: tuple[Force, ...]
    text: str

    @property
    def hidden(self) -> int:
        return sum(len(work.ids) for work in self.works if not work.visible)


def act(case: Case, finding: Finding, seen: Seen) -> Verdict | None:
    """What is done of a finding at SP1 or SP2; None: nothing, since there is no way to it."""
    action = finding.action
    if action.kind == "GIVE_UP":
        return case.give_up(finding, position=seen.position)
    if (cap := case.acts.reached) is not None:
        if finding.task.tier:  # who asks the model does not end its turn (MON-068)
            case.record.passed(finding, f"cap({cap})")
            return None
        return case.give_up(finding, f"cap({cap})", position=seen.position)
    try:
        made = forced(case.setup, action, seen, case.trace.answer_text)
    except NoWay as no:
        if action.kind == "CONTINUE_HIDDEN" and _is_empty(case):  # no turn ends without a word (MON-055)
            return case.give_up(finding, str(no), position=seen.position)
        case.record.passed(finding, str(no))
        return None
    if case.acts.is_repeat(action.kind, made.text):
        return case.give_up(finding, "repeated", position=seen.position)
    case.acts.add(action.kind, made.text)
    case.record.found(
        finding,
        acted=action.kind,
        text=made.text or None,
        hidden_tokens=made.hidden,
        position=seen.position,
        reasoning_cut=seen.reasoning_tokens if seen.in_reasoning else None,
    )
    return Verdict(works=made.works)


def _is_empty(case: Case) -> bool:
    return not (case.trace.has_calls or case.trace.answer_text.strip())


def forced(setup: Setup, action: Action, seen: Seen, said: str) -> Forced:
    """The works of `CLOSE_REASONING` and `CONTINUE_HIDDEN`. Raises `NoWay`.

    What comes behind a message that was `said` is another one, and begins a paragraph of its own in the client's eyes.
    """
    works: list[Force] = []
    text = action.text
    if seen.in_reasoning:
        text = setup.texts["vendor_close"] if text is None else text
        closer, shown = setup.hidden.closer(text)
        works.append(Force(closer, visible=False, closes=True, shown=shown))
    elif not action.ids:
        text = setup.texts["nudge"] if text is None else text
        ids = setup.hidden.user_turn(setup.policy.templates["hidden_turn"].format(text=text))
        if said.strip() and not said.endswith("\n"):
            works.append(Force(tuple(setup.tok.encode_own(PARAGRAPH)), visible=True))
        works.append(Force(_ids(ids), visible=False))
    if action.ids:
        works.append(Force(action.ids, visible=True))
    return _fitting(Forced(tuple(works), text or ""), seen)


def rewriting(setup: Setup, texts: Sequence[str], seen: Seen, dropped: int) -> Forced:
    """The works of `REGENERATE_CALL`: one text for each held call, `dropped` tokens of which go. Raises `NoWay`."""
    template = setup.policy.templates["regen_turn"]
    ids = setup.hidden.tool_turn([template.format(text=text) for text in texts])
    work = Force(_ids(ids), visible=False, dropped=dropped)
    return _fitting(Forced((work,), "\n".join(dict.fromkeys(texts))), seen)


def _ids(ids: tuple[int, ...] | None) -> tuple[int, ...]:
    if ids is None:
        raise NoWay("no_template")
    return ids


def _fitting(made: Forced, seen: Seen) -> Forced:
    """Something is to come behind the works, be it the end alone."""
    rows = sum(len(work.ids) for work in made.works)
    if rows >= seen.room or rows - made.hidden >= seen.left:
        raise NoWay("no_room")
    return made
