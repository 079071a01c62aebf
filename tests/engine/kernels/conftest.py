"""How each operation is run: its twin, its kernel under Triton's interpreter, its kernel on a CUDA device."""

from __future__ import annotations

import pytest

from tests.engine.kernels.running import WAYS, Way, absence


@pytest.fixture(params=["torch", "interp", pytest.param("cuda", marks=pytest.mark.gpu)])
def way(request: pytest.FixtureRequest) -> Way:
    """Every way there is: a test that takes it is the shared test of twin and kernel."""
    return _there(request.param)


@pytest.fixture(params=["interp", pytest.param("cuda", marks=pytest.mark.gpu)])
def kernel(request: pytest.FixtureRequest) -> Way:
    """The ways of the Triton kernels alone."""
    return _there(request.param)


def _there(name: str) -> Way:
    if reason := absence(name):
        pytest.skip(reason)
    return WAYS[name]
