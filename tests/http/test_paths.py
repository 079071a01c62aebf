"""Paths are matched, and no address is built of one."""

from __future__ import annotations

import pytest
from quart.routing import QuartMap

from tandem.http.paths import MatchedPath


def test_a_path_is_matched_and_nothing_is_built() -> None:
    paths = QuartMap([MatchedPath("/v1/models/<path:name>", methods=["GET"], endpoint="model")], host_matching=False)
    adapter = paths.bind("localhost")
    assert adapter.match("/v1/models/a/b", method="GET") == ("model", {"name": "a/b"})
    with pytest.raises(NotImplementedError, match="/v1/models"):
        adapter.build("model", {"name": "a"})
