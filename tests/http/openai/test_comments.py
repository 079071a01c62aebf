from __future__ import annotations

import pytest

from tandem.http.openai import comments
from tests.http.openai.sse import comments_of, events


@pytest.mark.spec("API-141", "API-142", "API-260")
def test_texts() -> None:
    assert comments.prefill(512, 2048) == b": prefill 512/2048\n\n"
    assert comments.prefill(512, 2048, (2, 5)) == b": prefill 512/2048, image 2 of 5\n\n"
    assert comments.waiting(1, 30.4, "about 40 s") == b": waiting, position 1, about 40 s, 30 s so far\n\n"
    assert comments.waiting(3, 10) == b": waiting, position 3, 10 s so far\n\n"
    short = b": waiting, position 1, memory 1.5 GiB short, 20 s so far\n\n"
    assert comments.waiting(1, 20, missing=3 << 29) == short
    assert b"memory 0.1 GiB short" in comments.waiting(1, 20, missing=1)  # never 0.0
    assert comments.PING == b": ping\n\n"


@pytest.mark.spec("API-136")
def test_a_comment_stands_alone() -> None:
    raw = comments.PING + b"data: {}\n\n" + comments.prefill(1, 2)
    assert events(raw) == ["{}"]
    assert comments_of(raw) == ["ping", "prefill 1/2"]
    with pytest.raises(ValueError, match="one line"):
        comments.comment("a\nb")
