from __future__ import annotations

from typing import Any

import pytest

from tandem.engine.text.reading.calls import CallCodec, Piece, Text
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart
from tests.engine.reading.calls.reading import block, codec, hear, run, tool, xml_calls

TOOLS = [tool("read", path="string", offset="integer"), tool("edit", oldString="string", all="boolean")]
MODES = pytest.mark.parametrize("live", [True, False])


def values(text: str, *, live: bool = True) -> list[tuple[str, Any]]:
    return [(call.name, call.values) for call in hear(xml_calls, TOOLS, text, live=live).calls]


def feeding(*pieces: str, live: bool = True) -> tuple[list[list[Piece]], CallCodec]:
    reader = codec(xml_calls, TOOLS, live=live)
    return [reader.feed(piece) for piece in pieces], reader


# --- the forms -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("API-106", "API-109")
@MODES
def test_strict_form(live: bool) -> None:
    assert values(block("read", path="/a b", offset="130"), live=live) == [("read", {"path": "/a b", "offset": 130})]


@pytest.mark.spec("API-106")
@MODES
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("\n\n", ""),
        ("\n", ""),
        ("", ""),
        ("\n  two\n\n", "  two\n"),
        ("\n\n\nx\n", "\n\nx"),
        ("\r\nx\r\n", "x"),
        ("\nx\r\n", "x\r"),
        (" x ", " x "),
        ("x\n", "x"),
        ("\r", "\r"),
    ],
)
def test_one_line_break_on_each_side_is_not_the_value_s(written: str, value: str, live: bool) -> None:
    text = f"<tool_call>\n<function=read>\n<parameter=path>{written}</parameter>\n</function>\n</tool_call>"
    assert values(text, live=live) == [("read", {"path": value})]


@pytest.mark.spec("API-107")
@MODES
@pytest.mark.parametrize(
    "text",
    [
        "<tool_call><function=read><parameter=path>/a</parameter><parameter=offset>1</parameter></function></tool_call>",
        "<tool_call><function=read><parameter=path>/a<parameter=offset>1</function></tool_call>",
        "<tool_call><function=read><parameter=path>/a</parameter><parameter=offset>1</tool_call>",
        "<tool_call>\n<function=read>\n<parameter=path>\n/a\n<parameter=offset>\n1\n</function>\n</tool_call>",
        "<tool_call>\n<function=read>\n<parameter=path>\n/a\n<parameter=offset>\n1\n</tool_call>",
        "<tool_call>\n<function=read>\n<parameter=path>\n/a</parameter>\n<parameter=offset>\n1</function>\n</tool_call>",
        "<tool_call>\n<function=read>\n<parameter=path>\n/a<parameter=offset>\n1</parameter></function></tool_call>",
        "<function=read>\n<parameter=path>\n/a\n</parameter>\n<parameter=offset>\n1\n</parameter>\n</function>",
        "<function=read><parameter=path>/a<parameter=offset>1</function>",
        "<function=read>\n<parameter=path>\n/a\n</parameter>\n<parameter=offset>\n1</function>",
        "<function=read>\n<parameter=path>\n/a\n</parameter>\n<parameter=offset>\n1\n</parameter>\n</tool_call>",
        "<function=read><parameter=path>/a</parameter><parameter=offset>1</parameter></function>\n</tool_call>\n",
    ],
)
def test_lenient_form_reads_like_the_strict_one(text: str, live: bool) -> None:
    heard = hear(xml_calls, TOOLS, text, live=live)
    assert [(call.name, call.values) for call in heard.calls] == [("read", {"path": "/a", "offset": 1})]
    assert heard.text == ""


@pytest.mark.spec("API-107")
@MODES
def test_prose_before_a_missing_tag_is_the_value_s(live: bool) -> None:
    # D-11
    text = "<tool_call>\n<function=read>\n<parameter=path>\n/a\nNow let me explain\n</function>\n</tool_call>"
    assert values(text, live=live) == [("read", {"path": "/a\nNow let me explain"})]


