"""Whole passes of a model of Qwen3.8-27B's shapes on a device, with random weights: milliseconds, against its bytes.

    python -m bench step [--write] [--codes nvfp4|fp8] [--dry-run]

It loads `DeviceQwen35` as a start does, reads a context, and then takes steps of one row and verifies of chains, as the
engine calls them: ids in, logits of every row back on the CPU. The floor is the bytes of all weights that a pass reads,
at the rate of a measured copy. With --dry-run a small model does the same on the CPU, which checks this file.

No run of it on a CUDA device has been kept yet: it was written without one, and only its dry run was ever seen.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import click
import torch
from rich.console import Console
from torch import Tensor

from bench.kernels import SMALL, Shapes, copy_rate
from tandem.bench.report import RESULTS, Report, keep, machine, render
from tandem.engine.checkpoints.config import LayerType, ModelConfig
from tandem.engine.checkpoints.fp8 import Fp8Blocks, Fp8Rows, block_scales_shape
from tandem.engine.checkpoints.nvfp4 import GROUP, Nvfp4
from tandem.engine.checkpoints.weights import Coded
from tandem.engine.kernels.trees import chain
from tandem.engine.models.placement import CPU, CUDA, Placement
from tandem.engine.models.qwen3_5 import DeviceQwen35, load_qwen3_5_device

__all__ = ["RandomWeights", "config_of", "main", "measure"]

STEPS: Final = 24
WARM: Final = 4
"""Passes before the clock: graphs of both places are captured in them."""


def config_of(shapes: Shapes, window: int) -> ModelConfig:
    """A hybrid decoder of these sizes, its attention layers spread evenly."""
    every = (shapes.delta_layers + shapes.attention_layers) // shapes.attention_layers
    kinds: list[LayerType] = ["full_attention" if at == every - 1 else "linear_attention" for at in range(every)]
    return ModelConfig(
        architecture="qwen3_5",
        name="random",
        vocab_size=shapes.vocabulary,
        hidden_size=shapes.hidden,
        intermediate_size=shapes.inner,
        num_hidden_layers=every * shapes.attention_layers,
        num_attention_heads=shapes.queries,
        num_key_value_heads=shapes.kv_heads,
        head_dim=shapes.head,
        max_position_embeddings=window,
        rms_norm_eps=1e-6,
        rope_theta=1e7,
        partial_rotary_factor=0.25,
        attn_output_gate=True,
        layer_types=tuple(kinds * shapes.attention_layers),
        linear_num_key_heads=shapes.key_heads,
        linear_num_value_heads=shapes.value_heads,
        linear_key_head_dim=shapes.key_size,
        linear_value_head_dim=shapes.key_size,
        linear_conv_kernel_dim=4,
    )


@dataclass(frozen=True, slots=True)
class RandomWeights:
    """`CodedWeights` that are made on the device when they are asked for: every projection in `codes`, an e4m3 head."""

    config: ModelConfig
    codes: str
    device: torch.device

    def names(self) -> Iterable[str]:
        return ()

    def tensor(self, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        # A little noise: with the scales below activations neither vanish nor overflow.
        return torch.randn(shape, device=self.device, dtype=dtype).mul_(0.02)

    def rows(self, name: str, shape: tuple[int, int], start: int, stop: int) -> Tensor:
        return self.tensor(name, (stop - start, shape[1]))

    def coded(self, name: str) -> Coded | None:
        rows, columns = self._shape(name.removesuffix(".weight").rpartition(".")[2])
        size = columns**-0.5
        if name == "lm_head.weight":
            return Fp8Rows(self._e4m3(rows, columns), torch.full((rows,), size / 16, device=self.device))
        if name.removesuffix(".weight").endswith(("in_proj_a", "in_proj_b")):
            return None
        if self.codes == "fp8":
            scales = torch.full(block_scales_shape((rows, columns)), size / 16, device=self.device).bfloat16()
            return Fp8Blocks(self._e4m3(rows, columns), scales)
        codes = torch.randint(0, 256, (rows, columns // 2), dtype=torch.uint8, device=self.device)
        scales = torch.ones(rows, columns // GROUP, device=self.device).to(torch.float8_e4m3fn)
        return Nvfp4(codes, scales, torch.full((), size / 3, device=self.device))

    def _shape(self, projection: str) -> tuple[int, int]:
        c = self.config
        values = c.linear_num_value_heads * c.linear_value_head_dim
        heads, keys = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
        return {
            "lm_head": (c.vocab_size, c.hidden_size),
            "in_proj_qkv": (2 * c.linear_num_key_heads * c.linear_key_head_dim + values, c.hidden_size),
            "in_proj_z": (values, c.hidden_size),
            "in_proj_a": (c.linear_num_value_heads, c.hidden_size),
            "in_proj_b": (c.linear_num_value_heads, c.hidden_size),
            "out_proj": (c.hidden_size, values),
            "q_proj": (2 * heads, c.hidden_size),
            "k_proj": (keys, c.hidden_size),
            "v_proj": (keys, c.hidden_size),
            "o_proj": (c.hidden_size, heads),
            "gate_proj": (c.intermediate_size, c.hidden_size),
            "up_proj": (c.intermediate_size, c.hidden_size),
            "down_proj": (c.hidden_size, c.intermediate_size),
        }[projection]

    def _e4m3(self, rows: int, columns: int) -> Tensor:
        """Codes of both signs whose sizes are below 16."""
        sizes = torch.randint(0, 88, (rows, columns), dtype=torch.uint8, device=self.device)
        return (sizes | torch.randint_like(sizes, 0, 2) << 7).view(torch.float8_e4m3fn)


@dataclass(frozen=True, slots=True)
class Timed:
    """Passes of so many rows behind a context: the median of seconds, and how they were taken."""

    what: str
    context: int
    seconds: float
    how: str


@torch.inference_mode()
def measure(
    model: DeviceQwen35, contexts: Iterable[int], rows: Iterable[int], window: int, steps: int = STEPS
) -> list[Timed]:
    """Steps and verifies behind every context; the context itself is read in the model's own chunks."""
    found = []
    state, at = model.new_state(window), 0
    for context in contexts:
        while at < context:
            end = min(at + model.anchor_grid, context)
            model.forward(torch.randint(model.config.vocab_size, (end - at,)), at, state)
            at = end
        one = torch.zeros(1, dtype=torch.int64)
        spent = []
        for _ in range(WARM + steps):
            started = time.perf_counter()
            model.logits(model.forward(one, at, state))
            spent.append(time.perf_counter() - started)
            at += 1
        found.append(Timed("step, rows 1", context, statistics.median(spent[WARM:]), model.kernels["step pass"]))
        for count in rows:
            ids, parents, spent = torch.zeros(count, dtype=torch.int64), chain(count), []
            for _ in range(WARM + steps):
                started = time.perf_counter()
                model.logits(model.verify(ids, parents, at, state))
                spent.append(time.perf_counter() - started)
            how = model.kernels["chain pass"]
            found.append(Timed(f"verify, rows {count}", context, statistics.median(spent[WARM:]), how))
        state.settle()
    return found


