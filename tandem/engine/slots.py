"""Side slots of an engine that is loaded: what one takes, and whether there is room for it (ENG-161, SCH-055)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tandem.engine.caches.resident import SPARED
from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.drafting.choice import Drafting
from tandem.engine.errors import CheckpointError
from tandem.engine.memory import GIB, available, cuda_board, default_floor
from tandem.engine.models.kv import KVCache
from tandem.engine.models.model import Model
from tandem.engine.models.placement import Placement
from tandem.engine.models.recurrent import Recurrent
from tandem.engine.models.state import State

__all__ = ["SIDE_MAX_LEN", "Sides", "add_sides", "side_bytes"]

SIDE_MAX_LEN: Final = 65_536
GRAPH_BYTES: Final = 15 * GIB // 2
"""What the graphs of a slot of a model of 27B, whose rows are 5,120 numbers, keep of a device; of others in proportion
to that width."""


@dataclass(frozen=True, slots=True)
class Sides:
    """So many side slots are wanted, with a window of `max_len`, each of which must leave `floor` bytes free."""

    count: int
    max_len: int
    floor: int | None = None
    """None: ENG-189's."""


def add_sides(
    engine: TorchEngine,
    model: Model,
    placement: Placement,
    drafting: Drafting,
    sides: Sides,
    room: Callable[[], int | None] | None = None,
) -> Mapping[str, object]:
    """Build them one after the other; for the load report how many slots there are, and with numbers what is refused.

    `drafting` is what slot 0 drafts with. `room` tells the bytes available; the default asks the kernel or the device.
    """
    board = None if placement.device.type == "cpu" else cuda_board()
    floor = default_floor(board=board) if sides.floor is None else sides.floor
    room = room or (lambda: available(board=None if board is None else cuda_board()))
    need = side_bytes(model.config, sides.max_len, placement, drafts="mtp" in drafting.nbytes)
    refused = list[Mapping[str, object]]()
    for slot in range(1, sides.count + 1):
        free = room()
        if free is None or free - need >= floor:
            try:
                engine.add_side(sides.max_len, drafting.beside(sides.max_len), need)
                continue
            except (RuntimeError, MemoryError, CheckpointError):
                pass  # what there was room for by its numbers, the allocator did not have
        refused.append({"slot": slot, "need": need, "available": free, "floor": floor})
        break
    return {"slots": len(engine.slots)} | ({"slots_refused": refused} if refused else {})


def side_bytes(config: ModelConfig, window: int, placement: Placement, *, drafts: bool) -> int:
    """What one takes: its rows and memory, the anchors of the prompt it reads, its graphs on a device, and, where a
    layer `drafts`, that one's rows.
    """
    found = State.bytes_for(config, window, placement) + SPARED * Recurrent.bytes_for(config, placement)
    if placement.device.type != "cpu":
        found += GRAPH_BYTES * config.hidden_size // 5120
    if drafts:
        found += KVCache.bytes_for(1, config.num_key_value_heads, window, config.head_dim, placement)
    return found
