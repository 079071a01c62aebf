"""Each verdict at each safe point, on the fake engine, with one token a round and with several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.engine.decoding.generation import ReasoningCap
from tandem.engine.decoding.seams import NOTHING, EndNow, Seen, Verdict
from tandem.engine.decoding.work import Ask, Ended, Force, perform
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.engine import FakeSeq
from tandem.engine.fake.vocabulary import IM_END, IM_START, THINK_END
from tandem.engine.text.closing import closing_ids
from tandem.engine.text.reading.deltas import CallEnd, Content, Delta, Finish, ReasoningEnd
from tests.engine.decoding.driving import drive, finish_of, reasoning_of, text_of
from tests.engine.decoding.supervised import Table, supervised
from tests.engine.reading.test_hold import told

BLOCKS = pytest.mark.parametrize("block", [1, 3, 8])
GO_ON = Force((IM_START, 65, 66), visible=False)
CLOSE = Force((10, THINK_END, 10), visible=False, closes=True)
QUESTION = Ask((65,), (66, 67))
STOPPED = EndNow("[Tandem stopped this.]", "guard")
F, G = (f"<tool_call><function={name}></function></tool_call>" for name in "fg")


def run(script: dict[str, Any], table: Table | None, **options: Any) -> tuple[FakeEngine, FakeSeq, list[Delta]]:
    engine = FakeEngine()
    generation = supervised(engine, script, table, **options)
    seq = engine.open(generation.prompt)
    return engine, seq, drive(engine, seq, generation)


def counts(finish: Finish) -> tuple[str, int, int]:
    return finish.reason, finish.usage.completion, finish.usage.reasoning


# --- nothing to do


@pytest.mark.spec("MON-028", "ENG-183")
@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(["<think>", "</think>", "a", " b", "<tool_call>", "<function=f>", "</function>", F])),
    st.integers(1, 5),
    st.booleans(),
    st.integers(1, 12),
)
def test_a_supervisor_that_wants_nothing_changes_nothing(said: list[str], block: int, holds: bool, limit: int) -> None:
    script = {"say": said, "block": block}
    _, plain, wanted = run(script, None, limit=limit)
    _, seq, heard = run(script, Table(), limit=limit)
    assert heard == wanted
    assert seq.output == plain.output
    if holds:
        _, seq, heard = run(script, Table(), limit=limit, holds=True)
        _, _, whole = run(script, None, limit=limit, stops=("never",))  # calls go out whole
        assert told(heard) == told(whole)
        assert counts(finish_of(heard)) == counts(finish_of(whole))
        assert seq.output == plain.output


# --- SP1


@pytest.mark.spec("MON-031", "MON-026", "MON-133", "ENG-040")
@BLOCKS
def test_the_reasoning_is_closed_at_a_border(block: int) -> None:
    table = Table(SP1=[lambda seen: Verdict(works=(CLOSE,)) if seen.in_reasoning else NOTHING])
    engine, seq, deltas = run({"say": "<think>a b c d e</think>done", "block": block}, table)
    assert text_of(deltas) == "done"
    assert reasoning_of(deltas) in "a b c d e"
    assert sum(isinstance(delta, ReasoningEnd) for delta in deltas) == 1
    finish = finish_of(deltas)
    forced = sum(call.args["tokens"] for call in engine.calls if call.verb == "force")
    assert finish.usage.completion == len(seq.output) - forced
    assert (forced > 0) == (block < 8)
    assert (finish.reason, finish.usage.hidden) == ("stop", 0)


@pytest.mark.spec("MON-033", "MON-108")
@pytest.mark.parametrize("cut", [True, False])
def test_a_generation_is_ended_inside_a_call_that_streams(cut: bool) -> None:
    def inside(seen: Seen) -> Verdict:
        return Verdict(end=replace(STOPPED, sentence="", cut=cut)) if seen.in_call else NOTHING

    table = Table(SP1=[inside] * 5)
    _, _, deltas = run({"say": [F, "<tool_call>", "<function=g>", "<parameter=x>", "1", "2"]}, table)
    text, calls = told(deltas)
    assert text == ""
    assert [call[2] for call in calls] == ["f"]
    assert finish_of(deltas).detail == "guard"
    assert finish_of(deltas).reason == "tool_calls"
    table = Table(SP1=[NOTHING] * 2 + [Verdict(end=replace(STOPPED, sentence="", cut=cut))])
    _, _, deltas = run({"say": ["<tool_call>", "<function=g>", "<parameter=x>", "1", "2"]}, table)
    assert [call[2:] for call in told(deltas)[1]] == [("g", '{"x":"')]
    assert not any(isinstance(delta, CallEnd) for delta in deltas)
    assert finish_of(deltas).reason == ("tool_calls" if cut else "stop")


@pytest.mark.spec("MON-107", "MON-159")
@pytest.mark.parametrize("releases", [True, False])
def test_a_held_call_that_is_stopped_leaves_the_earlier_ones_to_the_verdict(releases: bool) -> None:
    def stop(seen: Seen) -> Verdict:
        return Verdict(release=tuple(seen.held) if releases else None, end=STOPPED)

    table = Table(SP1=[NOTHING] * 3 + [stop])
    _, _, deltas = run({"say": ["x", F, "<tool_call>", "<function=g>", "<parameter=x>"]}, table, holds=True)
    text, calls = told(deltas)
    assert text == "x\n\n" + STOPPED.sentence
    assert [call[2] for call in calls] == (["f"] if releases else [])
    assert finish_of(deltas).reason == ("tool_calls" if releases else "stop")


@pytest.mark.spec("MON-033", "API-163")
def test_a_generation_that_is_ended_in_its_reasoning_closes_it_for_the_client() -> None:
    table = Table(SP1=[NOTHING, NOTHING, Verdict(end=STOPPED)])
    _, _, deltas = run({"say": ["<think>", "a", " b", " c", "</think>", "d"]}, table)
    assert reasoning_of(deltas) == "a b"
    assert [type(delta) for delta in deltas[-3:]] == [ReasoningEnd, Content, Finish]
    assert text_of(deltas) == STOPPED.sentence
    assert counts(finish_of(deltas)) == ("stop", 3, 3)
    assert finish_of(deltas).detail == "guard"


# --- SP2


@pytest.mark.spec("MON-029", "MON-032", "MON-133", "ENG-094")
@BLOCKS
@pytest.mark.parametrize("logprobs", [None, 1])
def test_an_end_token_is_taken_back_before_hidden_ids(block: int, logprobs: int | None) -> None:
    table = Table(SP2=[Verdict(works=(GO_ON,))])
    engine, seq, deltas = run({"say": ["a", " b"], "then": [[" c", " d"]], "block": block}, table, logprobs=logprobs)
    assert text_of(deltas) == "a b c d"
    spoken = [engine.text.piece(token).decode() for token in seq.output]
    assert spoken == ["a", " b", "", "A", "B", " c", " d", ""]
    assert seq.output[-1] == IM_END
    assert counts(finish_of(deltas)) == ("stop", 5, 0)
    rows = [entry.token for delta in deltas if isinstance(delta, Content) for entry in delta.logprobs]
    assert rows == ([] if logprobs is None else [seq.output[at] for at in (0, 1, 5, 6)])
    timings = finish_of(deltas).timings
    assert timings.draft_accepted == engine.state()["accepted_tokens"]


@pytest.mark.spec("MON-032", "MON-133")
@BLOCKS
def test_an_end_inside_the_reasoning_goes_on_behind_a_hidden_closer(block: int) -> None:
    table = Table(SP2=[Verdict(works=(CLOSE, GO_ON))])
    script = {"say": ["<think>", "a"], "then": [["b"]], "block": block}
    _, seq, deltas = run(script, table)
    assert (reasoning_of(deltas), text_of(deltas)) == ("a", "b")
    assert counts(finish_of(deltas)) == ("stop", len(seq.output) - len(CLOSE.ids + GO_ON.ids), 2)


@pytest.mark.spec("MON-029", "MON-064", "ENG-041")
@BLOCKS
@pytest.mark.parametrize("then", [NOTHING, Verdict(works=(GO_ON,)), Verdict(end=STOPPED)])
def test_a_question_leaves_the_end_open(block: int, then: Verdict) -> None:
    table = Table([then], SP2=[Verdict(works=(QUESTION,))])
    script = {"say": ["a", " b"], "then": [[" c"]], "block": block, "choose": {"B": 0.75}}
    engine, _, deltas = run(script, table)
    assert table.answers == [(0.75, 0.25)]
    assert text_of(deltas) == "a b" + (" c" if then.works else "\n\n" + STOPPED.sentence if then.end else "")
    assert counts(finish_of(deltas)) == ("stop", 4 if then.works else 3, 0)
    verbs = [call.verb for call in engine.calls]
    assert verbs.index("trim") == verbs.index("ask") - 1
    assert table.points.count("SP2") == (2 if then.works else 1)


@pytest.mark.spec("MON-054", "MON-133")
def test_a_call_from_the_reasoning_is_forced_visibly_as_the_answer() -> None:
    def case_c(seen: Seen) -> Verdict:
        return Verdict(works=(CLOSE, Force(tuple(engine.text.encode_own(F)), visible=True)))

    engine = FakeEngine()
    table = Table(SP2=[case_c])
    generation = supervised(engine, {"say": ["<think>", "a", F]}, table, holds=True)
    deltas = drive(engine, engine.open(generation.prompt), generation)
    assert [call[2] for call in told(deltas)[1]] == ["f"]
    assert table.points[-2:] == ["SP2", "SP3"]
    finish = finish_of(deltas)
    assert finish.reason == "tool_calls"
    assert finish.usage.completion == finish.usage.reasoning + len(engine.text.encode_own(F)) + 1


@pytest.mark.spec("MON-055", "MON-159")
def test_giving_up_at_the_end_counts_the_end_token() -> None:
    _, seq, deltas = run({"say": ["a"]}, Table(SP2=[Verdict(end=STOPPED)]))
    assert text_of(deltas) == "a\n\n" + STOPPED.sentence
    assert counts(finish_of(deltas)) == ("stop", 2, 0)
    assert seq.output[-1] == IM_END
    _, _, deltas = run({"say": [F]}, Table(SP2=[Verdict(end=STOPPED)]))
    assert finish_of(deltas).reason == "tool_calls"


# --- SP3


@pytest.mark.spec("MON-077", "MON-133")
@BLOCKS
def test_a_held_set_is_written_again(block: int) -> None:
    table = Table(SP3=[Verdict(drop=True, works=(GO_ON,))])
    script = {"say": ["x", F, "<tool_call>", "{no", "</tool_call>"], "then": [["y", G]], "block": block}
    _, seq, deltas = run(script, table, holds=True)
    assert told(deltas) == ("xy", [(0, "c1", "g", "{}")])
    asked = [seen.held for point, seen in zip(table.points, table.seen, strict=True) if point == "SP3"]
    assert [[held.why for held in each] for each in asked] == [[None, "bad json"], [None]]
    assert finish_of(deltas).reason == "tool_calls"
    assert finish_of(deltas).usage.completion == len(seq.output) - len(GO_ON.ids)


@pytest.mark.spec("MON-078", "API-119")
@BLOCKS
def test_an_end_at_the_only_call_counts_as_the_models_own(block: int) -> None:
    table = Table(SP3=[Verdict(drop=True, works=(GO_ON,))])
    script = {"say": ["x", F, G], "then": [[G, F]], "block": block}
    _, _, deltas = run(script, table, holds=True, single_call=True)
    assert told(deltas) == ("x", [(0, "c1", "g", "{}")])
    assert [seen.ended for seen in table.seen] == [None] * len(table.seen)
    assert "SP2" not in table.points


@pytest.mark.spec("MON-076", "MON-144")
def test_a_question_at_the_calls_keeps_them_until_it_is_answered() -> None:
    def repaired(seen: Seen) -> Verdict:
        return Verdict(release=tuple(replace(each, arguments='{"x":1}') for each in seen.held))

    for answer, arguments in ((NOTHING, "{}"), (repaired, '{"x":1}')):
        table = Table([answer], SP3=[Verdict(works=(QUESTION,))])
        _, _, deltas = run({"say": [F]}, table, holds=True)
        assert told(deltas) == ("", [(0, "c0", "f", arguments)])
        assert counts(finish_of(deltas))[0] == "tool_calls"


@pytest.mark.spec("MON-033", "MON-078", "MON-159")
@pytest.mark.parametrize(("options", "ended"), [({}, None), ({"limit": 2}, "length"), ({"stops": ("STOP",)}, "stop")])
def test_giving_up_releases_no_held_call(options: dict[str, Any], ended: str | None) -> None:
    table = Table(SP3=[Verdict(end=STOPPED)])
    _, _, deltas = run({"say": ["x", F, "STOP"] if ended else ["x", F]}, table, holds=True, **options)
    assert told(deltas) == ("x\n\n" + STOPPED.sentence, [])
    finish = finish_of(deltas)
    assert (finish.reason, finish.detail) == ("length" if ended == "length" else "stop", "guard")
    assert table.seen[-1].ended == ended


@pytest.mark.spec("MON-078")
def test_no_work_follows_an_end_that_the_model_did_not_choose() -> None:
    table = Table(SP3=[Verdict(works=(GO_ON,))])
    engine, _, deltas = run({"say": ["x", F, "y"]}, table, holds=True, limit=2)
    assert told(deltas) == ("x", [(0, "c0", "f", "{}")])
    assert finish_of(deltas).reason == "length"
    assert not any(call.verb == "force" for call in engine.calls)


@pytest.mark.spec("MON-033")
@pytest.mark.parametrize(("reason", "calls"), [("timeout", 1), ("error", 0), ("abandoned", 0)])
def test_what_is_held_when_it_is_stopped(reason: Any, calls: int) -> None:
    engine = FakeEngine()
    table = Table()
    generation = supervised(engine, {"say": ["x", F, "y"]}, table, holds=True)
    seq = engine.open(generation.prompt)
    generation.start(0.0)
    while generation.completion_tokens < 2:
        work = generation.next()
        assert not isinstance(work, Ended)
        generation.feed(perform(engine, seq, work, generation.rules), 0.0)
    generation.stop(reason, 1.0)
    deltas = generation.take_deltas()
    assert len(told(deltas)[1]) == calls
    assert finish_of(deltas).reason == reason
    assert ("SP3" in table.points) == bool(calls)


# --- caps and room


@pytest.mark.spec("MON-038", "ENG-097")
@BLOCKS
@pytest.mark.parametrize("visible", [True, False])
def test_a_cap_tells_the_supervisor_why_it_closed(block: int, visible: bool) -> None:
    engine = FakeEngine()
    closer = closing_ids(engine.text)
    table = Table()
    cap = ReasoningCap(3, closer, visible, "D2")
    _, _, deltas = run({"say": "<think>a b c d e</think>f", "block": block}, table, cap=cap)
    [close] = table.closes
    assert (close.tokens, close.why, close.hidden) == (3, "D2", 0 if visible else len(closer))
    assert (close.seen.written, close.seen.reasoning_tokens) == (3, 3)
    assert text_of(deltas).strip() == "f"


@pytest.mark.spec("MON-045")
def test_a_close_and_a_cap_at_one_border_close_once() -> None:
    table = Table(SP1=[NOTHING, NOTHING, Verdict(works=(CLOSE,))])
    engine, _, deltas = run({"say": "<think>a b c d e</think>f"}, table, cap=3)
    assert table.closes == []
    assert [call.args["tokens"] for call in engine.calls if call.verb == "force"] == [len(CLOSE.ids)]
    assert text_of(deltas) == "f"


@pytest.mark.spec("MON-133", "ENG-040")
def test_hidden_tokens_take_their_rows_from_the_limit_where_the_window_has_no_others() -> None:
    engine = FakeEngine()
    script = {"say": ["a"], "then": [[" b", " c", " d", " e"]]}
    rows = len(supervised(engine, script, None).prompt.ids)
    for room, said in ((20, "a b c d e"), (6, "a b c"), (4, "a")):
        table = Table(SP2=[Verdict(works=(GO_ON,))])
        limit = min(room, 10)
        _, _, deltas = run(script, table, window=rows + room, limit=limit)
        at_end = next(seen for point, seen in zip(table.points, table.seen, strict=True) if point == "SP2")
        assert (at_end.position, at_end.room) == (rows + 1, room - 1)
        assert text_of(deltas) == said
        assert finish_of(deltas).reason == ("stop" if room == 20 else "length")


@pytest.mark.spec("MON-038", "ENG-097", "ENG-043")
@BLOCKS
def test_a_cap_whose_hidden_closer_has_no_rows_closes_nothing(block: int) -> None:
    """A window that replayed tokens have made smaller ends the answer, as any does, and no fault comes of it."""
    script = {"say": "<think>a b c d e</think>f", "block": block}
    rows = len(supervised(FakeEngine(), script, None).prompt.ids)
    closer = closing_ids(FakeEngine().text)
    for room in (4, 3 + len(closer)):
        table = Table()
        _, _, deltas = run(script, table, cap=ReasoningCap(3, closer, visible=False), window=rows + room, limit=room)
        assert table.closes == []
        assert finish_of(deltas).reason == ("length" if room == 4 else "stop")
    _, _, deltas = run(script, None, cap=ReasoningCap(3, closer, visible=False), window=rows + 4 + len(closer))
    assert (reasoning_of(deltas), finish_of(deltas).reason) == ("a b", "length")


@pytest.mark.spec("MON-078", "API-119")
def test_what_the_limit_leaves_is_seen() -> None:
    for limit, left in ((2, 0), (5, 3)):
        table = Table()
        run({"say": ["x", F, G]}, table, holds=True, single_call=True, limit=limit)
        assert (table.points[-1], table.seen[-1].left) == ("SP3", left)