def table(timed: list[Timed], model: DeviceQwen35, codes: str, rate: float, where: str) -> Report:
    read = sum(nbytes for group, nbytes in model.nbytes.items() if group != "embedding")
    floor = read / rate
    rows = tuple(
        (each.what, f"{each.context:,}", f"{1e3 * each.seconds:.2f}", f"{floor / each.seconds:.0%}", each.how)
        for each in timed
    )
    notes = (
        f"weights: {codes}, an e4m3 head; a pass reads {read / 1e9:.2f} GB of them, at the copy's rate "
        f"{1e3 * floor:.2f} ms",
        f"measured copy: {rate / 1e12:.2f} TB/s, read and written, on {where}",
    )
    return Report(f"Passes, {codes}", ("pass", "context", "ms", "floor", "taken as"), rows, notes)


@click.command(short_help="Whole passes on the GPU, at the 27B model's shapes.")
@click.option("--write", is_flag=True, help="Keep the table under bench/results/.")
@click.option("--codes", type=click.Choice(["nvfp4", "fp8"]), default="nvfp4", show_default=True)
@click.option("--dry-run", is_flag=True, help="A small model on the CPU: checks the command and measures nothing.")
def main(write: bool, codes: str, dry_run: bool) -> None:
    """Time whole steps and verifies against the bytes of their weights."""
    if not dry_run and not torch.cuda.is_available():
        raise click.ClickException("there is no CUDA device; --dry-run checks the command without one")
    here, shapes = machine(), SMALL if dry_run else Shapes()
    placement: Placement = CPU if dry_run else CUDA
    contexts, window = ((40,), 160) if dry_run else ((1024, 32768), 33792)
    torch.manual_seed(0)
    config = config_of(shapes, window)
    weights = RandomWeights(config, codes, placement.device)
    model = load_qwen3_5_device(config, weights, lambda done, total: None, placement)
    timed = measure(model, contexts, (4, 16), window)
    rate = copy_rate(placement.device.type)
    where = "the CPU, a small model" if dry_run else torch.cuda.get_device_name()
    result, console = table(timed, model, codes, rate, where), Console(width=110)
    render(result, console)
    if write and not dry_run:
        kept = keep("step", [result], here.lines(), RESULTS, here.started.date())
        console.print(f"kept in {kept}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
