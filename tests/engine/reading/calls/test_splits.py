"""Every split of an answer gives the same calls and text, live or whole, and both are the same calls."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.reading.calls.reading import (
    Make,
    block,
    cuts,
    hear,
    pythonic_calls,
    split_at,
    texts_with_tags,
    tool,
    xml_calls,
)

TOOLS = [tool("f", s="string", n="integer", u={"type": ["integer", "string"]})]
CODECS = pytest.mark.parametrize("make", [xml_calls, pythonic_calls])
MODES = pytest.mark.parametrize("live", [True, False])

XML = [
    "plain <b>text</b>\n ",
    f"Hi.\n\n{block('f', s='a', n='07')}\n",
    "<function=f>\n<parameter=s>\nx</parameter>\n</function>\n</tool_call> so",
    "<tool_call><function=f><parameter=n>1<parameter=s>a\n</function></tool_call>",
    '<tool_call>\n<function=f>\n<parameter=s>\n"</parameter>"\r\n</parameter>\n</tool_call>',
    '<tool_call>{"arguments": {"s": "\\u00e9\\n", "n": "4"}, "name": "f"}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"s": "</tool_call>", "n": [1]}}\n</tool_call> .',
    "<tool_call> no\n</tool_call>\n<tool_call><function=f></tool_call>",
    "see `<tool_call>` and <function=f>\n",
    "<tool_call>\n<function=f>\n<parameter=u>\n42\n</parameter>\n<function=g>\n</function>\n",
]
PYTHONIC = [
    "[f(s='a', n=1), g()]\n",
    "[f](http://x) <b>",
    "ok <|tool_call_start|>[f(n='2')]<|tool_call_end|>\n <|tool_call_start|>[1]<|tool_call_end|>",
]


@pytest.mark.spec("ENG-184", "ENG-190")
@MODES
@pytest.mark.parametrize(
    ("make", "text"), [(xml_calls, each) for each in XML] + [(pythonic_calls, each) for each in PYTHONIC]
)
def test_every_two_cuts_give_the_same_output(make: Make, text: str, live: bool) -> None:
    whole = hear(make, TOOLS, text, live=live)
    for pieces in cuts(text):
        assert hear(make, TOOLS, *pieces, live=live) == whole, pieces


@pytest.mark.spec("ENG-184", "ENG-190")
@CODECS
@MODES
@given(parts=texts_with_tags(), borders=st.lists(st.integers(0, 120), max_size=6))
def test_any_split_of_any_text_gives_the_same_output(
    make: Make, live: bool, parts: list[str], borders: list[int]
) -> None:
    text = "".join(parts)
    whole = hear(make, TOOLS, text, live=live)
    assert hear(make, TOOLS, *parts, live=live) == whole
    assert hear(make, TOOLS, *text, live=live) == whole
    assert hear(make, TOOLS, *split_at(text, *borders), live=live) == whole


@pytest.mark.spec("API-111", "ENG-190")
@CODECS
@given(parts=texts_with_tags())
def test_a_finished_call_has_the_same_arguments_in_both_modes(make: Make, parts: list[str]) -> None:
    live = hear(make, TOOLS, *parts, live=True)
    whole = hear(make, TOOLS, *parts, live=False)
    assert live.complete == whole.complete


@CODECS
@given(parts=texts_with_tags())
def test_text_without_a_call_is_handed_on_unchanged(make: Make, parts: list[str]) -> None:
    heard = hear(make, TOOLS, *parts, live=False)
    if not heard.calls:
        assert heard.text == "".join(parts)


TAG = re.compile(r"</?(parameter|function|tool_call)\b")
VALUES = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: not TAG.search(text))


@pytest.mark.spec("API-106", "API-111", "ENG-190")
@MODES
@given(values=st.dictionaries(st.sampled_from(["s", "k", "text"]), VALUES))
def test_string_values_come_back_byte_for_byte(live: bool, values: dict[str, str]) -> None:
    heard = hear(xml_calls, [], *f"So:\n{block('f', **values)}", live=live)
    assert [call.values for call in heard.calls] == [values]
    assert heard.text == "So:"


# Tags of the form, none where it would end the value.
LINES = st.sampled_from(["x = 1", "  </parameter>", 'y("</parameter>")', "<div>", "</b>", "", "  ",
                         "\t# <parameter=x>.", "a < b", "'</tool_call>'",
                         "re('<function=(.*)>')", "{'a': 1}", "\r"])  # fmt: skip


@pytest.mark.spec("API-106")
@MODES
@given(lines=st.lists(LINES, min_size=1, max_size=8))
def test_source_code_that_holds_the_tags_comes_back_byte_for_byte(live: bool, lines: list[str]) -> None:
    code = "\n".join(lines) + "\nend"
    heard = hear(xml_calls, TOOLS, block("f", s=code, n="3"), live=live)
    assert [call.values for call in heard.calls] == [{"s": code, "n": 3}]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.spec("API-108", "API-111")
@MODES
@given(
    arguments=st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=4),
    indent=st.sampled_from([None, 1]),
    is_ascii=st.booleans(),
    name_last=st.booleans(),
    is_string=st.booleans(),
)
def test_the_json_form_comes_back(
    live: bool, arguments: dict[str, object], indent: int | None, is_ascii: bool, name_last: bool, is_string: bool
) -> None:
    inner: object = json.dumps(arguments) if is_string else arguments
    members = [("name", "g"), ("arguments", inner)]
    call = dict(reversed(members) if name_last else members)
    text = f"<tool_call>\n{json.dumps(call, indent=indent, ensure_ascii=is_ascii)}\n</tool_call>"
    heard = hear(xml_calls, TOOLS, *text, live=live)
    assert [(each.name, each.values) for each in heard.calls] == [("g", arguments)]
    assert heard.text == ""


@pytest.mark.spec("API-105")
@given(
    arguments=st.dictionaries(st.sampled_from("abcd"), JSON_VALUES, max_size=4),
    name=st.sampled_from(["f", "a.b"]),
)
def test_a_pythonic_list_comes_back(arguments: dict[str, object], name: str) -> None:
    written = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    heard = hear(pythonic_calls, TOOLS, *f"[{name}({written})]")
    assert [(each.name, each.values) for each in heard.calls] == [(name, arguments)]
