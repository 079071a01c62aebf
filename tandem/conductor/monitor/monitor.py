"""The session monitor: makes a supervisor for each request, under the policy in use (MON-001 to MON-010, MON-145)."""

from __future__ import annotations

from collections.abc import Iterable

from tandem.conductor.documents.profiles import Profile
from tandem.conductor.documents.words import Mode
from tandem.conductor.monitor import rules as _rules  # noqa: F401  (registers them)
from tandem.conductor.monitor.acts import Acts
from tandem.conductor.monitor.case import Case, Setup
from tandem.conductor.monitor.checks import model_problems
from tandem.conductor.monitor.events import MonitorEvent, RequestEvent
from tandem.conductor.monitor.hidden import HiddenTurns
from tandem.conductor.monitor.modes import ArgLoop, caps_of, lowest, tasks_of
from tandem.conductor.monitor.policy import Policy, PolicyError
from tandem.conductor.monitor.reasoned import Codec
from tandem.conductor.monitor.supervisor import Supervisor
from tandem.conductor.monitor.tier0 import registered
from tandem.conductor.monitor.watch import clients_gone
from tandem.conductor.sessions.prefixes import Prefixes
from tandem.conductor.sessions.view import SessionView
from tandem.engine.text.closing import CLOSING_PHRASE
from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.reading.calls import xml_calls

__all__ = ["Monitor"]

STOPS = "argument_loop"
"""The rule whose `marker` the history cut writes."""


class Monitor:
    """`mode` is `--conductor`'s, `window` the rows of the context, `codec` what reads the model's calls.

    Raises `PolicyError` where the policy does not fit the model.
    """

    def __init__(
        self,
        mode: Mode,
        policy: Policy,
        tok: TextModel,
        *,
        argloop: ArgLoop = "on",
        window: int = 0,
        version: int = 0,
        codec: Codec = xml_calls,
    ) -> None:
        self._mode = mode
        self._argloop = argloop
        self._tok = tok
        self._hidden = HiddenTurns(tok)
        self._window = window
        self._codec = codec
        self._prefixes = Prefixes()
        self._setup = self._set_up(policy, version)

    @property
    def policy(self) -> Policy:
        """The policy that the next request begins under."""
        return self._setup.policy

    @property
    def version(self) -> int:
        return self._setup.version

    def reload(self, policy: Policy, version: int = 0) -> None:
        """Requests that begin afterwards are under `policy`. Raises `PolicyError`, and all stays as it is."""
        self._setup = self._set_up(policy, version)

    def mode_for(self, request_mode: Mode, n: int) -> Mode:
        """The monitor's mode for a request of `n` choices (MON-005, MON-006)."""
        return lowest(request_mode, self._mode, "shadow" if n > 1 else "on")

    def session_key(self, prompt: Prompt, client: str, now: float, *, is_compaction: bool = False) -> str:
        """The session of a prompt without an id, where no router knows it (MON-139); `client` is sender and kind."""
        rules = self._setup.policy.sessions
        return self._prefixes.key(
            prompt,
            client,
            now,
            tokens=rules.lineage_tokens,
            window_s=rules.join_window_s,
            is_compaction=is_compaction,
        )

    def marker(self, request_mode: Mode, n: int) -> str | None:
        """What the history cut leaves in place of a stopped call's repetition; None where it is off (MON-113)."""
        if self._argloop != "on" or self.mode_for(request_mode, n) != "on":
            return None
        return next(
            (task.params["marker"] for task in self.policy.tasks if task.rule == STOPS and task.mode == "act"), None
        )

    def begin(
        self, mode: Mode, req: RequestEvent, prompt: Prompt, view: SessionView, *, profile: Profile | None = None
    ) -> Supervisor | None:
        """The supervisor of a request in `mode`, which `mode_for` gives; None in raw (MON-002).

        `profile` is a plan's; without one notes have no place.
        """
        if mode == "raw":
            return None
        setup = self._setup
        tasks = tasks_of(setup.policy, setup.rules, mode, profile, self._argloop)
        acts = Acts(caps_of(setup.policy, profile), view.monitor.acts, req.now)
        return Supervisor(Case(setup, mode, req, view.monitor, tasks, acts, has_plan=profile is not None))

    def sweep(self, views: Iterable[SessionView], now: float) -> list[tuple[str, MonitorEvent]]:
        """Whose client is gone, by the session's key; the caller remembers each event's delta (MON-126)."""
        return list(clients_gone(self._setup.policy, views, now))

    def _set_up(self, policy: Policy, version: int) -> Setup:
        problems = tuple(model_problems(policy.texts, any(task.tier for task in policy.tasks), self._tok))
        if problems:
            raise PolicyError(problems)
        texts = {name: CLOSING_PHRASE if text is None else text for name, text in policy.texts.items()}
        return Setup(
            policy=policy,
            rules=registered(),
            texts=texts,
            tok=self._tok,
            hidden=self._hidden,
            codec=self._codec,
            window=self._window,
            version=version,
        )
