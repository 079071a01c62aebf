"""The kernels at the shapes of Qwen3.8-27B: microseconds, and the share of a measured copy's bandwidth (ENG-028).

    python -m bench kernels [--write] [--only WORD] [--dry-run]

Every case reads inputs that are not in the device's cache: as many copies of them as fill 256 MB take turns. All calls
of a round are one captured graph, so nothing of the host is timed. `flash-linear-attention` stands beside the
recurrences where it is installed. The last lines add up a decode step of one row without speculation and hold it
against its weights' bytes at the copy's rate. With --dry-run small shapes run once on the CPU, under Triton's
interpreter where TRITON_INTERPRET=1 is set and Triton installed: that checks this file, and its times say nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import click
import torch
from rich.console import Console
from torch import Tensor

from tandem.bench.report import RESULTS, Report, keep, machine, render
from tandem.engine.kernels.choice import OPS, choose
from tandem.engine.kernels.delta import DeltaRecords
from tandem.engine.kernels.trees import chain

__all__ = ["Case", "Shapes", "cases", "main", "measure"]

FILL: Final = 256 << 20
"""Bytes of inputs that take turns: several times the L2 of any device."""
CALLS: Final = 32
"""Calls in a captured graph, at least."""
ROUNDS: Final = 7


@dataclass(frozen=True, slots=True)
class Shapes:
    """The sizes of a model; those of Qwen3.8-27B unless told otherwise (ENG-006 to ENG-008)."""

    hidden: int = 5120
    inner: int = 17408
    vocabulary: int = 248320
    key_heads: int = 16
    value_heads: int = 48
    key_size: int = 128
    queries: int = 24
    kv_heads: int = 4
    head: int = 256
    delta_layers: int = 48
    attention_layers: int = 16
    prefill: int = 1024
    contexts: tuple[int, ...] = (4096, 32768)
    dtype: torch.dtype = torch.bfloat16

    @property
    def channels(self) -> int:
        return (2 * self.key_heads + self.value_heads) * self.key_size

    @property
    def written(self) -> int:
        """What the heads of a Gated DeltaNet layer give."""
        return self.value_heads * self.key_size

    def matrices(self) -> Iterator[tuple[str, int, int, int]]:
        """(what, N, K, how many a step reads), but for the head and the small projections of the gates."""
        layers = self.delta_layers + self.attention_layers
        heads = (2 * self.queries + 2 * self.kv_heads) * self.head
        yield "delta in", self.channels + self.written, self.hidden, self.delta_layers
        yield "delta out", self.hidden, self.written, self.delta_layers
        yield "attention in", heads, self.hidden, self.attention_layers
        yield "attention out", self.hidden, self.queries * self.head, self.attention_layers
        yield "gate, up", 2 * self.inner, self.hidden, layers
        yield "down", self.hidden, self.inner, layers


SMALL: Final = Shapes(
    hidden=64, inner=96, vocabulary=200, key_heads=1, value_heads=2, key_size=16, queries=4, kv_heads=2, head=16,
    delta_layers=3, attention_layers=1, prefill=70, contexts=(40,), dtype=torch.float16,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One operation at one shape. `steps` says how often a decode step of one row has it, by the matrices' format."""

    op: str
    what: str
    make: Callable[[str], tuple[Any, ...]]
    peer: str = ""
    steps: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Timed:
    """What a case took."""

    case: Case
    moved: int  # bytes read and written
    seconds: float
    peer: float | None


def cases(shapes: Shapes) -> Iterator[Case]:
    """Every case, for the operations of a decode step, of a verify and of a prefill."""
    yield from _deltas(shapes)
    yield from _small(shapes)
    for name, n, k, count in shapes.matrices():
        for rows in (1, 8, 32):
            at = f"{name} {n}x{k}, rows {rows}"
            for op, make in (("nvfp4_linear", _nvfp4), ("fp8_linear", _fp8)):
                steps = {op: count} if rows == 1 else {}
                yield Case(op, at, _product(make, rows, n, k, shapes.dtype), steps=steps)
    for rows in (1, 8, 32):
        at = f"{shapes.vocabulary}x{shapes.hidden}, rows {rows}"
        sizes = (rows, shapes.vocabulary, shapes.hidden, shapes.dtype)
        both = {"nvfp4_linear": 1, "fp8_linear": 1} if rows == 1 else {}
        yield Case("head", f"e4m3 {at}", _product(_coded, *sizes), steps=both)
        yield Case("head", f"two bytes {at}", _product(_dense(shapes.dtype), *sizes))
    for context in shapes.contexts:
        for rows in (1, 16):
            yield Case("decode_attention", f"context {context}, rows {rows}", _attention(shapes, context, rows))


