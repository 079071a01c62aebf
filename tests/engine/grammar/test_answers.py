"""Constrained answers of the fake engine, from the prompt to the deltas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import pytest

from tandem.engine.decoding.generation import Generation
from tandem.engine.fake import FakeEngine
from tandem.engine.grammar.constraints import Calls, CallsOrDocument, Constraint, JsonObject, JsonSchema
from tandem.engine.grammar.grammars import Grammars
from tandem.engine.grammar.masks import BranchMask
from tandem.engine.text.model import Conversation
from tandem.engine.text.reading.calls import xml_calls
from tandem.engine.text.reading.deltas import CallArguments, CallStart
from tandem.engine.text.reading.reader import AnswerReader
from tandem.engine.verbs import SamplingRules
from tests.embedded import embedded_checkpoint
from tests.engine.decoding.driving import drive, finish_of, reasoning_of, text_of

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
NOW = {"type": "function", "function": {"name": "now"}}
DEGREES = {"type": "object", "properties": {"t": {"type": "integer"}}, "required": ["t"], "additionalProperties": False}
CALL = "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>"
CALLED = [("get_weather", '{"city":"Rome"}')]
DOCUMENT = JsonSchema(DEGREES, "response_format")
REQUIRED = Calls([WEATHER, NOW], None, 16)
EITHER = CallsOrDocument(REQUIRED, DOCUMENT)


@dataclass
class Answer:
    reasoning: str
    content: str
    calls: list[tuple[str, str]]
    reason: str
    branch: str | None


def answer(
    say: str | Sequence[str], constraint: Constraint, *, block: int = 1, thinks: bool = True, limit: int = 200
) -> Answer:
    """What comes of a script under a constraint."""
    engine = FakeEngine()
    content = f"hello @fake {json.dumps({'say': say, 'block': block})}"
    kwargs = {} if thinks else {"enable_thinking": False}
    messages = [{"role": "user", "content": content}]
    prompt = engine.text.render(Conversation(messages=messages, template_kwargs=kwargs))
    mask = Grammars(engine.text).compile(constraint).mask(prompt.thinking)
    numbers = count()
    codec = xml_calls([WEATHER, NOW], live=True, new_id=lambda: f"call-{next(numbers)}")
    generation = Generation(
        prompt,
        SamplingRules(mask=mask),
        limit=limit,
        reader=AnswerReader(engine.text, thinking=prompt.thinking, calls=codec),
        end_ids=engine.text.end_ids,
        grid=engine.card.anchor_grid,
        arrived_at=0.0,
    )
    deltas = drive(engine, engine.open(prompt), generation)
    calls: list[tuple[str, str]] = []
    for delta in deltas:
        if isinstance(delta, CallStart):
            calls.append((delta.name, ""))
        elif isinstance(delta, CallArguments):
            calls[-1] = (calls[-1][0], calls[-1][1] + delta.text)
    branch = mask.branch if isinstance(mask, BranchMask) else None
    return Answer(reasoning_of(deltas), text_of(deltas), calls, finish_of(deltas).reason, branch)


BLOCKS = pytest.mark.parametrize("block", [1, 3, 32])


@BLOCKS
@pytest.mark.parametrize("thinks", [True, False])
@pytest.mark.spec("API-117", "ENG-090")
def test_a_model_that_would_write_prose_has_to_call(block: int, thinks: bool) -> None:
    """Case F-01."""
    got = answer("Hello, how are you?", Calls([NOW], None, 16), block=block, thinks=thinks)
    assert (got.content, got.calls, got.reason) == ("", [("now", "{}")], "tool_calls")


@BLOCKS
@pytest.mark.parametrize("before", ["Let me see.</think>\n\n", "<think>Let me see.</think>\n\n"])
@pytest.mark.spec("API-117", "ENG-087")
def test_a_forced_call_comes_behind_free_reasoning(block: int, before: str) -> None:
    """Case F-02."""
    got = answer(before + CALL, REQUIRED, block=block)
    assert (got.reasoning, got.content, got.calls, got.reason) == ("Let me see.", "", CALLED, "tool_calls")


@BLOCKS
@pytest.mark.spec("ENG-091", "API-132", "API-133", "API-134")
def test_calls_or_the_document_as_the_model_begins(block: int) -> None:
    """Case G-01: the same settings call in one turn and answer in the next."""
    for before in ("", "<think>so</think>\n\n", "so</think>\n\n"):
        called = answer(before + CALL, EITHER, block=block)
        assert (called.content, called.calls, called.reason, called.branch) == ("", CALLED, "tool_calls", "calls")
        document = answer(before + '{"t": 21}', EITHER, block=block)
        assert (document.content, document.calls, document.reason) == ('{"t": 21}', [], "stop")
        assert document.branch == "document"
        assert called.reasoning == document.reasoning == ("so" if before else "")


@BLOCKS
@pytest.mark.parametrize("before", ["", "so</think>\n\n", "\n"])
@pytest.mark.spec("ENG-091", "API-132", "API-133")
def test_a_model_that_begins_a_code_fence_ends_in_the_document(block: int, before: str) -> None:
    got = answer([*before, "```", "json", "\n", "{", '"t"', ":", "21", "}"], EITHER, block=block)
    assert (got.branch, got.calls) == ("document", [])
    assert set(json.loads(got.content)) == {"t"}


@BLOCKS
@pytest.mark.parametrize(
    "closer", [["</think>", "{{"], ["</think>{", "{"], ["</", "think", ">{", "{"], ["</think>", "\n\n", "{{"]]
)
@pytest.mark.spec("ENG-086", "ENG-087", "API-127")
def test_a_block_of_speculation_over_the_closer(block: int, closer: list[str]) -> None:
    """Case G-02: of the two braces one is the document's."""
    got = answer(["so", *closer, '"t"', ":", "21", "}", "}"], DOCUMENT, block=block)
    assert got.reasoning.startswith("so")
    assert got.reason == "stop"
    assert set(json.loads(got.content)) == {"t"}


