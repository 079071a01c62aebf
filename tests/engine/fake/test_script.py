from __future__ import annotations

import json
from typing import Any

import pytest

from tandem.engine.errors import BadInput
from tandem.engine.fake.script import FIXED_SENTENCE, SIDE_ANSWER, Script, find_script, parse_script
from tandem.engine.fake.vocabulary import THINK, THINK_END, TOOL_CALL, TOOL_CALL_END


def said(script: Script) -> list[str]:
    return [
        b"".join(piece for piece in say if isinstance(piece, bytes)).decode("utf-8", "replace") for say in script.says
    ]


def user(script: dict[str, Any] | str) -> dict[str, Any]:
    text = script if isinstance(script, str) else f"@fake {json.dumps(script)}"
    return {"role": "user", "content": text}


def assistant(content: str = "x") -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def test_a_string_is_cut_into_words_and_a_list_is_one_item_a_token() -> None:
    words = parse_script('@fake {"say": "Hello big world, 42!\\n"}', "p")
    assert words.says == ((b"Hello", b" big", b" world", b",", b" ", b"4", b"2", b"!", b"\n"),)
    items = parse_script('@fake {"say": ["a E", "N", {"bytes": "f09f"}]}', "p")
    assert items.says == ((b"a E", b"N", b"\xf0\x9f"),)


@pytest.mark.spec("ENG-170")
def test_a_marker_in_a_string_or_as_an_item_is_its_token_and_part_of_an_item_it_is_text() -> None:
    words = parse_script('@fake {"say": "<think>a</think><tool_call></tool_call><tool_response>"}', "p")
    rest = (b"<", b"tool", b"_", b"response", b">")
    assert words.says == ((THINK, b"a", THINK_END, TOOL_CALL, TOOL_CALL_END, *rest),)
    items = parse_script('@fake {"say": ["<think>", "<th", "ink>", "a</think>"], "then": ["</think>"]}', "p")
    assert items.says == ((THINK, b"<th", b"ink>", b"a</think>"), (THINK_END,))


@pytest.mark.spec("ENG-170")
def test_every_field_arrives() -> None:
    fields = {
        "say": "a",
        "then": ["b", ["c"]],
        "loop": True,
        "eos": False,
        "token_ms": 1.5,
        "prefill_ms_per_token": 2,
        "block": 4,
        "fail_at": 7,
    }
    script = parse_script(f"please @fake {json.dumps(fields)} and thank you", "p")
    assert script == Script(
        says=((b"a",), (b"b",), (b"c",)),
        loop=True,
        eos=False,
        token_ms=1.5,
        prefill_ms_per_token=2.0,
        block=4,
        fail_at=7,
    )


@pytest.mark.parametrize("text", ["", "hello", "@fake", "@fake me", "fake {}", "a {} @fake"])
def test_a_text_without_a_script_says_the_fixed_sentence(text: str) -> None:
    assert said(parse_script(text, "p")) == [FIXED_SENTENCE]


def test_a_script_without_say_says_the_fixed_sentence() -> None:
    assert said(parse_script('@fake {"block": 2}', "p")) == [FIXED_SENTENCE]