def measure(case: Case, device: str) -> Timed:
    """The median time of one call, with its inputs read from memory."""
    first = case.make(device)
    run = _function(case.op, device)
    moved = _nbytes(first) + _nbytes(run(*first))
    if device == "cpu":
        start = time.perf_counter()
        run(*first)
        return Timed(case, moved, time.perf_counter() - start, None)
    copies = min(64, -(-FILL // max(1, _nbytes(first))))
    inputs = [first, *(case.make(device) for _ in range(copies - 1))]
    peer = _peer(case.peer)
    return Timed(case, moved, _captured(run, inputs), None if peer is None else _captured(peer, inputs))


def copy_rate(device: str) -> float:
    """Bytes a second of the best of ten copies of a large buffer, read and written."""
    count = 1 << 30 if device == "cuda" else 1 << 24
    source = torch.zeros(count, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    if device == "cpu":
        start = time.perf_counter()
        target.copy_(source)
        return 2 * count / (time.perf_counter() - start)
    return 2 * count / min(_events(lambda: target.copy_(source)) for _ in range(10))


def table(timed: list[Timed], rate: float, device: str, shapes: Shapes) -> Report:
    rows = tuple(
        (
            each.case.op, each.case.what, f"{each.moved / 1e6:,.2f}", f"{1e6 * each.seconds:,.1f}",
            f"{each.moved / each.seconds / rate:.0%}", "" if each.peer is None else f"{1e6 * each.peer:,.1f}",
        )
        for each in timed
    )  # fmt: skip
    notes = [f"measured copy: {rate / 1e12:.2f} TB/s, read and written, on {device}"]
    notes += [line for kind in ("nvfp4_linear", "fp8_linear") if (line := _step(timed, kind, rate, shapes))]
    return Report("Kernels", ("operation", "what", "MB", "µs", "of the copy", "fla µs"), rows, tuple(notes))


def _step(timed: list[Timed], kind: str, rate: float, shapes: Shapes) -> str:
    """A decode step of one row by these kernels, against its matrices' bytes at the rate of the copy."""
    counted = [(each, each.case.steps.get(kind, 0)) for each in timed]
    matrices = ("nvfp4_linear", "fp8_linear", "head")
    weights = sum(each.moved * count for each, count in counted if each.case.op in matrices)
    there = sum(count for each, count in counted if each.case.op == kind)
    if there != sum(count for *_, count in shapes.matrices()):
        return ""  # not all of its cases were asked for
    seconds = sum(each.seconds * count for each, count in counted)
    floor = weights / rate
    return (
        f"a step of one row, {kind} and an e4m3 head: {1e3 * seconds:.2f} ms in these kernels, without "
        f"attention over a context; {weights / 1e9:.2f} GB of weights at the copy's rate {1e3 * floor:.2f} ms: "
        f"{floor / seconds:.0%}"
    )


def _deltas(shapes: Shapes) -> Iterator[Case]:
    step = {"nvfp4_linear": shapes.delta_layers, "fp8_linear": shapes.delta_layers}
    yield Case("delta_step", "rows 1", lambda d: (*_one(_rows(shapes, 1, d)), _state(shapes, d)), "step", step)
    for rows in (8, 16, 32):
        yield Case("delta_verify_chain", f"rows {rows}", _verify(shapes, rows))
        yield Case("delta_verify_tree", f"rows {rows}", _verify(shapes, rows))
    for rows in (4, 16):
        yield Case("delta_commit", f"rows {rows}", _commit(shapes, rows))
    many = shapes.prefill
    yield Case(
        "delta_chunk", f"rows {many}", lambda d: (*_rows(shapes, many, d), _state(shapes, d)), "chunk"
    )  # fmt: skip


def _small(shapes: Shapes) -> Iterator[Case]:
    layers = shapes.delta_layers + shapes.attention_layers
    a_delta, a_layer = ({"nvfp4_linear": count, "fp8_linear": count} for count in (shapes.delta_layers, 2 * layers))
    many, channels, dtype = shapes.prefill, shapes.channels, shapes.dtype

    def conv(rows: int) -> Callable[[str], tuple[Any, ...]]:
        return lambda d: tuple(_normal(size, dtype, d) for size in ((rows, channels), (3, channels), (channels, 4)))

    yield Case("causal_conv", "rows 1", conv(1), steps=a_delta)
    yield Case("causal_conv", f"rows {many}", conv(many))
    yield Case("conv_verify", "rows 16", lambda d: (*conv(16)(d), _tree(16, d)))
    yield Case("conv_commit", "rows 16", lambda d: (conv(16)(d)[1], conv(16)(d)[0], torch.arange(16, device=d).int()))
    for rows in (1, 32, many):
        yield Case(
            "rms_norm", f"{rows}x{shapes.hidden}",
            partial(_normed, rows, shapes),
            steps=a_layer if rows == 1 else {},
        )  # fmt: skip
    gated = (shapes.value_heads, shapes.key_size)
    yield Case(
        "gated_rms_norm", f"{gated[0]}x{gated[1]}",
        lambda d: (*(_normal(size, dtype, d) for size in (gated, gated, gated[1:])), 1e-6),
        steps=a_delta,
    )  # fmt: skip
    half = max(1, shapes.head // 8)
    yield Case(
        "rotary", f"rows 1, {shapes.queries}x{shapes.head}",
        lambda d: (_normal((1, shapes.queries, shapes.head), dtype, d), *(_normal((1, half), torch.float32, d),) * 2),
    )  # fmt: skip


def _normed(rows: int, shapes: Shapes, device: str) -> tuple[Any, ...]:
    sizes = ((rows, shapes.hidden), (shapes.hidden,))
    return (*(_normal(size, shapes.dtype, device) for size in sizes), 1e-6)


def _normal(size: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensor:
    return torch.randn(size, device=device).to(dtype)


def _rows(shapes: Shapes, rows: int, device: str) -> tuple[Tensor, ...]:
    keys = (rows, shapes.key_heads, shapes.key_size)
    q, k = (_normal(keys, shapes.dtype, device) for _ in range(2))
    v = _normal((rows, shapes.value_heads, shapes.key_size), shapes.dtype, device)
    g, beta = (torch.rand(rows, shapes.value_heads, device=device) for _ in range(2))
    return q, k, v, -g, beta


def _one(rows: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(each[0] for each in rows)


def _state(shapes: Shapes, device: str) -> Tensor:
    return _normal((shapes.value_heads, shapes.key_size, shapes.key_size), torch.float32, device)


def _tree(rows: int, device: str) -> Tensor:
    """Two branches at every third row."""
    parents = [row - 1 if row % 3 else max(-1, row - 3) for row in range(rows)]
    return torch.tensor(parents, dtype=torch.int32, device=device)


def _verify(shapes: Shapes, rows: int) -> Callable[[str], tuple[Any, ...]]:
    return lambda device: (*_rows(shapes, rows, device), _state(shapes, device), _tree(rows, device))


def _commit(shapes: Shapes, rows: int) -> Callable[[str], tuple[Any, ...]]:
    def make(device: str) -> tuple[Any, ...]:
        _, k, v, g, _ = _rows(shapes, rows, device)
        path = torch.arange(rows, dtype=torch.int32, device=device)
        return _state(shapes, device), DeltaRecords(k.float(), v.float(), g), path

    return make


def _product(
    weights: Callable[[int, int, str], tuple[Tensor, ...]], rows: int, n: int, k: int, dtype: torch.dtype
) -> Callable[[str], tuple[Any, ...]]:
    return lambda device: (_normal((rows, k), dtype, device), *weights(n, k, device))


def _bytes(n: int, k: int, device: str, top: int = 120) -> Tensor:
    """Codes of e4m3 below its not-a-number."""
    return torch.randint(0, top, (n, k), dtype=torch.uint8, device=device)


def _nvfp4(n: int, k: int, device: str) -> tuple[Tensor, ...]:
    codes = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device=device)
    return codes, _bytes(n, k // 16, device).view(torch.float8_e4m3fn), torch.full((), 1e-3, device=device)


def _fp8(n: int, k: int, device: str) -> tuple[Tensor, ...]:
    scales = torch.rand((n + 127) // 128, (k + 127) // 128, device=device).bfloat16()
    return _bytes(n, k, device).view(torch.float8_e4m3fn), scales


def _coded(n: int, k: int, device: str) -> tuple[Tensor, ...]:
    return _bytes(n, k, device).view(torch.float8_e4m3fn), torch.rand(n, device=device)


def _dense(dtype: torch.dtype) -> Callable[[int, int, str], tuple[Tensor, ...]]:
    return lambda n, k, device: (torch.empty(n, k, dtype=dtype, device=device).fill_(0.01),)


def _attention(shapes: Shapes, context: int, rows: int) -> Callable[[str], tuple[Any, ...]]:
    """The cache is as long as its rows, so its size is what is read."""

    def make(device: str) -> tuple[Any, ...]:
        cache = (shapes.kv_heads, context, shapes.head)
        q = _normal((rows, shapes.queries, shapes.head), shapes.dtype, device)
        keys, values = (_normal(cache, shapes.dtype, device) for _ in range(2))
        base = torch.tensor(context - rows, dtype=torch.int32, device=device)
        return q, keys, values, base, chain(rows, device).int() if rows == 1 else _tree(rows, device)

    return make


def _function(op: str, device: str) -> Callable[..., Any]:
    """The kernel: on a GPU as it is chosen, on the CPU interpreted where that is wanted; the twin without either."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton") is not None
    if device == "cpu" and interpreted:
        entry = OPS[op]
        return getattr(importlib.import_module(f"tandem.engine.kernels.triton.{entry.module}"), entry.kernel)  # type: ignore[no-any-return]
    return choose(op, device).run


def _peer(kind: str) -> Callable[..., Any] | None:
    """`flash-linear-attention` on the same inputs, where it is installed; a recurrence over one row, or chunks."""
    if not kind or not importlib.util.find_spec("fla"):
        return None
    ops = importlib.import_module("fla.ops.gated_delta_rule")
    run = ops.fused_recurrent_gated_delta_rule if kind == "step" else ops.chunk_gated_delta_rule

    def call(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor) -> Any:
        rows = [each[None, None] if kind == "step" else each[None] for each in (q, k, v, g, beta)]
        ratio = v.shape[-2] // q.shape[-2]
        rows[:2] = [each.repeat_interleave(ratio, -2) for each in rows[:2]]
        q, k, v, g, beta = rows
        return run(
            q=q, k=k, v=v, g=g, beta=beta, initial_state=state[None], output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )  # fmt: skip

    return call


def _captured(run: Callable[..., Any], inputs: list[tuple[Any, ...]]) -> float:
    """Seconds of one call: a graph of many, the median of some replays."""
    calls = [*inputs] * (-(-CALLS // len(inputs)))
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run(*inputs[0])
        run(*inputs[-1])
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for each in calls:
            run(*each)
    graph.replay()
    return statistics.median(_events(graph.replay) for _ in range(ROUNDS)) / len(calls)


def _events(run: Callable[[], Any]) -> float:
    """Seconds between the start and the end of what `run` puts on the device."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _nbytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.nbytes
    if isinstance(value, DeltaRecords):
        return value.keys.nbytes + value.values.nbytes + value.gates.nbytes
    return sum(_nbytes(each) for each in value) if isinstance(value, tuple) else 0


@click.command(short_help="The GPU kernels, at the 27B model's shapes.")
@click.option("--write", is_flag=True, help="Keep the table under bench/results/.")
@click.option("--only", default="", metavar="WORD", help="Only operations with this in their names.")
@click.option("--dry-run", is_flag=True, help="Small shapes on the CPU: checks the command and measures nothing.")
def main(write: bool, only: str, dry_run: bool) -> None:
    """Time every kernel against a measured copy."""
    device = "cpu" if dry_run else "cuda"
    if not dry_run and not torch.cuda.is_available():
        raise click.ClickException("there is no CUDA device; --dry-run checks the command without one")
    here, shapes = machine(), SMALL if dry_run else Shapes()
    console, timed = Console(width=110), []
    torch.manual_seed(0)
    with torch.inference_mode():
        rate = copy_rate(device)
        for case in cases(shapes):
            if only in case.op:
                timed.append(measure(case, device))
                if not dry_run:
                    torch.cuda.empty_cache()
    name = "the CPU, small shapes" if dry_run else torch.cuda.get_device_name()
    result = table(timed, rate, name, shapes)
    render(result, console)
    if write and not dry_run:
        kept = keep("kernels", [result], here.lines(), RESULTS, here.started.date())
        console.print(f"kept in {kept}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
