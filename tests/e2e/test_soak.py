"""A short soak of a real server: hundreds of requests of all kinds leave nothing behind."""

from __future__ import annotations

import pytest

from bench.load.serving import tandem
from bench.load.soak import soak

REQUESTS, PARTS = 80, 2
GROWTH = 24 << 20
"""What caches, pools and the journal's ring may still take after the first part."""


@pytest.mark.spec("SCH-016", "SCH-077")
def test_nothing_is_left_over() -> None:
    with tandem("--fake", "--parallel", "2") as process:
        first, *others = soak(process, REQUESTS, PARTS)
    for look in others:
        assert (look.waiting, look.running) == (0, 0)
        assert look.files <= first.files + 2
        assert look.threads <= first.threads + 4  # a pool of workers, filled as it is needed
        assert look.resident - first.resident < GROWTH
