"""What holds for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.engine.decoding.engines import KIND, KINDS


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny products gain nothing from a second thread and wait long for it on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=list(KINDS), scope="module")
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """The architecture of the tiny models; what uses it runs once for each."""
    token = KIND.set(request.param)
    yield request.param
    KIND.reset(token)
