"""`tandem bench exact`: what a feature may not change, it does not change (ENG-065, ENG-066, ENG-074).

Every case is written plainly on an engine of its own, and again with each feature; a judge compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from tandem.bench import cases, features
from tandem.bench.cases import CASES, Case, Starter
from tandem.bench.features import EVERY, FEATURES, PLAIN, Feature, Told
from tandem.bench.judge import TIE_NATS, Run, Step, Verdict, judge
from tandem.bench.progress import bar
from tandem.bench.report import Report
from tandem.bench.subject import BenchError
from tandem.engine.checkpoints.load import Checkpoint, open_checkpoint
from tandem.engine.decoding.generation import Generation
from tandem.engine.decoding.noise import Noise
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import Ended, Forced, Round, perform
from tandem.engine.drafting.choice import DRAFTERS, make_drafter, reads_layer, require_offered
from tandem.engine.drafting.drafter import Drafter
from tandem.engine.errors import CheckpointError
from tandem.engine.models.formats import CpuWeights, default_for
from tandem.engine.models.model import Model
from tandem.engine.models.registry import package_of
from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Accepted, ModelCard, SamplingRules, TokenLogprob

__all__ = ["GRID", "TIE_NATS", "Check", "Found", "check", "open_check", "table"]

GRID = 32
"""Short prompts have lines too."""
TOKENS, QUICK_TOKENS = 48, 12
WINDOW = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What is checked: cases of a number of tokens on one model, and how wide a near tie may be."""

    model: Model
    text: TextModel
    card: ModelCard
    cases: Sequence[Case] = CASES
    features: Sequence[Feature] = FEATURES
    tokens: int = TOKENS
    tie_nats: float = TIE_NATS


@dataclass(slots=True)
class Found:
    """What came of one feature. `acted` counts what shows that it was at work: rows resumed, tokens drafted, rounds
    before which something was done.
    """

    feature: Feature
    tokens: int = 0
    rounds: int = 0
    acted: int = 0
    verdicts: list[tuple[str, Verdict]] = field(default_factory=list)

    @property
    def defects(self) -> int:
        return sum(verdict.is_defect for _, verdict in self.verdicts)

    @property
    def ties(self) -> int:
        return sum(verdict.fork is not None and not verdict.is_defect for _, verdict in self.verdicts)

    @property
    def lines(self) -> Iterator[str]:
        """Every fork, with its case."""
        for case, verdict in self.verdicts:
            if verdict.fork is not None:
                yield f"{self.feature.name}, {case}: {verdict.fork.words}"
            if verdict.behind is not None:
                yield f"{self.feature.name}, {case}: behind the answer's end, {verdict.behind.words}"


def open_check(path: Path, *, cpu_weights: CpuWeights | None, threads: int, quick: bool, tie_nats: float) -> Check:
    """The checkpoint at `path` on the CPU, in the weights that `tandem serve` would choose, with all its drafters."""
    torch.set_num_threads(threads)
    checkpoint = open_checkpoint(path, vision=False, mtp=True)
    config = checkpoint.config
    stored = checkpoint.weights.stored().items()
    matrices = (each.format for name, each in stored if name.startswith("layers.") and len(each.shape) == 2)
    kind = cpu_weights or default_for(matrices)
    model = package_of(config.architecture)(config, checkpoint.weights, _silent, kind)
    card = ModelCard(
        name=config.name,
        architecture=config.architecture,
        max_len=min(WINDOW, config.max_position_embeddings),
        vocab_size=config.vocab_size,
        anchor_grid=GRID,
        weights={"dtype": kind},
    )
    found = [*FEATURES, *_drafters(model, checkpoint, kind, card.max_len)]
    whole = Check(model=model, text=checkpoint.text, card=card, features=found, tie_nats=tie_nats)
    return _quick(whole) if quick else whole


def _drafters(model: Model, checkpoint: Checkpoint, kind: CpuWeights, window: int) -> Iterator[Feature]:
    """Those that `--drafter` can name here."""
    for name in DRAFTERS:
        if name != "none" and (not reads_layer(name) or _offers_layer(checkpoint)):
            made = make_drafter(name, model, checkpoint.text, checkpoint.weights, _silent, kind, window=window)
            if made.drafter is not None:
                yield Feature(f"--drafter {name}", "text", partial(_given, made.drafter))


def _offers_layer(checkpoint: Checkpoint) -> bool:
    try:
        require_offered("mtp", checkpoint.config, checkpoint.weights.names())
    except CheckpointError:
        return False
    return True


def _given(drafter: Drafter, told: Told) -> Drafter:
    """One drafter for all runs: a sequence that begins tells it so."""
    return drafter


def _silent(done: int, total: int) -> None:
    """Progress that nobody watches."""


def _quick(whole: Check) -> Check:
    return replace(
        whole,
        cases=[case for case in CASES if case.name in cases.QUICK],
        features=[each for each in whole.features if each.name in features.QUICK or each.name.startswith("--")],
        tokens=QUICK_TOKENS,
    )