@MODES
@pytest.mark.parametrize(
    "code",
    [
        "<b>bold</b></div>",
        'if "</parameter>" in text:\n    pass',
        "x = '</tool_call>' + '</function>'",
        "say `<parameter=x>` and <parameter=x>.",
        "<config>\n  <parameter>\n    5\n  </parameter>\n</config>",
        "<p>\n  <parameter>5</parameter>\n</p>",
        "re.compile(r'<function=(.*?)>')\n<",
        "</tool_call",
        "<tool_call>",
    ],
)
def test_a_value_may_hold_tags(code: str, live: bool) -> None:
    assert values(block("edit", oldString=code, all="True"), live=live) == [("edit", {"oldString": code, "all": True})]


@MODES
def test_several_functions_in_one_pair(live: bool) -> None:
    text = (
        "<tool_call>\n<function=read>\n<parameter=path>\na\n</function>\n<function=edit>\n</function>\n</tool_call>\n"
    )
    heard = hear(xml_calls, TOOLS, text, live=live)
    assert heard.complete == [("read", '{"path":"a"}'), ("edit", "{}")]
    assert heard.text == ""


@pytest.mark.spec("API-108")
@MODES
@pytest.mark.parametrize(
    "inner",
    [
        '{"name": "read", "arguments": {"path": "/a\\n", "offset": 3}}',
        '\n{"arguments": {"path": "/a\\n", "offset": "03"}, "name": "read"}\n',
        '{"name": "read", "arguments": "{\\"path\\": \\"/a\\\\n\\", \\"offset\\": 3}"}',
        '{"id": [1, {"name": "no"}], "name": "read", "arguments": {"path": "/a\n", "offset": 3, "path": 1}, "x": 0}}',
    ],
)
def test_json_form(inner: str, live: bool) -> None:
    heard = hear(xml_calls, TOOLS, f"<tool_call>{inner}</tool_call>", live=live)
    assert [(call.name, call.values) for call in heard.calls] == [("read", {"path": "/a\n", "offset": 3})]
    assert heard.text == ""


@MODES
@pytest.mark.parametrize(
    "inner", ['{"name": "read"}', '{"name": "read", "arguments": null}', '{"arguments":{},"name":"read"}']
)
def test_json_form_without_arguments(inner: str, live: bool) -> None:
    assert values(f"<tool_call>{inner}</tool_call>", live=live) == [("read", {})]


@pytest.mark.spec("API-108")
@MODES
def test_json_without_the_pair_is_text(live: bool) -> None:
    # D-10
    text = '{"name":"read","arguments":{"path":"/"}}'
    assert run(xml_calls, TOOLS, [text], live=live)[0] == [Text(0, text)]


@pytest.mark.spec("API-109")
@MODES
def test_object_where_a_string_is_expected_stays_as_written(live: bool) -> None:
    # E-02
    assert values(block("edit", oldString='{"a": 1}'), live=live) == [("edit", {"oldString": '{"a": 1}'})]


@pytest.mark.spec("API-115", "API-109")
@MODES
def test_a_tool_that_was_not_offered_goes_out_as_written(live: bool) -> None:
    assert values(block("other", n="42", t="True"), live=live) == [("other", {"n": "42", "t": "True"})]


@MODES
def test_of_two_values_for_one_key_the_first_goes_out(live: bool) -> None:
    text = "<tool_call><function=read><parameter=path>a</parameter><parameter=path>b</parameter></function></tool_call>"
    assert hear(xml_calls, TOOLS, text, live=live).complete == [("read", '{"path":"a"}')]


# --- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("API-112")
@MODES
def test_text_around_calls(live: bool) -> None:
    text = f"\n I look.\n\n{block('read', path='a')}\n\n{block('edit')}\n\nDone. \n"
    heard = hear(xml_calls, TOOLS, text, live=live)
    assert [each if isinstance(each, tuple) else each.name for each in heard.parts] == [
        (0, "\n I look."),
        "read",
        "edit",
        (text.index("Done"), "Done. \n"),
    ]
    assert [call.id for call in heard.calls] == ["call_0", "call_1"]


