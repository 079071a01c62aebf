"""The prompt of a question that is asked inside the conversation (RTR-019, RTR-020).

It is the turn's own with the notes of earlier turns put back, as the cache holds them, cut after the last turn's end;
then the question as one more hidden turn. What the plan decides of the answer comes behind the parting point or into
the last turn, so the turn goes on with the rows that are read here.
"""

from __future__ import annotations

from tandem.conductor.router.kit import Kit
from tandem.conductor.router.notes import carry, live_notes
from tandem.conductor.router.placing import place
from tandem.conductor.router.plan import Effects, Plan, Question
from tandem.conductor.router.prepare import Prepared
from tandem.conductor.router.questions import Asked, within
from tandem.conductor.sessions import SessionView
from tandem.engine.text.asking import asking_prompt
from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import Prompt

__all__ = ["asked_inside"]


def asked_inside(
    kit: Kit, text: TextModel, prepared: Prepared, session: SessionView, question: Question, prompt: Prompt, window: int
) -> Asked | None:
    """None where the template ends no turn, or `window` tokens do not hold the question and one more.

    `prompt` is rendered of what was prepared. In shadow no notes are put back, as in the turn itself.
    """
    if prepared.resolution.mode == "on":
        prompt = place(kit, _replaying(kit, prepared, session), prompt, window - 1 - len(prompt.ids)).prompt
    inside = within(question, prompt, text)
    if inside is None:
        return None
    asking = asking_prompt(prompt, inside.parting, inside.ids)
    return Asked(asking, inside.options) if len(asking.ids) < window else None


def _replaying(kit: Kit, prepared: Prepared, session: SessionView) -> Plan:
    """A plan of which nothing is decided yet but the notes of earlier turns (NOTE-002)."""
    live = live_notes(session.notes, frozenset(prepared.digests.places))
    most = prepared.documents.router.injection.max_replay_tokens
    replays = carry(live, (), most_tokens=most, encode=kit.encode, dedup=kit.dedup).replays
    resolution = prepared.resolution
    owner = session.key if prepared.turn != "compaction" else None
    effects = Effects(under_plan=True, replays=replays, hidden_session=owner)
    return Plan(mode=resolution.mode, profile=resolution.name, turn=prepared.turn, session=session, effects=effects)
