from __future__ import annotations

import pytest

from tandem.http.openai import comments
from tests.http.openai.sse import comments_of, events


@pytest.mark.spec("API-141", "API-142", "API-260")
def test_texts() -> None:
    assert comments.prefill(512, 2048) == b": prefill 512/2048\n\n"
    assert comments.prefill(512, 2048, (2, 5)) == b": prefill 512/2048, image 2 of 5\n\n"
    assert comments.waiting(1, 30.4, 41) == b": waiting, position 1, about 40 s, 30 s so far\n\n"
    assert comments.waiting(3, 10) == b": waiting, position 3, 10 s so far\n\n"
    assert comments.PING == b": ping\n\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "10 s"),
        (4, "10 s"),
        (14.9, "10 s"),
        (15, "20 s"),
        (25, "30 s"),
        (114, "110 s"),
        (115, "2 min"),
        (149, "2 min"),
        (150, "3 min"),
        (3600, "60 min"),
    ],
)
def test_estimates_are_coarse(seconds: float, text: str) -> None:
    assert comments.about(seconds) == text


def test_estimates_behind_own_work() -> None:
    assert [comments.about(s, own_work=True) for s in (0.2, 3.6, 10, 11)] == ["1 s", "4 s", "10 s", "10 s"]


@pytest.mark.spec("API-136")
def test_a_comment_stands_alone() -> None:
    raw = comments.PING + b"data: {}\n\n" + comments.prefill(1, 2)
    assert events(raw) == ["{}"]
    assert comments_of(raw) == ["ping", "prefill 1/2"]
    with pytest.raises(ValueError, match="one line"):
        comments.comment("a\nb")
