"""`python -m bench hybrid`: a decoder of the size of Qwen3.5-0.8B beside transformers, both on the CPU.

Its weights are random, for speed does not depend on what they say, and no hybrid model is small enough to lie in the
checkout. Each engine has a process of its own and makes the weights there, the same in both. Neither pays for text or
requests: what is measured is the forward, the head and the choice of the most likely token.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import click
import torch
from rich.console import Console
from torch import Tensor

from bench.peers import Transformers
from tandem.bench.bandwidth import read_bandwidth
from tandem.bench.profile import Floor, bytes_read
from tandem.bench.progress import bar
from tandem.bench.report import RESULTS, Report, keep, machine, render
from tandem.bench.stats import interleaved, ratio, summary
from tandem.bench.subject import BenchError, Remote, Subject
from tandem.engine.checkpoints.hf_config import read_config
from tandem.engine.memory import default_threads
from tandem.engine.models.formats import CPU_WEIGHTS, CpuWeights
from tandem.engine.models.qwen3_5 import load_qwen3_5
from tandem.engine.models.state import State
from tandem.engine.tiny.qwen3_5 import qwen3_5_config

__all__ = ["command"]

SIZES: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 3584,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
}
"""Of Qwen3.5-0.8B's published config, where the tiny model's differ. Its layers are 24, its vocabulary the next."""
VOCAB, LAYERS = 248_320, 24
LENGTHS, TOKENS = (512, 1024), 64
AIMS = {"prefill": ">= 1 x", "decode": ">= 2 x"}
MIB = 1 << 20


def raw_config(layers: int) -> dict[str, Any]:
    """The `config.json` of a text-only checkpoint."""
    text = qwen3_5_config(VOCAB, tied=True, **SIZES, num_hidden_layers=layers)["text_config"]
    kinds = ["full_attention" if index % 4 == 3 else "linear_attention" for index in range(layers)]
    return {**text, "layer_types": kinds, "architectures": ["Qwen3_5ForCausalLM"]}


@dataclass(frozen=True, slots=True)
class RandomWeights:
    """`Weights` whose matrices repeat some thousand random rows, so that making them takes no time."""

    rows_of: dict[int, Tensor] = field(default_factory=dict)

    def names(self) -> Iterable[str]:
        return ()

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        if len(shape) == 2:
            return self.rows(name, (shape[0], shape[1]), 0, shape[0]).to(dtype)
        return (0.1 * self._drawn(1, torch.Size(shape).numel())).view(shape).to(dtype)

    def rows(self, name: str, shape: tuple[int, int], start: int, stop: int) -> Tensor:
        if shape[1] not in self.rows_of:
            self.rows_of[shape[1]] = self._drawn(4096, shape[1]) / shape[1] ** 0.5
        return self.rows_of[shape[1]][torch.arange(start, stop) % 4096]

    @staticmethod
    def _drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(shape[-1]))


def load_tandem(layers: int, threads: int, weights: CpuWeights) -> Tandem:
    """Ours, its matrices in `weights`."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(raw_config(layers)), encoding="utf-8")
        config = read_config(Path(folder))
    return Tandem(load_qwen3_5(config, RandomWeights(), lambda *_: None, weights))


class Tandem:
    """A greedy loop over the model's forward, its prefills cut at the grid as the engine cuts them."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def about(self) -> str:
        """Megabytes of weights, and the floor under a token: those bytes at the memory's best rate."""
        read = bytes_read(self._model.nbytes)
        floor = Floor(read, 0, read_bandwidth(read))
        return (
            f"{read / MIB:,.0f} MiB of weights a token, floor {floor.seconds * 1e3:.1f} ms at "
            f"{floor.bytes_per_s / 1e9:.1f} GB/s"
        )

    def prefill(self, ids: Sequence[int]) -> float:
        return self._read(ids)[0]

    @torch.inference_mode()
    def decode(self, ids: Sequence[int], count: int) -> float:
        _, token, state = self._read(ids, count)
        start = time.perf_counter()
        for at in range(len(ids), len(ids) + count):
            token = self._model.logits(self._model.forward(token, at, state)).argmax(-1)
        return (time.perf_counter() - start) / count

    def second_turn(self, ids: Sequence[int], answer: int, more: Sequence[int], count: int) -> None:
        """The engine's caches are measured by `warm`."""

    def close(self) -> None:
        self._model = None

    @torch.inference_mode()
    def _read(self, ids: Sequence[int], room: int = 0) -> tuple[float, Tensor, State]:
        """Seconds to read `ids`, the most likely next token (1), and the state, with `room` left in it."""
        state = self._model.new_state(len(ids) + room)
        start = time.perf_counter()
        parts = torch.tensor(ids).split(self._model.anchor_grid)  # type: ignore[no-untyped-call]
        reads = [self._model.forward(part, at * self._model.anchor_grid, state) for at, part in enumerate(parts)]
        token = self._model.logits(reads[-1][-1:]).argmax(-1)
        return time.perf_counter() - start, token, state


