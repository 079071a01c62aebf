"""The mask against a plain search of the whole text, and every way to cut a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.conductor.masking import Secret, SecretMask
from tandem.conductor.masking.mask import MASKED
from tandem.engine.text.reading.rules import Shown


def secrets(*values: str) -> list[Secret]:
    return [Secret("assignment", value) for value in values]


def masked(pieces: Sequence[str], given: Sequence[Secret]) -> str:
    stage = SecretMask(given).stage()
    shown: list[Shown] = []
    for piece in pieces:
        shown += stage.feed(piece)
    shown += stage.end()
    assert sum(run.length for run in shown) == sum(map(len, pieces))
    assert all(run.is_masked or len(run.text) == run.length for run in shown)
    return "".join(run.text for run in shown)


def in_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] == "_")


def expected(text: str, values: Sequence[str]) -> str:
    """Every place of every value, looked for one by one; overlapping ones are one."""
    places = []
    for value in values:
        for at in range(len(text) - len(value) + 1):
            end = at + len(value)
            begins = not (in_word(text, at - 1) and in_word(text, at))
            ends = not (in_word(text, end - 1) and in_word(text, end))
            if text.startswith(value, at) and begins and ends:
                places.append((at, end))
    out, low = "", 0
    merged: list[list[int]] = []
    for start, end in sorted(places):
        if merged and start < merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    for start, end in merged:
        out += text[low:start] + MASKED
        low = end
    return out + text[low:]


def cuts(text: str, most: int) -> Iterator[list[str]]:
    """Every way to cut `text` at up to `most` places, and into single characters."""
    for count in range(most + 1):
        for places in combinations(range(1, len(text)), count):
            yield [text[low:high] for low, high in pairwise((0, *places, len(text)))]
    yield list(text)


@pytest.mark.spec("MEM-010", "API-081")
def test_a_value_is_masked_as_a_whole_word_and_keeps_its_prefix() -> None:
    given = [Secret("api_key", "sk-abc123", "sk-"), Secret("assignment", "hunter2")]
    assert masked(["it is sk-abc123."], given) == "it is sk-[redacted]."
    assert masked(["hunter2, `hunter2`"], given) == "[redacted], `[redacted]`"
    assert masked(["hunter22 xhunter2 hunter2_ Hunter2 task-abc123"], given) == (
        "hunter22 xhunter2 hunter2_ Hunter2 task-abc123"
    )


@pytest.mark.spec("MEM-010", "MEM-012")
@pytest.mark.parametrize(
    "text",
    [
        "a sk-abc1 b",
        "sk-abc1sk-abc1",
        "ask-abc1 sk-abc1",
        "sk-abc sk-abc1",
        "sk-abc1-sk-abc1",
        "x abc1= abc1=1",
        "sk-sk-abc1 x",
        "öabc1 abc1",
    ],
)
def test_every_cut_gives_what_the_whole_gives(text: str) -> None:
    values = ["sk-abc1", "abc1", "abc1=", "abc1-sk", "ask"]
    whole = expected(text, values)
    for pieces in cuts(text, 3):
        assert masked(pieces, secrets(*values)) == whole


@pytest.mark.spec("MEM-010", "MEM-012")
@given(
    st.lists(st.text("ab-1 _", max_size=6), max_size=8),
    st.lists(st.text("ab-1_", min_size=1, max_size=5), max_size=5),
)
def test_the_machine_finds_what_a_plain_search_finds(pieces: list[str], values: list[str]) -> None:
    assert masked(pieces, secrets(*values)) == expected("".join(pieces), values)


@pytest.mark.spec("MEM-012", "API-082")
@given(st.lists(st.text("abc sk-1", max_size=6), max_size=8))
def test_without_a_repeated_value_the_bytes_are_the_same(pieces: list[str]) -> None:
    given = secrets("sk-abc1-zz", "qqq")
    assert masked(pieces, given) == "".join(pieces)


@pytest.mark.spec("MEM-012", "API-082")
def test_only_a_tail_that_could_begin_a_value_waits_and_one_character_behind_one() -> None:
    stage = SecretMask(secrets("abc1")).stage()

    def feed(text: str) -> str:
        return "".join(run.text for run in stage.feed(text))

    assert feed("see ") == "see "
    assert feed("ab") == ""
    assert feed("d") == "abd"
    assert feed("abc1") == "abc1"  # it begins inside the word "abdabc1"
    assert feed(" ab") == " "
    assert feed("c1") == ""
    assert feed(".") == f"{MASKED}."
    assert feed(" abc1") == " "
    assert feed("2") == "abc12"
    assert "".join(run.text for run in stage.end()) == ""


@pytest.mark.spec("MEM-012")
def test_the_end_of_a_text_is_the_end_of_a_word() -> None:
    stage = SecretMask(secrets("abc1")).stage()
    assert stage.feed("abc1") == []
    assert [run.text for run in stage.end()] == [MASKED]
    assert [run.text for run in stage.feed("2 ")] == ["2 "]
    assert stage.feed("abc") == []
    assert [run.text for run in stage.end()] == ["abc"]


@pytest.mark.spec("MEM-013")
def test_counts_are_by_kind_and_of_all_stages() -> None:
    mask = SecretMask([Secret("pin", "1234"), Secret("api_key", "sk-abc123", "sk-")])
    for text in ("1234 sk-abc123 1234", "1234"):
        stage = mask.stage()
        stage.feed(text)
        stage.end()
    assert mask.counts == {"pin": 3, "api_key": 1}


@pytest.mark.spec("MEM-008")
def test_shadow_counts_and_holds_nothing() -> None:
    mask = SecretMask(secrets("abc1"), shadow=True)
    stage = mask.stage()
    for piece in ("ab", "c1", " x"):
        assert [run.text for run in stage.feed(piece)] == [piece]
    assert stage.feed("") == stage.end() == []
    assert mask.counts == {"assignment": 1}


def test_without_secrets_nothing_is_held() -> None:
    stage = SecretMask([]).stage()
    assert [run.text for run in stage.feed("sk-abc123")] == ["sk-abc123"]


@pytest.mark.spec("MEM-013")
def test_a_secret_does_not_show_its_value() -> None:
    assert "hunter2" not in repr(secrets("hunter2")[0])
