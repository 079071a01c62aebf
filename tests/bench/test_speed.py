"""The tables that compare engines, and their prompts."""

from __future__ import annotations

from tandem.bench import speed
from tandem.bench.prompts import Prompts
from tests.bench.subjects import Steady


def encode(text: str) -> list[int]:
    return [hash(word) for word in text.split()]


def test_prompts_have_the_length_and_share_no_beginning() -> None:
    prompts = Prompts(encode)
    made = [prompts.fresh(length) for length in (5, 5, 40)]
    assert [len(each) for each in made] == [5, 5, 40]
    assert len({each[0] for each in made}) == 3
    again = Prompts(encode)
    assert [again.fresh(length) for length in (5, 5, 40)] == made


def test_a_tokenizer_that_makes_few_tokens_of_many_words() -> None:
    assert len(Prompts(lambda text: [0] * (len(text.split()) // 7)).fresh(30)) == 30


def test_decode_table() -> None:
    ours, theirs = Steady(0.01), Steady(0.04)
    report = speed.decode({"tandem": ours, "transformers": theirs}, Prompts(encode), rounds=3, context=8, tokens=4)
    assert report.rows == (
        ("tandem", "100.0", "100.0 to 100.0", "", ""),
        ("transformers", "25.0", "25.0 to 25.0", "4.00 x", ">= 3 x"),
    )
    assert ours.prompts == theirs.prompts
    assert len(set(ours.prompts)) == 3


def test_prefill_table() -> None:
    report = speed.prefill(
        {"tandem": Steady(0.001), "llama.cpp": Steady(0.0005)}, Prompts(encode), rounds=2, lengths=(8, 16)
    )
    assert [row[:3] for row in report.rows] == [
        ("8", "tandem", "1,000.0"),
        ("8", "llama.cpp", "2,000.0"),
        ("16", "tandem", "1,000.0"),
        ("16", "llama.cpp", "2,000.0"),
    ]
    assert report.rows[1][4:] == ("0.50 x", ">= 0.7 x")


def test_second_turn_table() -> None:
    report = speed.second_turn(
        {"tandem": Steady(0.01), "transformers": Steady(0.01, keeps=False)}, Prompts(encode), rounds=2, length=64
    )
    assert report.rows[0] == ("tandem", "20.0 ms", "2.0 steps", "2.0 to 2.0", "<= 3 steps")
    assert report.rows[1][1] == "keeps no prefix"


def test_a_single_engine_is_compared_with_nothing() -> None:
    report = speed.decode({"tandem": Steady(0.01)}, Prompts(encode), rounds=1, context=8, tokens=4)
    assert [row[3:] for row in report.rows] == [("", "")]


def test_every_measurement_fits_the_window() -> None:
    assert max(speed.LENGTHS) + speed.ROOM <= speed.WINDOW
    assert speed.CONTEXT + speed.TOKENS + 1 <= speed.ROOM
    assert speed.MORE + speed.STEPS + 1 <= speed.ROOM