@pytest.mark.parametrize("say", [["so", "</think>", "{", '"t"', ":", "5", "}"], ["{", '"t"', ":", "5", "}"]])
@pytest.mark.parametrize("constraint", [DOCUMENT, JsonObject(), EITHER], ids=["schema", "object", "either"])
@pytest.mark.spec("ENG-086", "API-127")
def test_speculation_changes_nothing(say: list[str], constraint: Constraint) -> None:
    plain = answer(say, constraint)
    assert json.loads(plain.content) == {"t": 5}
    assert all(answer(say, constraint, block=block) == plain for block in (2, 3, 4, 5, 8, 32))


@BLOCKS
@pytest.mark.spec("ENG-087", "API-126")
def test_reasoning_is_free_and_the_document_follows_it(block: int) -> None:
    """Case G-04."""
    got = answer('I think: {"x"] </tool_call> ```</think>\n\n{"t": 7}', DOCUMENT, block=block)
    assert got.reasoning == 'I think: {"x"] </tool_call> ```'
    assert (got.content, got.reason) == ('{"t": 7}', "stop")


@BLOCKS
@pytest.mark.spec("ENG-087", "API-126")
def test_with_thinking_off_the_document_starts_at_once(block: int) -> None:
    """Case G-05."""
    got = answer('Sure: {"t": 7}', DOCUMENT, block=block, thinks=False)
    assert set(json.loads(got.content)) == {"t"}
    assert (got.reasoning, got.reason) == ("", "stop")
    plain = answer('{"t": 7}', DOCUMENT, block=block, thinks=False)
    assert (plain.content, plain.reason) == ('{"t": 7}', "stop")


@pytest.mark.spec("API-119")
def test_no_more_calls_than_the_limit() -> None:
    got = answer("\n".join([CALL] * 5), Calls([WEATHER], None, 2))
    assert (got.calls, got.reason, got.content) == (CALLED * 2, "tool_calls", "")


@pytest.mark.spec("ENG-088", "API-126")
def test_a_document_cut_by_the_limit_is_what_there_is_of_it() -> None:
    got = answer('{"t": 123456', DOCUMENT, thinks=False, limit=4)
    assert got.reason == "length"
    assert '{"t": 123456}'.startswith(got.content)


@pytest.mark.spec("ENG-084", "ENG-087", "API-127")
def test_over_a_real_vocabulary_bits_and_allows_are_one() -> None:
    text = embedded_checkpoint().text
    grammars = Grammars(text)
    script = text.encode("So it is.</think>\n\n") + text.encode('{"t": 21}')
    for constraint in (DOCUMENT, CallsOrDocument(REQUIRED, DOCUMENT)):
        mask = grammars.compile(constraint).mask("open")
        for at, token in enumerate(script):
            bits = mask.bits(script[:at], token)
            assert mask.allows(script[:at], token)
            if bits is not None:
                assert bits[token // 8] >> token % 8 & 1
                assert all(mask.allows(script[:at], i) == bits[i // 8] >> i % 8 & 1 for i in range(at, 49_000, 97))
        mask.commit(script)
        [end] = [i for i in range(text.vocab_size) if mask.allows((), i)]
        assert end in text.end_ids
