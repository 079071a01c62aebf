"""The device model on a CUDA device: graphs give the bits of the eager way, and the CPU's values in the same types."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.kernels.trees import chain
from tandem.engine.load import load_engine
from tandem.engine.models.placement import CUDA
from tandem.engine.models.qwen3_5 import DeviceQwen35, load_qwen3_5_device
from tandem.engine.tiny.kinds import make_tiny
from tests.engine.kernels.running import absence, close
from tests.engine.models.device import NARROW, device_model, teacher_forced
from tests.engine.models.hybrid import TinyHybrid, tiny_hybrid
from tests.engine.models.memory import VOCAB, quiet

pytestmark = pytest.mark.gpu
PROMPT = 70
IDS = torch.randint(VOCAB, (PROMPT + 10,), generator=torch.Generator().manual_seed(7))
TREE = torch.tensor([-1, 0, 0, 1, 1, 2, 3, 3])
BOUND = 3e-2
"""Of logits in bf16 activations: two ways that round at the same places and sum in another order."""


@pytest.fixture(autouse=True)
def there() -> None:
    if reason := absence("cuda"):
        pytest.skip(reason)


@cache
def tiny() -> TinyHybrid:
    return tiny_hybrid(tied=False)


def on_cuda(*, static: bool = True) -> DeviceQwen35:
    return device_model(tiny().config, tiny().tensors, CUDA, static=static)


@torch.inference_mode()
def verified(model: DeviceQwen35, parents: torch.Tensor) -> torch.Tensor:
    """Rows of a verify, and of a row behind the first of them alone."""
    state = model.new_state(len(IDS))
    model.forward(IDS[:PROMPT], 0, state)
    rows = [model.logits(model.verify(IDS[PROMPT : PROMPT + len(parents)], parents, PROMPT, state)) for _ in range(3)]
    assert torch.equal(rows[0], rows[2])  # captured and replayed
    state.commit([0])
    return torch.cat((rows[0], model.logits(model.forward(IDS[-1:], PROMPT + 1, state))))


@pytest.mark.spec("ENG-029")
def test_a_graph_gives_the_bits_of_the_eager_way() -> None:
    graphed, eager = on_cuda(), on_cuda(static=False)
    assert torch.equal(teacher_forced(graphed, IDS, PROMPT), teacher_forced(eager, IDS, PROMPT))
    for parents in (TREE, chain(4), chain(1)):
        assert torch.equal(verified(graphed, parents), verified(eager, parents))
    assert {graphed.kernels[f"{kind} pass"] for kind in ("step", "chain", "tree")} == {"graph"}


@pytest.mark.spec("ENG-008", "ENG-011", "ENG-028")
def test_kernels_serve_and_give_the_twins_values() -> None:
    model = on_cuda()
    assert set(model.kernels.values()) == {"triton"}
    ours, twins = (
        teacher_forced(each, IDS, PROMPT) for each in (model, device_model(tiny().config, tiny().tensors, NARROW))
    )
    assert close(ours, twins, BOUND)


@pytest.mark.spec("ENG-021", "ENG-022", "ENG-023")
@pytest.mark.parametrize("kind", ["qwen3_5", "qwen3_5-fp8", "qwen3_5-nvfp4"])
def test_a_checkpoint_gives_what_it_gives_on_the_cpu(tmp_path: Path, kind: str) -> None:
    checkpoint = open_checkpoint(make_tiny(kind, tmp_path / "tiny", seed=3))
    ids = torch.randint(checkpoint.config.vocab_size, (50,), generator=torch.Generator().manual_seed(1))
    ours, twins = (
        teacher_forced(load_qwen3_5_device(checkpoint.config, checkpoint.weights, quiet, placement), ids, 40)
        for placement in (CUDA, NARROW)
    )
    assert close(ours, twins, BOUND)


@pytest.mark.spec("ENG-016", "ENG-031", "ENG-032")
def test_a_load_takes_the_device_and_says_so(tmp_path: Path) -> None:
    report = load_engine(make_tiny("qwen3_5-nvfp4", tmp_path / "tiny"), device="auto").card.weights
    assert (report["dtype"], report["self_check"]) == ("bfloat16", "ok")
    kernels = report["kernels"]
    assert isinstance(kernels, dict)
    assert kernels["step pass"] == "graph"
    assert isinstance(report["pages_dropped"], int)