@pytest.mark.spec("API-112")
@MODES
def test_white_space_behind_the_last_call_is_not_sent(live: bool) -> None:
    assert hear(xml_calls, TOOLS, block("edit") + " \n", live=live).text == ""


@MODES
@pytest.mark.parametrize(
    "text",
    [
        "a\n\n",
        " \n",
        "a < b <b> </tool_call> <",
        "<tool_call>garbage</tool_call>\n",
        "<tool_call></tool_call>",
        "<tool_call>\n<parameter=a>1</parameter></tool_call> .",
        '<tool_call>{"name": 3}</tool_call>',
        '<tool_call>{"arguments": {}, }</tool_call>',
        '<tool_call>["read"]</tool_call>',
        '<tool_call>{"a": "open\n</tool_call> more',
        "Use `<tool_call>` and then `<function=read>`, she said.",
        "<function=read>",
        "<function=read> is a tag",
        "<tool_c",
    ],
)
def test_what_is_no_call_is_text_whole_and_unchanged(text: str, live: bool) -> None:
    heard = hear(xml_calls, TOOLS, text, live=live)
    assert heard.parts == ((0, text),)


@MODES
def test_a_call_behind_a_broken_block(live: bool) -> None:
    heard = hear(xml_calls, TOOLS, f"<tool_call> no\n{block('edit')}", live=live)
    assert heard.text == "<tool_call> no"
    assert heard.complete == [("edit", "{}")]


def test_a_broken_block_goes_out_live_at_once_and_else_at_its_end() -> None:
    fed, reader = feeding("<tool_call>{no", " more", "</tool_call>")
    assert fed == [[Text(0, "<tool_call>{no")], [Text(14, " more")], [Text(19, "</tool_call>")]]
    assert not reader.inside
    fed, _ = feeding("<tool_call>{no", " more", "</tool_call>", live=False)
    assert fed == [[], [], [Text(0, "<tool_call>{no more</tool_call>", "bad json")]]


def test_white_space_waits_for_what_follows() -> None:
    fed, _ = feeding("a ", "\n", "b", "\n", "<tool_call><function=edit>")
    assert fed[:4] == [[Text(0, "a")], [], [Text(1, " \nb")], []]
    assert fed[4] == [CallStart(0, "call_0", "edit")]


# --- live ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("API-110", "API-105")
def test_a_string_goes_out_in_pieces_and_a_typed_value_whole() -> None:
    fed, reader = feeding(
        "<tool_call>\n<function=read>", "\n<parameter=path>\n", "/a", '"b\n', "c\n", "</par", "ameter>\n",
        "<parameter=offset>\n", "1", "3", "\n</parameter>", "\n</function>", "\n</tool_call>",
    )  # fmt: skip
    assert fed == [
        [CallStart(0, "call_0", "read")],
        [CallArguments(0, '{"path":"')],
        [CallArguments(0, "/a")],
        [CallArguments(0, '\\"b')],
        [CallArguments(0, "\\nc")],
        [],
        [CallArguments(0, '"')],
        [],
        [],
        [],
        [CallArguments(0, ',"offset":13')],
        [],
        [CallArguments(0, "}"), CallEnd(0)],
    ]
    assert (reader.calls, reader.inside) == (1, False)


@pytest.mark.spec("API-110")
def test_the_json_form_goes_out_in_pieces_too() -> None:
    fed, _ = feeding(
        '<tool_call>{"name": "read"', ', "arguments": {"path": "', "ab", "\\", "n", '", "offset"', ": 1", "3",
        "}", "}", "</tool_call>",
    )  # fmt: skip
    assert fed == [
        [CallStart(0, "call_0", "read")],
        [CallArguments(0, '{"path":"')],
        [CallArguments(0, "ab")],
        [],
        [CallArguments(0, "\\n")],
        [CallArguments(0, '"')],
        [],
        [],
        [CallArguments(0, ',"offset":13')],
        [],
        [CallArguments(0, "}"), CallEnd(0)],
    ]