@pytest.mark.parametrize(
    ("script", "field"),
    [
        ("{", "JSON"),
        ("{'say': 1}", "JSON"),
        ('{"say": "a"', "JSON"),
        ('{"token_ms": NaN}', "NaN"),
        ('{"token_ms": 1e999}', "token_ms"),
        ('{"token_ms": -1}', "token_ms"),
        ('{"token_ms": true}', "token_ms"),
        (f'{{"token_ms": {"9" * 400}}}', "token_ms"),
        ('{"say": 3}', "say"),
        ('{"say": ["a", 3]}', "say[1]"),
        ('{"say": ["a", ""]}', "say[1]"),
        ('{"say": [{"bytes": "f0", "x": 1}]}', "say[0]"),
        ('{"say": [{"bytes": "f"}]}', "say[0].bytes"),
        ('{"say": [{"bytes": "é0"}]}', "say[0].bytes"),
        ('{"say": [{"bytes": ""}]}', "say[0]"),
        ('{"then": "a"}', "then"),
        ('{"then": [["a", {"bytes": "zz"}]]}', "then[0][1].bytes"),
        ('{"turns": [{"say": "a"}, {"block": 0}]}', "turns[1].block"),
        ('{"turns": [{"say": [""]}]}', "turns[0].say[0]"),
        ('{"turns": [{"turns": []}]}', "turns"),
        ('{"block": 1.5}', "block"),
        ('{"block": 0}', "block"),
        ('{"fail_at": -1}', "fail_at"),
        ('{"eos": "no"}', "eos"),
        ('{"loop": true, "say": ""}', "loop"),
        ('{"sya": "a"}', "sya"),
        (f'{{"say": {"[" * 100_000}', ""),
        (f'{{"fail_at": {"9" * 5000}}}', ""),
    ],
)
def test_a_malformed_script_is_refused_with_the_field_and_the_message_path(script: str, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        find_script([user("first"), assistant(), user(f"@fake {script}")], [])
    assert refused.value.param == "messages[2].content"
    assert field in str(refused.value)
    assert "@fake" in str(refused.value)


@pytest.mark.spec("ENG-187")
def test_the_newest_user_message_alone_is_read() -> None:
    messages = [
        {"role": "system", "content": '@fake {"say": "system"}'},
        user({"say": "old"}),
        assistant('@fake {"say": "assistant"}'),
        user({"say": "new"}),
    ]
    assert said(find_script(messages, [])) == ["new"]
    assert said(find_script([*messages, user("plain")], [])) == [FIXED_SENTENCE]
    late = {"role": "system", "content": '@fake {"say": "late system"}'}
    result = {"role": "tool", "content": '@fake {"say": "tool"}', "tool_call_id": "1"}
    assert said(find_script([*messages, late, result], [])) == ["new"]


@pytest.mark.spec("ENG-187")
def test_the_turn_is_the_number_of_assistant_messages_behind_it() -> None:
    messages = [user({"say": "0", "turns": [{"say": "1"}, {"say": "2", "block": 2}]})]
    said_by_turn = []
    for _ in range(4):
        said_by_turn += said(find_script(messages, []))
        messages += [assistant(), {"role": "tool", "content": "r", "tool_call_id": "1"}]
    assert said_by_turn == ["0", "1", "2", FIXED_SENTENCE]


def test_without_a_user_message_the_fixed_sentence_comes() -> None:
    assert said(find_script([{"role": "system", "content": '@fake {"say": "a"}'}], [])) == [FIXED_SENTENCE]
    assert said(find_script([], [])) == [FIXED_SENTENCE]


TITLE = "You are a title  generator.\nYou output ONLY a thread title. Nothing else. More."


@pytest.mark.spec("ENG-187")
@pytest.mark.parametrize(
    ("messages", "tools", "is_side"),
    [
        ([{"role": "system", "content": TITLE}, user({"say": "a"})], [], True),
        ([{"role": "system", "content": TITLE}, user("@fake {")], [], True),
        ([{"role": "system", "content": TITLE}, user({"say": "a"})], [{}], False),
        ([user({"say": "a"}), {"role": "system", "content": TITLE}], [], False),
        ([user('### Task:\nGenerate a concise title for\n@fake {"say": "a"}')], [], True),
        ([user('### Task:\nSuggest 3-5 relevant follow-up questions @fake {"say": "a"}')], [], True),
        ([user("### Task: Generate 1-3 broad tags"), assistant(), user({"say": "a"})], [], False),
        ([user('### Task: Write code @fake {"say": "a"}')], [], False),
    ],
)
def test_a_side_request_is_answered_with_a_title(messages: list[Any], tools: list[Any], is_side: bool) -> None:
    assert said(find_script(messages, tools)) == [SIDE_ANSWER if is_side else "a"]