def check(given: Check) -> list[Found]:
    """Write every case plainly and with each feature. `BenchError` where a case has no room in the window."""
    starter = Starter(given.text, given.card, given.tokens)
    found = [Found(feature) for feature in given.features]
    with bar("exactness", len(given.cases) * (1 + len(found))) as done:
        for case in given.cases:
            prompt = starter.prompt(case)
            if len(prompt.ids) + given.tokens + 2 * GRID > given.card.max_len:
                raise BenchError(f"the case {case.name} takes {len(prompt.ids)} tokens; the window is too short")
            plain = _write(given, starter, case, prompt, PLAIN, Found(PLAIN), ())
            done()
            for each in found:
                ids = [*prompt.ids, *(step.token for step in plain.steps)]
                run = _write(given, starter, case, prompt, each.feature, each, ids)
                each.verdicts.append((case.name, judge(plain, run, each.feature.promise, given.tie_nats)))
                done()
    return found


def table(given: Check, found: Sequence[Found]) -> Report:
    """What was found of each feature, and every fork below it."""
    rows = [
        (
            each.feature.name,
            each.feature.promise,
            f"{each.tokens:,}",
            f"{each.tokens / max(each.rounds, 1):.2f}",
            f"{each.acted:,}",
            f"{each.ties}",
            f"{each.defects}",
        )
        for each in found
    ]
    notes = [line for each in found for line in each.lines]
    notes += [f"{each.feature.name} was never at work" for each in found if not each.acted and each.feature != PLAIN]
    return Report(
        f"Exactness of {given.card.name}, {given.card.weights['dtype']}: {len(given.cases)} requests of "
        f"{given.tokens} tokens, near ties up to {given.tie_nats} nats",
        ("feature", "promise", "tokens", "a round", "at work", "near ties", "defects"),
        tuple(rows),
        tuple(notes),
    )


def _write(
    given: Check, starter: Starter, case: Case, prompt: Prompt, feature: Feature, found: Found, ids: Sequence[int]
) -> Run:
    """One text, on an engine of its own, with the feature at work."""
    drafter = None if feature.drafter is None else feature.drafter(Told(ids, given.card.vocab_size))
    engine = TorchEngine(given.model, given.text, given.card, drafter=drafter)
    feature.before(engine, prompt)
    seq = engine.open(prompt)
    found.acted += seq.resumed
    steps = list[Step]()
    generation = starter.start(case, prompt)
    while not isinstance(work := generation.next(), Ended):
        if isinstance(work, Round):
            if feature.between is not PLAIN.between and found.rounds % EVERY == 0:
                feature.between(engine, seq)
                found.acted += 1
            found.rounds += 1
        result = perform(engine, seq, work, generation.rules)
        if isinstance(result, Accepted):
            found.acted += result.drafted
        steps += _steps(result, generation, len(steps), given.card.vocab_size)
        generation.feed(result, 0.0)
        generation.take_deltas()
    engine.close(seq)
    found.tokens += len(steps)
    return Run.of(steps, given.text.end_ids)


def _steps(result: object, generation: Generation, index: int, vocab: int) -> list[Step]:
    """The tokens of one piece of work; `index` is the place of the first in the output."""
    if isinstance(result, Forced):
        return [Step(token) for token in result.ids]
    if not isinstance(result, Accepted):
        return []
    return [_step(logprob, generation.rules, index + at, vocab) for at, logprob in enumerate(result.logprobs)]


def _step(logprob: TokenLogprob, rules: SamplingRules, index: int, vocab: int) -> Step:
    """A token and its runner-up by what chose between them: the row, or the row and the noise of its index."""
    if not rules.temperature:
        return _ranked(logprob.token, dict(logprob.top), index)
    assert rules.seed is not None
    noise = Noise().seeded(rules.seed, rules.choice, index, vocab)
    scaled = {token: log / rules.temperature for token, log in logprob.top}
    best = max(scaled.values())
    floor = best + math.log(rules.min_p) if rules.min_p else -math.inf
    kept = {token: score for token, score in scaled.items() if score >= floor}
    step = _ranked(logprob.token, {token: score + float(noise[token]) for token, score in kept.items()}, index)
    # Of all that were cut off only those below the floor are among the log-probabilities: the least kept one stands for
    # the others.
    cut = floor if len(kept) < len(scaled) else min(kept.values())
    return replace(step, kept=frozenset(kept), edge=kept[logprob.token] - cut)


def _ranked(token: int, scores: Mapping[int, float], index: int) -> Step:
    ranked = sorted(scores, key=lambda each: (-scores[each], each))
    if ranked[0] != token:
        raise BenchError(f"token {index} is {token}, and by its log-probabilities it should be {ranked[0]}")
    if len(ranked) == 1:
        return Step(token)
    return Step(token, ranked[1], scores[ranked[0]] - scores[ranked[1]])
