"""Runs measurements one after another, shows each and keeps it where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from tandem.bench import exact, profile, server, speculate, speed, verifies
from tandem.bench.ours import Ours, load_ours
from tandem.bench.prompts import Prompts
from tandem.bench.report import RESULTS, Machine, Report, keep, render
from tandem.bench.subject import BenchError, Build, Remote, Subject
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.load import load_engine
from tandem.engine.models.formats import CpuWeights

__all__ = ["Peer", "Plan", "Suite"]

Peer: TypeAlias = Callable[[Path, int, int], Subject]
"""Loads another engine: checkpoint, threads, window in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure with.

    Each of `cpu_weights` is an engine of ours, None the default; `rounds` None is each suite's own number.
    """

    model: Path
    threads: int
    cpu_weights: tuple[CpuWeights | None, ...]
    peers: Mapping[str, Peer] = field(default_factory=dict)
    rounds: int | None = None


class Suite:
    """One run of the command."""

    def __init__(self, machine: Machine, console: Console, *, write: bool, directory: Path = RESULTS) -> None:
        self._machine = machine
        self._console = console
        self._write = write
        self._directory = directory
        if machine.busy:
            self._say(f"This machine is busy (load average {machine.load:.2f}): do not trust these figures.")

    def engines(self, plan: Plan, names: Sequence[str]) -> None:
        """Some of decode, prefill and warm, ours first and the peers beside it. `BenchError` where ours does not load.

        A model with a short context gets shorter prompts.
        """
        prompts, window = _opened(plan.model)
        with self._loaded(_builds(plan, window), must=len(plan.cpu_weights)) as subjects:
            about = [f"{name}: {subject.about()}" for name, subject in subjects.items()]
            for name in names:
                report = _measured(name, subjects, prompts, plan.rounds, window)
                self._finish(name, report, lines=[*about, *self._machine.lines(plan.threads)])

    def speculate(self, plan: Plan) -> None:
        """Texts of several kinds on ours as it serves, ours without a drafter, and the peers."""
        checkpoint = open_checkpoint(plan.model)
        window = min(speculate.WINDOW, checkpoint.config.max_position_embeddings)
        [weights, *_] = plan.cpu_weights
        ours = partial(load_ours, plan.model, plan.threads, window, weights)
        builds = {"tandem": partial(ours, drafter="auto"), "without drafts": ours}
        # transformers says nothing here: three times slower, it would take most of the time.
        peers = {name: build for name, build in _peers(plan, window).items() if name.startswith("llama.cpp")}
        with self._loaded(builds | peers, must=len(builds)) as subjects:
            report = speculate.speculate(subjects, checkpoint.text.encode, rounds=plan.rounds or 3, window=window)
            about = [f"{name}: {subject.about()}" for name, subject in subjects.items()]
            self._finish("speculate", report, lines=[*about, *self._machine.lines(plan.threads)])

    def profile(self, plan: Plan) -> None:
        """One token of ours, and rounds with drafts, taken apart; for each of the weights that the plan names."""
        prompts, window = _opened(plan.model)
        reports, lines = [], list[str]()
        for weights in plan.cpu_weights:
            engine = load_engine(plan.model, max_len=window, threads=plan.threads, cpu_weights=weights, drafter="auto")
            reports.append(profile.profile(engine, prompts))
            reports.append(verifies.verifies(engine, prompts, context=min(512, window - speed.ROOM)))
            lines.append(Ours(engine).about())
        self._finish("profile", *reports, lines=[*lines, *self._machine.lines(plan.threads)])

    def exact(self, plan: Plan, *, quick: bool, tie_nats: float | None) -> bool:
        """Whether nothing but near ties parts any two texts; for each of the weights that the plan names."""
        reports, held = [], True
        for weights in plan.cpu_weights:
            given = exact.open_check(
                plan.model,
                cpu_weights=weights,
                threads=plan.threads,
                quick=quick,
                tie_nats=exact.TIE_NATS if tie_nats is None else tie_nats,
            )
            found = exact.check(given)
            reports.append(exact.table(given, found))
            held &= not any(each.defects for each in found)
        self._finish("exact", *reports, lines=self._machine.lines(plan.threads))
        return held

    def server(self) -> None:
        """The service on the fake engine."""
        self._finish("server", server.costs(), lines=self._machine.lines())

    @contextmanager
    def _loaded(self, builds: Mapping[str, Build], must: int) -> Iterator[dict[str, Subject]]:
        """The subjects, each in its own process. Of the first `must` none may fail; others are left out."""
        with ExitStack() as stack:
            remotes = {name: Remote(build) for name, build in builds.items()}
            for remote in remotes.values():
                stack.callback(remote.close)
            ready: dict[str, Subject] = {}
            for index, (name, remote) in enumerate(remotes.items()):
                with Console(stderr=True).status(f"loading {name}"):
                    try:
                        remote.wait()
                    except BenchError as error:
                        if index < must:
                            raise
                        self._say(f"{name} is left out: {error}")
                        continue
                ready[name] = remote
            yield ready

    def _finish(self, name: str, *reports: Report, lines: Sequence[str]) -> None:
        for report in reports:
            render(report, self._console)
        for line in lines:
            self._console.print(line, style="dim", markup=False, highlight=False)
        if self._write:
            self._say(f"kept in {keep(name, reports, lines, self._directory, self._machine.started.date())}")

    def _say(self, text: str) -> None:
        Console(stderr=True).print(text, markup=False, highlight=False)


def _builds(plan: Plan, window: int) -> dict[str, Build]:
    builds: dict[str, Build] = {
        f"tandem {weights or 'default'}": partial(load_ours, plan.model, plan.threads, window, weights)
        for weights in plan.cpu_weights
    }
    return builds | _peers(plan, window)


def _peers(plan: Plan, window: int) -> dict[str, Build]:
    return {name: partial(peer, plan.model, plan.threads, window) for name, peer in plan.peers.items()}


def _opened(path: Path) -> tuple[Prompts, int]:
    """Prompts in the checkpoint's own tokens, and the window to measure in."""
    checkpoint = open_checkpoint(path)
    window = min(speed.WINDOW, checkpoint.config.max_position_embeddings)
    if window < 2 * speed.ROOM:
        raise BenchError(f"{path.name}: a context of {window} tokens is too short; {2 * speed.ROOM} are needed")
    return Prompts(checkpoint.text.encode), window


def _measured(name: str, subjects: Mapping[str, Subject], prompts: Prompts, rounds: int | None, window: int) -> Report:
    longest = window - speed.ROOM
    match name:
        case "decode":
            return speed.decode(subjects, prompts, rounds=rounds or 5)
        case "prefill":
            lengths = [length for length in speed.LENGTHS if length <= longest]
            return speed.prefill(subjects, prompts, rounds=rounds or 3, lengths=lengths)
        case "warm":
            return speed.second_turn(subjects, prompts, rounds=rounds or 3, length=longest)
        case _:
            raise ValueError(f"{name} is no measurement of engines")
