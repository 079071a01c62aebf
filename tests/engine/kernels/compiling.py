"""Compiles every kernel for an H200 (sm_90) at the 27B model's shapes, with no GPU at hand: run as a script.

    python -m tests.engine.kernels.compiling [WORD]
    python -m tests.engine.kernels.compiling model

The second takes every pass of a whole model instead, so the kernels are those that serving launches, with its types.
Triton and its ptxas need no device to compile. Inputs are tensors on `meta`, and what would launch a kernel compiles it
instead. A line a kernel: registers of a thread, bytes of its stack (what was spilt) and shared memory of a program. The
exit status is 1 when a kernel does not compile, or asks for more shared memory than there is.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.kernels import Case, Shapes, cases
from bench.step import RandomWeights, config_of
from tandem.engine.kernels.choice import OPS
from tandem.engine.kernels.trees import chain
from tandem.engine.models.placement import Placement
from tandem.engine.models.qwen3_5 import load_qwen3_5_device
from tests.engine.models.device import interpreted

__all__ = ["main"]

SHARED = 227 * 1024
"""Bytes that a program may have on sm_90."""
_TYPES = {
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.uint8: "*u8",
    torch.int32: "*i32",
    torch.int64: "*i64",
}


class Compiler:
    """Stands in for launches. Compiles each kernel once for each set of types and constants."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self._seen: set[str] = set()

    def take(self, kernel: Any, args: tuple[Any, ...], more: dict[str, Any]) -> None:
        options = {name: more.pop(name) for name in list(more) if name in ("num_warps", "num_stages")}
        given = dict(zip((each.name for each in kernel.params), args, strict=False)) | more
        signature, constants, attributes = _signature(kernel, given)
        key = f"{kernel.__name__} {signature} {constants} {attributes} {options}"
        if key in self._seen:
            return
        self._seen.add(key)
        compiler = importlib.import_module("triton.compiler")
        target = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", 90, 32)
        name = f"{kernel.__module__.rpartition('.')[2]}.{kernel.__name__}"
        try:
            source = compiler.ASTSource(kernel, signature, constants, attributes)
            compiled = compiler.compile(source, target=target, options=options)
        except Exception as error:  # whatever Triton, LLVM or ptxas has to say
            self.failures.append(f"{name}: {type(error).__name__}: {error}")
            return
        shared = compiled.metadata.shared
        if shared > SHARED:
            self.failures.append(f"{name}: {shared} bytes of shared memory")
        registers, stack = _usage(compiled.asm["cubin"])
        print(f"{name:20} registers {registers:>3} stack {stack:>4} shared {shared:>6} {options or ''}", flush=True)


def _signature(
    kernel: Any, given: dict[str, Any]
) -> tuple[dict[str, str], dict[tuple[int], Any], dict[tuple[int], Any]]:
    """What a launch would specialise on: types, constants, and what is a multiple of 16."""
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[tuple[int], Any] = {}
    for index, parameter in enumerate(kernel.params):
        value = given[parameter.name]
        if parameter.is_constexpr or (isinstance(value, int) and value == 1):
            signature[parameter.name], constants[(index,)] = "constexpr", value
            continue
        whole = isinstance(value, int)
        if isinstance(value, torch.Tensor):
            signature[parameter.name] = _TYPES[value.dtype]
        else:
            signature[parameter.name] = "i32" if whole else "fp32"
        if isinstance(value, torch.Tensor) or (whole and value % 16 == 0):
            attributes[(index,)] = [["tt.divisibility", 16]]
    return signature, constants, attributes


def _usage(cubin: bytes) -> tuple[str, str]:
    triton = Path(str(importlib.import_module("triton").__file__)).parent
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        tool = triton / "backends/nvidia/bin/cuobjdump"
        shown = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=False).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", shown)
    return (found[1], found[2]) if found else ("?", "?")


def _chosen(word: str) -> Iterator[Case]:
    return (case for case in cases(Shapes()) if word in case.op)


@torch.inference_mode()
def _passes(codes: str) -> None:
    """A chunk, a step, verifies and a commit of a model of the 27B shapes, its layers fewer."""
    shapes = replace(Shapes(), delta_layers=3, attention_layers=1)
    placement = Placement(torch.device("meta"), torch.bfloat16, torch.bfloat16)
    config = config_of(shapes, 4096)
    weights = RandomWeights(config, codes, placement.device)
    model = load_qwen3_5_device(config, weights, lambda done, total: None, placement, choose=interpreted)
    state = model.new_state(4096)
    model.forward(torch.arange(1024), 0, state)
    hidden, at = model.forward(torch.zeros(1, dtype=torch.int64), 1024, state), 1025
    for rows in (4, 16, 32):
        for parents in (chain(rows), torch.tensor([-1, *([0] * (rows - 1))])):
            hidden = model.verify(torch.zeros(rows, dtype=torch.int64), parents, at, state)
            state.commit([0, 1])
            at += 2
    state.settle()
    model._head.logits(hidden)


def main(word: str = "") -> int:
    jit = importlib.import_module("triton.runtime.jit")
    compiler = Compiler()

    def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **more: Any) -> None:
        compiler.take(kernel, args, more)

    jit.JITFunction.run = run
    for module in {entry.module for entry in OPS.values()}:
        kernels: Any = importlib.import_module(f"tandem.engine.kernels.triton.{module}")
        if hasattr(kernels, "precision"):
            kernels.precision = lambda _: "tf32x3"  # as on CUDA
    if word == "model":
        # Numbers that are not there are equal: matrices of one layer are joined.
        torch.equal = lambda input, other: True
        for codes in ("nvfp4", "fp8"):
            _passes(codes)
    for case in () if word == "model" else _chosen(word):
        entry = OPS[case.op]
        kernels = importlib.import_module(f"tandem.engine.kernels.triton.{entry.module}")
        getattr(kernels, entry.kernel)(*case.make("meta"))
    for failure in compiler.failures:
        print(f"FAILED {failure}")
    return 1 if compiler.failures else 0


if __name__ == "__main__":
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    sys.exit(main(*sys.argv[1:]))
