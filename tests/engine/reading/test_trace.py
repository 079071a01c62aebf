"""What a watched answer's reader writes down, and that it reads as one that nobody watches."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.engine.text.prompt import Thinking
from tandem.engine.text.reading.calls import xml_calls
from tandem.engine.text.reading.reader import AnswerReader
from tandem.engine.text.reading.rules import ReadingRules
from tandem.engine.text.reading.trace import Trace
from tests.engine.reading.calls.reading import block, texts_with_tags
from tests.engine.reading.test_hold import feed
from tests.engine.reading.test_reader import TEXT, pieces_of, token


def watched(thinking: Thinking = "open", *, live: bool = False, holds: bool = False, **more: Any) -> Any:
    trace = Trace()
    codec = xml_calls([], live=live, new_id=lambda: "c")
    rules = ReadingRules(holds=holds)
    return trace, AnswerReader(TEXT, thinking=thinking, calls=codec, rules=rules, trace=trace, **more)


def test_tokens_count_where_they_ended() -> None:
    trace, reader = watched()
    said = ["a", " b", "</think>", "\n\n", "c", "d", "<tool_call>", "<function=f>", "</function>", "</tool_call>", "e"]
    feed(reader, said)
    ids = [token(piece) for piece in said]
    assert trace.reasoning == ids[:2]
    assert trace.thoughts == said[:2]
    assert trace.answer_ids == [ids[4], ids[5], ids[10]]
    assert trace.answer_text == "cde"
    assert trace.all_ids == ids
    assert (trace.calls, trace.rejected, trace.has_sent_call, trace.block) == (1, 0, True, None)


def test_a_tag_of_several_tokens_is_left_out() -> None:
    trace, reader = watched("free")
    feed(reader, ["<th", "ink>", "a", "b</", "think", ">c", "d"])
    assert trace.reasoning == [token("a")]
    assert trace.answer_text == "cd"


def test_an_open_block_is_seen_while_it_is_written() -> None:
    for live in (True, False):
        trace, reader = watched("off", live=live)
        feed(reader, ["x", "<tool_call>", "<function=f>", "<parameter=p>", "1"])
        assert trace.block is not None
        assert trace.block.text == "<tool_call><function=f><parameter=p>1"
        assert trace.block.tool == "f"
        assert trace.block.ids == [token(each) for each in ("<tool_call>", "<function=f>", "<parameter=p>", "1")]
        feed(reader, ["</parameter>", "</function>", "\n<function=g>", "<parameter=q>", "2"])
        assert trace.block.tool == "g"
        assert trace.block.text.strip() == "<function=g><parameter=q>2"
        reader.drop_block()
        assert trace.block is None
        assert trace.calls == 1


def test_what_is_held_is_counted_and_what_is_dropped_is_not() -> None:
    trace, reader = watched("off", holds=True)
    feed(reader, [block("f"), "<tool_call>{no</tool_call>", "rest"])
    reader.end()
    assert (trace.calls, trace.rejected, trace.has_sent_call) == (1, 1, False)
    reader.reopen()
    assert (trace.calls, trace.rejected) == (0, 0)
    feed(reader, [block("f")])
    reader.end()
    reader.release(reader.held)
    assert (trace.calls, trace.has_sent_call) == (1, True)


@settings(max_examples=20)
@given(texts_with_tags(), st.sets(st.integers(1, 60)), st.sampled_from([(), ("x7",)]))
def test_a_watched_answer_reads_as_any(texts: list[str], places: set[int], stops: tuple[str, ...]) -> None:
    pieces = pieces_of("<think>" + "".join(texts), sorted(places))
    trace, reader = watched("free", stops=stops)
    plain = AnswerReader(TEXT, thinking="free", stops=stops, calls=xml_calls([], live=False, new_id=lambda: "c"))
    assert feed(reader, pieces) + reader.end() == feed(plain, pieces) + plain.end()
    assert len(trace.all_ids) >= len(trace.reasoning) + len(trace.answer_ids)
    assert len(trace.thoughts) == len(trace.reasoning)
