"""Reasoning apart and reasoning capped, on the fake engine: cases A, B, C and P below the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tandem.engine.decoding.capping import CALL_GRACE
from tandem.engine.decoding.generation import Generation, ReasoningCap
from tandem.engine.decoding.seams import NOTHING, Close, SafePoint, Seen, Verdict
from tandem.engine.decoding.work import Answer, Ask, Force, Prefill, perform
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.vocabulary import THINK_END
from tandem.engine.text.closing import CLOSING_PHRASE, closing_ids
from tandem.engine.text.reading.deltas import (
    Blank,
    CallEnd,
    CallStart,
    Content,
    Delta,
    Reasoning,
    ReasoningEnd,
    ReasoningStart,
)
from tandem.engine.text.reading.reader import AnswerReader
from tandem.engine.verbs import SamplingRules
from tests.engine.decoding.driving import chat, chat_of, drive, finish_of, prompt_of, reasoning_of, run, text_of
from tests.engine.decoding.test_generation_inserted import RecordingMask

PHRASE = CLOSING_PHRASE.partition("</think>")[0]
PHRASE_TOKENS = len(FakeEngine().text.encode_own(PHRASE)) + 1
"""Through the closing tag."""
OFF = {"enable_thinking": False}


def kinds(deltas: list[Delta]) -> set[str]:
    return {type(delta).__name__ for delta in deltas}


# --- A: the split


@pytest.mark.spec("API-077")
def test_a01_without_thinking_all_text_is_content() -> None:
    deltas = chat({"say": "Hi there"}, template_kwargs=OFF)
    assert kinds(deltas) == {"Content", "Finish"}
    assert text_of(deltas) == "Hi there"
    assert finish_of(deltas).usage.reasoning == 0


@pytest.mark.spec("API-258", "ENG-185")
@pytest.mark.parametrize("say", ["<think>easy</think>\n\n4", ["<th", "ink>", "easy", "</th", "ink>", "\n\n", "4"]])
@pytest.mark.parametrize("block", [1, 3, 8])
def test_a02_tags_are_split_off_also_when_cut(say: Any, block: int) -> None:
    deltas = chat({"say": say, "block": block})
    assert deltas[:-1] == [ReasoningStart(), Reasoning("easy"), ReasoningEnd(), Blank("\n\n"), Content("4")]


@pytest.mark.spec("API-258", "ENG-185")
def test_a08_only_the_first_block_is_split_off() -> None:
    deltas = chat({"say": "<think>a</think>x<think>b</think>y"})
    assert (reasoning_of(deltas), text_of(deltas)) == ("a", "x<think>b</think>y")
    assert finish_of(deltas).usage.reasoning == 3


@pytest.mark.spec("API-078", "API-158")
@pytest.mark.parametrize("say", ["<think>" + "a " * 50, "a " * 50 + "</think>"])
def test_a10_a_limit_inside_the_thinking(say: str) -> None:
    deltas = chat({"say": say}, limit=8)
    finish = finish_of(deltas)
    assert (finish.reason, finish.usage.reasoning, finish.usage.completion) == ("length", 8, 8)
    assert reasoning_of(deltas).startswith("a ")
    assert text_of(deltas) == ""


@pytest.mark.spec("API-158")
def test_a_block_that_the_end_token_leaves_open_has_everything() -> None:
    usage = finish_of(chat({"say": "<think>a b"})).usage
    assert (usage.reasoning, usage.completion) == (4, 4)


# --- B: the cap

WORDS = ["a", " b", " c", " d", " e", " f"]
OPEN = "".join(WORDS) + "</think>\n\nx y"
"""Begins inside the block, which closes by itself at the seventh token."""


@pytest.mark.spec("API-095", "ENG-097")
@pytest.mark.parametrize("cap", range(10))
@pytest.mark.parametrize("visible", [True, False])
def test_a_cap_is_exact_in_any_block(cap: int, visible: bool) -> None:
    first = chat({"say": OPEN, "block": 1}, cap=cap, visible=visible)
    finish = finish_of(first)
    assert text_of(first) == "x y"
    if cap > len(WORDS):
        assert (reasoning_of(first), finish.usage.reasoning) == ("".join(WORDS), 7)
        assert first == chat({"say": OPEN, "block": 1})
    else:
        assert reasoning_of(first) == "".join(WORDS[:cap]) + (PHRASE if visible else "")
        assert finish.usage.reasoning == cap + (PHRASE_TOKENS if visible else 0)
        # The phrase's last line breaks, the answer's four tokens and the end token.
        assert finish.usage.completion == finish.usage.reasoning + (2 if visible else 0) + 4 + 1
    for block in range(2, 33):
        deltas = chat({"say": OPEN, "block": block}, cap=cap, visible=visible)
        assert deltas[:-1] == first[:-1]
        usage = finish_of(deltas).usage
        assert (usage.reasoning, usage.completion) == (finish.usage.reasoning, finish.usage.completion)


@pytest.mark.spec("ENG-097")
def test_no_round_goes_past_the_cap() -> None:
    engine = FakeEngine()
    generation = chat_of(engine, {"say": OPEN, "block": 4}, cap=6)
    drive(engine, engine.open(generation.prompt), generation)
    committed = [call.args["tokens"] for call in engine.calls if call.verb in ("accept", "force")]
    assert committed[:3] == [4, 2, len(closing_ids(engine.text))]


@pytest.mark.spec("API-095", "ENG-097")
def test_a_cap_of_nothing_closes_before_the_first_token() -> None:
    engine = FakeEngine()
    generation = chat_of(engine, {"say": OPEN}, cap=0, visible=False)
    deltas = drive(engine, engine.open(generation.prompt), generation)
    assert next(call.verb for call in engine.calls if call.verb in ("force", "accept")) == "force"
    assert deltas[:4] == [ReasoningStart(), ReasoningEnd(), Blank("\n\n"), Content("x")]
    other = generation.for_choice(1, AnswerReader(engine.text, thinking="open"))
    other.skip_prefill(generation.prefilled, 0.0)
    assert other.next() == Force(closing_ids(engine.text), visible=False, closes=True)


@pytest.mark.spec("API-258", "API-095")
def test_b04_a_block_the_model_opened_is_closed_at_ten_tokens() -> None:
    say = "<think>" + " w" * 30 + "</think>done"
    for block in (1, 4, 32):
        deltas = chat({"say": say, "block": block}, cap=10, visible=False, template_kwargs=OFF)
        assert (reasoning_of(deltas), text_of(deltas)) == (" w" * 9, "done")
        assert finish_of(deltas).usage.reasoning == 10


@pytest.mark.spec("API-095", "ENG-097")
def test_b02_a_natural_close_near_the_cap_forces_nothing() -> None:
    say = " w" * 237 + "</think>\n\nfine"
    for cap in (238, 242):
        deltas = chat({"say": say, "block": 7}, cap=cap, limit=1000)
        assert (reasoning_of(deltas), text_of(deltas)) == (" w" * 237, "fine")
        assert finish_of(deltas).usage.reasoning == 238


CALL = '<tool_call>{"name":"w","arguments":{"p":"x y z"}}</tool_call>'


@pytest.mark.spec("API-261", "ENG-186")
@pytest.mark.parametrize("block", [1, 2, 5, 32])
@pytest.mark.parametrize("cap", [5, 6, 7, 20])
def test_b01_the_closer_waits_for_the_end_of_an_open_call(block: int, cap: int) -> None:
    say = f"<think>a b c {CALL} more and more thinking</think>\nanswer"
    deltas = chat({"say": say, "block": block}, cap=cap)
    read = f"a b c {CALL}" if cap > 5 else "a b c "
    assert reasoning_of(deltas) == read + PHRASE
    assert text_of(deltas) == "answer"


@pytest.mark.spec("API-261", "ENG-186")
@pytest.mark.parametrize("opener", ["<tool_call>", "<function=f>"])
def test_the_closer_waits_for_1024_tokens_at_most(opener: str) -> None:
    engine = FakeEngine()
    say = opener + " w" * 1200 + "</think>answer"
    generation = chat_of(engine, {"say": say, "block": 32}, cap=40, visible=False, limit=2000)
    deltas = drive(engine, engine.open(generation.prompt), generation)
    assert finish_of(deltas).usage.reasoning == 40 + CALL_GRACE
    assert text_of(deltas) == "answer"


@pytest.mark.spec("ENG-097", "ENG-185")
def test_output_that_is_not_decided_at_the_cap_is_waited_for() -> None:
    for block in (1, 3, 8):
        late = chat({"say": "\n\n\n\n<think> a b</think>c", "block": block}, cap=2, visible=False)
        assert (reasoning_of(late), text_of(late)) == ("", "c")
        assert finish_of(late).usage.reasoning == 5
        never = chat({"say": "\n\n\n\nc d", "block": block}, cap=2)
        assert (reasoning_of(never), text_of(never)) == ("", "\n\n\n\nc d")


@pytest.mark.spec("API-080")
def test_b07_closers_after_the_forced_one_are_content_and_the_limit_ends_them() -> None:
    say = "<think>a b c d e</think>" + "</think>" * 271
    deltas = chat({"say": say}, cap=4, visible=False, limit=50)
    assert reasoning_of(deltas) == "a b c"
    assert text_of(deltas) == "</think>" * 46
    assert finish_of(deltas).reason == "length"


@pytest.mark.spec("ENG-097")
@pytest.mark.parametrize("left", range(1, 12))
def test_the_limit_may_cut_the_closing_phrase(left: int) -> None:
    deltas = chat({"say": OPEN}, cap=3, limit=3 + left)
    finish = finish_of(deltas)
    assert (finish.reason, finish.usage.completion) == ("length", 3 + left)
    written = FakeEngine().text.encode_own(CLOSING_PHRASE)[:left]
    if THINK_END not in written:
        assert finish.usage.reasoning == 3 + left
    assert text_of(deltas) == ""


@pytest.mark.spec("API-095", "ENG-083")
def test_every_choice_is_capped() -> None:
    engine = FakeEngine()
    first = chat_of(engine, {"say": OPEN}, cap=2)
    other = first.for_choice(1, AnswerReader(engine.text, thinking="open"))
    answers = [drive(engine, engine.open(one.prompt), one) for one in (first, other)]
    assert answers[0] == answers[1]


@pytest.mark.spec("ENG-097", "ENG-183")
@pytest.mark.parametrize("visible", [True, False])
def test_a_mask_is_told_of_the_closer(visible: bool) -> None:
    engine = FakeEngine()
    mask = RecordingMask()
    generation = chat_of(engine, {"say": OPEN}, SamplingRules(mask=mask), cap=2, visible=visible)
    seq = engine.open(generation.prompt)
    drive(engine, seq, generation)
    assert mask.committed == seq.output[:-1]


def test_the_closer_comes_before_what_a_supervisor_inserts() -> None:
    class Asking:
        def look(self, point: SafePoint, seen: Seen) -> Verdict:
            return Verdict(works=(Ask((65,), (66,)),)) if point == "SP1" else NOTHING

        def answered(self, answer: Answer, seen: Seen) -> Verdict:
            return NOTHING

        def closed(self, close: Close) -> None:
            assert (close.tokens, close.why, close.hidden) == (2, "client", 0)

    engine = FakeEngine()
    generation = chat_of(engine, {"say": OPEN, "block": 2}, cap=2, supervisor=Asking())
    seq = engine.open(generation.prompt)
    generation.start(0.0)
    while isinstance(work := generation.next(), Prefill):
        generation.feed(perform(engine, seq, work, generation.rules), 0.0)
    generation.feed(perform(engine, seq, work, generation.rules), 0.0)  # type: ignore[arg-type]
    assert generation.next() == Force(closing_ids(engine.text), visible=True)
    generation.feed(perform(engine, seq, generation.next(), generation.rules), 0.0)  # type: ignore[arg-type]
    assert generation.next() == Ask((65,), (66,))


@pytest.mark.parametrize(("tokens", "closer"), [(-1, (65,)), (1, ())])
def test_an_impossible_cap_cannot_be_made(tokens: int, closer: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="closer"):
        ReasoningCap(tokens, closer)


# --- C: stop strings


@pytest.mark.spec("API-085", "API-086")
@pytest.mark.parametrize(
    ("say", "stop", "content"),
    [
        ("<think>The Question: is</think>Blue", "Question:", "Blue"),
        ("<think>9.8<9.11</think>9.11 is smaller", "9.8", "9.11 is smaller"),
        ("<think>a\n\nb</think>\n\n\n\nc d\n\ne", "\n\n", "c d"),
    ],
)
def test_c01_c02_a_stop_string_in_the_reasoning_does_not_end_the_answer(say: str, stop: str, content: str) -> None:
    deltas = chat({"say": say}, stops=[stop])
    assert text_of(deltas) == content
    assert finish_of(deltas).reason == "stop"


@pytest.mark.spec("API-086")
def test_a_stop_string_for_the_whole_text_ends_it_in_the_reasoning() -> None:
    deltas = chat({"say": "<think>The Question: is</think>Blue"}, stops=["Question:"], stop_scope="all")
    assert (reasoning_of(deltas), text_of(deltas)) == ("The ", "")
    assert finish_of(deltas).reason == "stop"


@pytest.mark.spec("API-095")
def test_a_stop_string_of_the_answer_does_not_match_the_closing_phrase() -> None:
    deltas = chat({"say": OPEN}, cap=2, stops=["answer", "\n\n"])
    assert text_of(deltas) == "x y"


@pytest.mark.spec("API-084")
def test_c04_a_split_stop_string() -> None:
    assert text_of(chat({"say": ["a E", "N", "D b"]}, stops=["END"])) == "a "
    assert text_of(chat({"say": ["a E", "N", "X"]}, stops=["END"])) == "a ENX"


# --- P: characters in pieces


@pytest.mark.spec("API-139", "ENG-095")
@pytest.mark.parametrize("opener", [[], ["<think>"]])
def test_p01_characters_that_are_cut_between_tokens(opener: list[str]) -> None:
    family = "👨\u200d👩\u200d👧"
    pieces = [b"\xf0\x9f", b"\x98", b"\x80", "한".encode(), b"e", "\u0301".encode()]
    pieces += [bytes([byte]) for byte in family.encode()]
    say = [*opener, *({"bytes": piece.hex()} for piece in pieces)]
    deltas = chat({"say": say})
    assert text_of(deltas) + reasoning_of(deltas) == f"😀한e\u0301{family}"
    cut = chat({"say": [*say, {"bytes": "f09f98"}]})
    assert (text_of(cut) + reasoning_of(cut)).count("\ufffd") == 1


# --- finish


class CallingCodec:
    """Every `}` completes a call."""

    inside = False
    opened = rejected = 0
    tool = None
    spans: Sequence[tuple[int, int]] = ()

    def __init__(self) -> None:
        self.calls = 0

    def new_id(self) -> str:
        return "c"

    def reopen(self) -> None:
        raise AssertionError("nothing is held")

    def feed(self, text: str) -> list[Any]:
        return [event for _ in range(text.count("}")) for event in (CallStart(0, "c", "f"), CallEnd(0))]

    def end(self) -> list[Any]:
        return []


@pytest.mark.spec("API-119", "API-163", "API-164")
@pytest.mark.parametrize(
    ("single", "limit", "reason", "completion"),
    [
        (True, 100, "tool_calls", 2),
        (True, 2, "tool_calls", 2),
        (True, 1, "length", 1),
        (False, 100, "tool_calls", 5),
        (False, 5, "tool_calls", 5),
        (False, 4, "length", 4),
    ],
)
def test_how_calls_end_an_answer(single: bool, limit: int, reason: str, completion: int) -> None:
    engine = FakeEngine()
    prompt = prompt_of(engine, {"say": ["{", "}", "{", "}"], "block": 3})
    generation = Generation(
        prompt,
        SamplingRules(),
        limit=limit,
        reader=AnswerReader(engine.text, thinking=prompt.thinking, calls=CallingCodec(), single_call=single),
        end_ids=engine.text.end_ids,
        grid=engine.card.anchor_grid,
        arrived_at=0.0,
    )
    finish = finish_of(drive(engine, engine.open(prompt), generation))
    assert (finish.reason, finish.usage.completion) == (reason, completion)


def test_a_text_completion_has_no_reasoning() -> None:
    deltas = run({"say": "<think>a</think>b"})
    assert text_of(deltas) == "<think>a</think>b"
    assert finish_of(deltas).usage.reasoning == 0