@pytest.mark.spec("API-105")
def test_the_name_goes_out_before_arguments_that_are_written_first() -> None:
    # D-05
    fed, _ = feeding('<tool_call>{"arguments": {"path": "a"}', ', "name": "read"', "}</tool_call>")
    assert fed == [
        [],
        [CallStart(0, "call_0", "read"), CallArguments(0, '{"path":"a"')],
        [CallArguments(0, "}"), CallEnd(0)],
    ]


def test_a_union_is_held_until_it_is_complete() -> None:
    reader = codec(xml_calls, [tool("f", u={"type": ["integer", "string"]})], live=True)
    reader.feed("<tool_call>\n<function=f>\n<parameter=u>\n")
    assert reader.feed("00") == []
    assert reader.feed("7\n</parameter>\n") == [CallArguments(0, '{"u":"007"')]


@pytest.mark.spec("API-121")
@pytest.mark.parametrize("at", range(len("<tool_call>"), len(block("read", path="x", offset="1"))))
def test_a_live_block_that_is_cut_is_not_repeated_as_text(at: int) -> None:
    heard = hear(xml_calls, TOOLS, block("edit") + "\n" + block("read", path="x", offset="1")[:at], live=True)
    assert heard.text == ""
    assert heard.complete == [("edit", "{}")]
    # Nobody can run it: what closes the arguments goes out with the call's end.
    assert '{"path":"x","offset":1'.startswith("".join(call.arguments for call in heard.calls[1:]))


@pytest.mark.spec("API-120", "API-122")
@pytest.mark.parametrize("form", [block("read", path="x"), '<tool_call>{"name":"read","arguments":{}}</tool_call>'])
def test_a_held_block_that_is_cut_is_text_behind_the_closed_calls(form: str) -> None:
    for at in range(1, len(form)):
        heard = hear(xml_calls, TOOLS, "a\n" + block("edit") + "\n" + form[:at], live=False)
        assert heard.complete == [("edit", "{}")]
        assert heard.text == "a" + form[:at]
        assert hear(xml_calls, TOOLS, "a\n" + form[:at], live=False).text == "a\n" + form[:at]


@pytest.mark.spec("API-120")
def test_held_calls_go_out_whole_when_their_block_closes() -> None:
    fed, reader = feeding(
        "<tool_call><function=edit>", "</function>", "</tool_call>", "<function=edit></function>", live=False
    )
    assert fed[:2] == [[], []]
    assert fed[2] == [CallStart(0, "call_0", "edit"), CallArguments(0, "{}"), CallEnd(0)]
    assert fed[3] == [CallStart(1, "call_1", "edit"), CallArguments(1, "{}"), CallEnd(1)]
    assert reader.calls == 2


def test_inside_from_the_opening_marker_to_the_closing_one() -> None:
    for live in (True, False):
        text = "a " + block("read", path="x") + " b"
        reader = codec(xml_calls, TOOLS, live=live)
        seen = []
        for char in text:
            reader.feed(char)
            seen.append(reader.inside)
        first, last = (
            text.index("<tool_call>") + len("<tool_call>") - 1,
            text.index("</tool_call>") + len("</tool_call>") - 1,
        )
        assert [at for at, inside in enumerate(seen) if inside] == list(range(first, last))


def test_json_that_breaks_after_its_start_stays_an_open_call() -> None:
    text = '<tool_call>{"name": "read", "arguments": {"path": "a" oops}}</tool_call>\n' + block("edit")
    live = hear(xml_calls, TOOLS, text, live=True)
    assert [(call.name, call.is_complete) for call in live.calls] == [("read", False), ("edit", True)]
    assert live.text == ""
    held = hear(xml_calls, TOOLS, text, live=False)
    assert held.complete == live.complete
    assert held.text == text[: text.index("\n")]