def load_transformers(layers: int, threads: int) -> Transformers:
    """transformers with the same weights in bf16, the type that the checkpoint is published in."""
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig, __version__
    from transformers.initialization import no_init_weights

    torch.set_num_threads(threads)
    config, weights = Qwen3_5TextConfig(**raw_config(layers)), RandomWeights()
    torch.set_default_dtype(torch.bfloat16)
    with no_init_weights():
        model = Qwen3_5ForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    model.tie_weights()
    for name, parameter in model.named_parameters():
        parameter.data.copy_(weights.tensor(name, tuple(parameter.shape)))
    return Transformers(model, f"transformers {__version__}, torch {torch.__version__}, bf16")


def measured(subjects: dict[str, Subject], rounds: int, lengths: Sequence[int], tokens: int) -> Report:
    """Both figures at every length; ours are compared with the last subject, round by round."""
    rows: list[tuple[str, ...]] = []
    with bar("hybrid", 2 * rounds * len(lengths) * len(subjects)) as done:
        for length in lengths:
            ids = torch.randint(VOCAB, (length,), generator=torch.Generator().manual_seed(length)).tolist()
            for what in AIMS:

                def rate(subject: Subject, case: list[int], what: str = what) -> float:
                    return len(case) / subject.prefill(case) if what == "prefill" else 1 / subject.decode(case, tokens)

                rates = interleaved(subjects, [ids] * rounds, rate, done)
                *_, theirs = rates.values()
                for name, values in rates.items():
                    found = summary(values)
                    spread = f"{found.low:,.1f} to {found.high:,.1f}"
                    against = ("", "") if values is theirs else (f"{ratio(values, theirs):.2f} x", AIMS[what])
                    rows.append((f"{what} {length:,}", name, f"{found.median:,.1f}", spread, *against))
    return Report(
        f"Qwen3.5-0.8B's shape, random weights: reading, and {tokens} tokens after that, {rounds} interleaved rounds",
        ("what", "engine", "tokens/s", "lowest to highest", "ours / its", "aim"),
        tuple(rows),
    )


@click.command(short_help="Qwen3.5-0.8B's shape on random weights, beside transformers.")
@click.option("--layers", type=click.IntRange(4), default=LAYERS, show_default=True, help="Fewer for a quick look.")
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True)
@click.option("--tokens", type=click.IntRange(1, 512), default=TOKENS, show_default=True, help="Written a round.")
@click.option("--length", type=click.IntRange(2, 4096), multiple=True, default=LENGTHS, show_default=True)
@click.option("--threads", type=click.IntRange(1, 1024), help="Of both engines.")
@click.option("--cpu-weights", type=click.Choice(CPU_WEIGHTS), multiple=True, default=("int8", "bf16"))
@click.option("--write", is_flag=True, help="Keep the table under bench/results/.")
def command(
    layers: int,
    rounds: int,
    tokens: int,
    length: tuple[int, ...],
    threads: int | None,
    cpu_weights: tuple[CpuWeights, ...],
    write: bool,
) -> None:
    """Prefill and decode on the CPU."""
    here, console, used = machine(), Console(width=110), threads or default_threads()
    with ExitStack() as stack:
        subjects: dict[str, Subject] = {}
        builds: dict[str, Any] = {f"tandem {each}": partial(load_tandem, layers, used, each) for each in cpu_weights}
        for name, build in (builds | {"transformers": partial(load_transformers, layers, used)}).items():
            remote = Remote(build)
            stack.callback(remote.close)
            try:
                remote.wait()
            except BenchError as error:
                raise click.ClickException(f"{name}: {error}") from error
            subjects[name] = cast("Subject", remote)
        result = measured(subjects, rounds, length, tokens)
        lines = [f"{name}: {subject.about()}" for name, subject in subjects.items()]
    lines += [f"{layers} layers", *here.lines(used)]
    render(result, console)
    for line in lines:
        console.print(line, markup=False, highlight=False)
    if write:
        console.print(f"kept in {keep('hybrid', [result], lines, RESULTS, here.started.date())}", markup=False)
