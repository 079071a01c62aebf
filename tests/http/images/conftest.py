"""One certificate for all tests of the fetch."""

from __future__ import annotations

import pytest

from tests.http.images.server import Certificate, make_certificate


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))
