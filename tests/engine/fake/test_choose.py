"""What a script has a hidden question answered."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.engine.errors import BadInput
from tandem.engine.fake.script import parse_script

OPTIONS = (b"chat", b"code", b"A", b"B")


def shares(choose: str, options: tuple[bytes, ...] = OPTIONS) -> tuple[float, ...]:
    return parse_script(f'@fake {{"choose": {choose}}}', "prompt").shares(options)


@pytest.mark.spec("ENG-041", "ENG-187")
@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        ("{}", (0.25, 0.25, 0.25, 0.25)),
        ('{"unheard": 1}', (0.25, 0.25, 0.25, 0.25)),
        ('{"code_edit": 0.7}', (0.1, 0.7, 0.1, 0.1)),
        ('{"code_edit": 0.5, "A": 0.5}', (0.0, 0.5, 0.5, 0.0)),
        ('{"chat": 1, "code": 1}', (0.5, 0.5, 0.0, 0.0)),
        ('{"chat": 0, "code": 0, "A": 0, "B": 0}', (0.25, 0.25, 0.25, 0.25)),
        ('{"chat": 0.1, "code": 0.1, "A": 0.1, "B": 0.1}', (0.25, 0.25, 0.25, 0.25)),
    ],
)
def test_named_options_have_their_share_and_the_others_the_rest(choose: str, expected: tuple[float, ...]) -> None:
    assert shares(choose) == pytest.approx(expected)


def test_an_option_without_text_has_no_name() -> None:
    assert shares('{"chat": 0.6}', (b"", b"chat")) == pytest.approx((0.4, 0.6))


@pytest.mark.spec("ENG-187")
@pytest.mark.parametrize("choose", ["[1]", '{"chat": 2}', '{"chat": -1}', '{"chat": "most"}', "0.5"])
def test_a_wrong_one_is_refused(choose: Any) -> None:
    with pytest.raises(BadInput, match="choose"):
        shares(choose)
