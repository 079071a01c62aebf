"""What is done number by number between the large operations, several steps of it at once (ENG-007, ENG-008).

Between two products each such step reads and writes little, so on a device its launch is what it costs.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["delta_gates", "gated_silu"]


def delta_gates(projected: Tensor, decay: Tensor, step_bias: Tensor) -> tuple[Tensor, Tensor]:
    """(g, beta) of a Gated DeltaNet layer, (T, H) each, of its projections b and a side by side (T, 2 H).

    g = decay x softplus(a + step_bias) in fp32; beta = sigmoid(b), which keeps the type of b as the reference's does.
    `decay`, which is -exp(A_log), and `step_bias` (H) are in fp32.
    """
    write, forget = projected.chunk(2, dim=-1)
    return decay * functional.softplus(forget.float() + step_bias), write.sigmoid()


def gated_silu(projected: Tensor) -> Tensor:
    """silu(gate) x up, of (T, 2 I), gates before the others: (T, I). Rounded after each, as the reference is."""
    gate, up = projected.chunk(2, dim=-1)
    return torch.mul(functional.silu(gate), up)
