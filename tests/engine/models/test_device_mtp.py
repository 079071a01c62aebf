"""The drafting layer as a device serves it, beside the same layer on the CPU, and in an engine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import torch
from torch import Tensor

from tandem.engine.drafting.mtp import MtpDrafter
from tandem.engine.errors import CheckpointError
from tandem.engine.models.placement import CPU, Placement
from tandem.engine.models.qwen3_5 import DeviceMtp, DeviceQwen35, load_mtp_device, load_qwen3_5_device
from tests.engine.decoding.engines import GREEDY, PROMPT, read, rounds, tiny_engine
from tests.engine.models.device import NARROW, CodedMemory, replayed
from tests.engine.models.hybrid import hybrid_spec
from tests.engine.models.memory import VOCAB, quiet
from tests.engine.models.mtp import TinyMtp, canonical, copying, tiny_mtp

ROWS = 12
DRAW = torch.Generator().manual_seed(5)
IDS = torch.randint(VOCAB, (ROWS,), generator=DRAW)
HIDDEN = torch.randn(ROWS, 64, generator=DRAW)


@pytest.fixture(autouse=True, scope="module")
def no_autograd() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(autouse=True)
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.engine.models.device_passes.capture", replayed)


@cache
def tiny() -> TinyMtp:
    return tiny_mtp()


def placed(made: TinyMtp, placement: Placement = CPU) -> tuple[DeviceQwen35, DeviceMtp]:
    weights = CodedMemory(canonical(made.tensors).tensors, {})
    model = load_qwen3_5_device(hybrid_spec(made.config), weights, quiet, placement)
    return model, load_mtp_device(model, weights, quiet)


def states(layer: DeviceMtp, cut: int) -> Tensor:
    kept = layer.new_cache(ROWS)
    layer.keep(IDS[:cut], HIDDEN[:cut], 0, kept)
    return torch.cat([layer.forward(IDS[at : at + 1], HIDDEN[at : at + 1], at, kept) for at in range(cut, ROWS)])


@pytest.mark.spec("ENG-052")
def test_it_computes_what_the_layer_on_the_cpu_does() -> None:
    ours, theirs = placed(tiny())[1], tiny().layer
    wanted = theirs.forward(IDS, HIDDEN, 0, theirs.new_cache(ROWS))
    torch.testing.assert_close(ours.forward(IDS, HIDDEN, 0, ours.new_cache(ROWS)), wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(states(ours, 4)[-1:], wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.logits(wanted), theirs.logits(wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.spec("ENG-052")
def test_in_the_types_of_a_device_it_is_near() -> None:
    exact, narrow = states(placed(tiny())[1], 4), states(placed(tiny(), NARROW)[1], 4)
    assert narrow.dtype == torch.bfloat16
    assert ((exact - narrow.float()).norm() / exact.norm()).item() < 0.05


@pytest.mark.spec("ENG-052", "ENG-065")
def test_an_engine_on_a_device_drafts_with_it() -> None:
    made = copying()
    model, layer = placed(made)
    plain = tiny_engine(model=made.model)
    text = rounds(plain, read(plain, PROMPT), 40)
    engine = tiny_engine(model=model, drafter=MtpDrafter(layer, 256))
    seq, written = read(engine, PROMPT), list[int]()
    while len(written) < 40:
        [rows] = engine.verify([(seq, engine.draft(seq, 40 - len(written)))])
        written += engine.accept(seq, rows, GREEDY).ids
    assert written == text
    assert engine.state()["rounds"] <= 40 / 4
    assert engine.state()["draft_faults"] == 0


@pytest.mark.spec("ENG-047")
def test_what_is_strange_is_named() -> None:
    model, layer = placed(tiny())
    more = canonical(tiny().tensors).tensors | {"mtp.layers.1.input_layernorm.weight": torch.zeros(64)}
    with pytest.raises(CheckpointError, match=r"drafting layer has mtp\.layers\.1"):
        load_mtp_device(model, CodedMemory(more, {}), quiet)
    with pytest.raises(TypeError, match="Qwen35Model"):
        load_mtp_device(tiny().model, CodedMemory(more, {}), quiet)  # type: ignore[arg-type]
    assert layer.formats == {"fp32": 5}
    assert layer.nbytes == 4 * sum(each.numel() for name, each in more.items() if name.startswith("mtp.")) - 4 * 64
