"""The package question: which of a class's remaining packages the message needs, or none (PKG-004, PKG-005).

Sans-I/O like the class question, and through its stages. Decision models do not exist yet, so there is no decider
stage, and under the grant, where none but a decider may be asked (RTR-023), nobody is.
"""

from __future__ import annotations

from collections.abc import Sequence

from tandem.conductor.documents import Package, Router
from tandem.conductor.packages.selection import Chosen, Offer
from tandem.conductor.router.digest import digest
from tandem.conductor.router.plan import Answer, Option, Question, StageName
from tandem.conductor.router.questions import CLASS_QUESTION, LETTERS, question_texts
from tandem.conductor.router.stages import StageCall, Stages
from tandem.conductor.sessions import SessionView

__all__ = ["MOST", "NONE", "PackageChoice", "settled"]

NONE = Option("none", "none of these")
ENGINE: tuple[StageName, ...] = ("engine",)
MOST = len(LETTERS) - 1
"""Packages that a question can have beside none."""


class PackageChoice:
    """`next(None)` first, then with each question's answer, until it gives what was chosen.

    Where nobody is sure enough it is none of them, and that is not remembered as an answer.
    """

    def __init__(self, router: Router, offered: Offer, message: str, stages: Sequence[StageName] | None = None) -> None:
        """`message` is the new user message; `stages` those that may be asked, by default what the router has on."""
        if stages is None:
            self._unasked = "not_asked"
            stages = ENGINE if router.classifier.engine.mode == "on" else ()
        else:
            self._unasked = "under_grant"
        options = offered.options[:MOST]
        accept = router.packages.accept
        calls = [StageCall(_question(router, offered.class_id, options, message, stage), accept) for stage in stages]
        self._stages = Stages(calls)

    def next(self, answer: Answer | None) -> Question | Chosen:
        question = self._stages.next(answer)
        return self._chosen() if question is None else question

    def _chosen(self) -> Chosen:
        stages = self._stages
        ms = sum(result.ms for result in stages.results)
        if (sure := stages.accepted) is not None:
            name = None if sure.label == NONE.id else sure.label
            return Chosen(name=name, how=sure.stage, probabilities=sure.probabilities, ms=ms)
        if (last := stages.last) is not None:
            return Chosen(name=None, how="below_accept", probabilities=last.probabilities, ms=ms, answered=False)
        errors = [result.error for result in stages.results if result.error is not None]
        return Chosen(name=None, how=errors[-1] if errors else self._unasked, ms=ms, answered=False)


def _question(router: Router, class_id: str, options: Sequence[Package], message: str, stage: StageName) -> Question:
    classifier = router.classifier
    offered = (*(Option(one.name, one.description) for one in options), NONE)
    template = classifier.package_prompt or classifier.prompt or CLASS_QUESTION
    text, lettered = question_texts(template, offered, digest(message, classifier.digest_chars), class_id)
    return Question(
        id="package",
        stage=stage,
        text=text,
        lettered=lettered,
        options=offered,
        deadline_ms=classifier.timeout_ms,
    )


def settled(router: Router, offered: Offer, session: SessionView, *, after_compaction: bool = False) -> Chosen | None:
    """The answer that needs no question: the last one, where it stays. None: ask, if there are options.

    A prose class keeps its package while the session stays in the class (PKG-005). The first message after a compaction
    says nothing of the task, so there every class keeps what it has (SES-019, decided).
    """
    last = session.package
    stays = (
        last is not None
        and last.class_id == session.class_id == offered.class_id
        and last.name in {one.name for one in offered.options}
    )
    name = last.name if last is not None and stays else None
    if after_compaction:
        return Chosen(name=name, how="kept", answered=False)
    policy = router.policies.get(offered.class_id)
    sticky = (policy.package_sticky if policy is not None else None) or router.classifier.package_sticky
    return Chosen(name=name, how="sticky", answered=False) if name is not None and sticky == "class" else None
