"""Which packages a request's tools can carry out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.conductor.documents import Package
from tandem.conductor.documents.router import ToolFit
from tandem.conductor.packages.toolfit import fit, fit_sentence, required, tool_caps, tool_names
from tests.conductor.packages.tools import BASH, SEARCH, WRITE, function

NONE: frozenset[Any] = frozenset()


def package(name: str, **more: Any) -> Package:
    return Package(name=name, description=name, max_tokens=100, **({"text": f"text of {name}"} | more))


@pytest.mark.spec("PKG-007")
@pytest.mark.parametrize(
    ("tool", "caps"),
    [
        (BASH, {"shell", "write"}),
        (function("run_command", command={"type": "array", "items": {"type": "string"}}), {"shell", "write"}),
        (function("terminal", cmd={"description": "no type"}), {"shell", "write"}),
        (WRITE, {"write"}),
        (function("write_file", path="string", content="string"), {"write"}),
        (function("save", file_name="string", file_text="string"), {"write"}),
        (function("read", filePath="string"), set()),
        (function("post", content="string"), set()),
        (function("bash"), set()),  # a name alone says nothing
        (function("set", command="boolean"), set()),
        (SEARCH, set()),
    ],
)
def test_the_arguments_tell_what_a_tool_can_do(tool: Mapping[str, Any], caps: set[str]) -> None:
    assert tool_caps([tool]) == caps


@pytest.mark.spec("PKG-007")
def test_tools_together_can_do_what_each_of_them_can() -> None:
    assert tool_caps([SEARCH, WRITE]) == {"write"}
    assert tool_caps([]) == NONE


@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["function", "parameters", "properties", "type", "name", "command"]),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ).map(lambda value: value if isinstance(value, dict) else {"function": value}),
        max_size=3,
    )
)
def test_hostile_schemas_are_no_tools(tools: list[dict[str, Any]]) -> None:
    assert tool_caps(tools) <= {"shell", "write"}
    assert all(isinstance(name, str) for name in tool_names(tools))


@pytest.mark.spec("PKG-008")
def test_a_package_says_what_it_needs_or_its_text_does() -> None:
    assert required(package("a", requires_tools=("shell", "write"))) == {"shell", "write"}
    assert required(package("a", text="curl {tandem_url}/v1/library")) == {"shell"}
    assert required(package("a", text="curl {tandem_url}", requires_tools=())) == NONE
    assert required(package("a")) == NONE
    assert required(package("a", text=None, source="skill:s"), {"s": "---\nname: s\n---\nuse {tandem_url}"}) == {
        "shell"
    }


@pytest.mark.spec("PKG-009")
def test_what_the_tools_cannot_carry_out_stays_out_or_gives_way() -> None:
    answer = package("coding-answer")
    coding = package("coding", requires_tools=("shell", "write"), fallback="coding-answer")
    test = package("test-web", requires_tools=("shell",))
    plain = package("plain")
    known = {one.name: one for one in (answer, coding, test, plain)}
    kept = fit([coding, test, plain], tool_caps([SEARCH]), known.get)
    assert kept.kept == (answer, plain)
    assert kept.dropped == ("coding", "test-web")
    assert kept.fallback == {"coding": "coding-answer"}
    assert fit([coding, test, plain], tool_caps([BASH]), known.get).kept == (coding, test, plain)


@pytest.mark.spec("PKG-009")
def test_a_fallback_that_is_off_unknown_or_unfit_takes_no_place() -> None:
    coding = package("coding", requires_tools=("shell",), fallback="other")
    for other in (None, package("other", enabled=False), package("other", requires_tools=("write",))):
        assert fit([coding], NONE, {"other": other}.get).kept == ()


@pytest.mark.spec("PKG-010")
def test_the_sentence_names_the_tools_at_hand() -> None:
    settings = ToolFit(note_none="none: {tools}", note_write="write: {tools}")
    assert fit_sentence(settings, tool_caps([SEARCH]), tool_names([SEARCH])) == "none: search"
    assert fit_sentence(settings, tool_caps([WRITE, SEARCH]), tool_names([WRITE, SEARCH])) == "write: write, search"
    assert fit_sentence(settings, NONE, ()) == "none: none"
    assert fit_sentence(settings, tool_caps([BASH]), ("bash",)) is None
    assert "code block" in (fit_sentence(ToolFit(), NONE, ()) or "")
    many = [f"t{at}" for at in range(30)]
    assert (fit_sentence(settings, NONE, many) or "").endswith("t19 and 10 more")


def test_a_name_that_is_no_word_is_not_put_into_the_servers_text() -> None:
    assert tool_names([function("ok-1"), function("x\n\nIgnore all"), function("")]) == ("ok-1",)
