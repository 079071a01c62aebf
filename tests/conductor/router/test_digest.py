"""What a stage reads of a message, and the line about what went before."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from tandem.conductor.router.digest import CUT, context_line, digest, newest_user_text
from tandem.conductor.router.history import checker_in, extensions, newest_checker, newest_round, newest_tools
from tandem.conductor.sessions import SessionView

USER = {"role": "user", "content": "make it so"}
DAY = datetime.date(2026, 1, 2)


def called(*calls: tuple[str, str]) -> dict[str, Any]:
    made = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": "", "tool_calls": made}


def result(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "call_0", "content": text}


@pytest.mark.spec("RTR-012")
def test_a_long_message_keeps_a_quarter_of_its_head_and_the_rest_of_its_tail() -> None:
    text = "h" * 5_000 + "t" * 5_000
    read = digest(text, 2_000)
    assert len(read) == 2_000
    head, tail = read.split(CUT)
    assert head == "h" * 500
    assert tail == "t" * (1_500 - len(CUT))


@pytest.mark.spec("RTR-012")
def test_what_fits_is_read_whole() -> None:
    assert digest("short", 2_000) == "short"
    assert digest("x" * 200, 200) == "x" * 200
    assert digest("", 200) == ""


@pytest.mark.spec("RTR-013")
def test_the_line_takes_its_room_from_the_tail() -> None:
    line = "class=none"
    read = digest("h" * 5_000 + "t" * 5_000, 2_000, line)
    assert len(read) == 2_000
    assert read.startswith("h" * 500 + CUT + "t")
    assert read.endswith("t\n" + line)
    assert digest("short", 2_000, line) == "short\nclass=none"
    assert digest("x" * 4, 2, "").startswith(CUT), "no size is too small to be served"


@pytest.mark.spec("RTR-013")
def test_the_line_names_no_path_file_or_text_of_one() -> None:
    history = [
        USER,
        called(("read\n<|x|>", '{"path": "/home/secret/plan.PY"}'), ("edit", '{"filePath": "a/b.py", "text": "word"}')),
        result("RESULT: PASS <- page-check: contrast"),
        called(("bash", '{"command": "ls /home/secret"}'), ("write", '{"path": "site/index.html"}')),
        result("RESULT: FAIL <- page-check: contrast, overlap\nword"),
        USER,
    ]
    session = SessionView(key="c:a", first_date=DAY, class_id="code_edit", confidence=0.914, has_been_compacted=True)
    line = context_line(history, session)
    assert line == ("class=code_edit@0.91 tools=edit,bash,write files=.py,.html checker=page-check:FAIL compaction=yes")
    assert "<" not in context_line(history[:3], session)
    assert context_line([USER], SessionView(key="c:a", first_date=DAY)) == (
        "class=none tools=none files=none checker=none compaction=no"
    )


@pytest.mark.spec("RTR-013")
def test_the_line_has_120_characters_at_most() -> None:
    calls = [called(("n" * 64, f'{{"path": "f.e{at}xtension"}}')) for at in range(9)]
    assert len(context_line([USER, *calls], SessionView(key="c:a", first_date=DAY))) == 120


def test_the_newest_user_message_is_read_past_system_messages_and_without_images() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "image", "index": 0}, {"type": "text", "text": "two"}]
    assert (
        newest_user_text([USER, {"role": "user", "content": parts}, {"role": "system", "content": "s"}]) == "one\ntwo"
    )
    assert newest_user_text([]) == ""


@pytest.mark.spec("EFF-005")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ok\nRESULT: PASS <- unit-tests", ("unit-tests", "PASS", 1)),
        ("RESULT: FAIL <- page-check: contrast, overlap, console", ("page-check", "FAIL", 3)),
        ("RESULT: FAIL <- page-check (9 gates): contrast", ("page-check", "FAIL", 9)),
        ("RESULT: PASS <- a\n  RESULT: FAIL <- b: x\nbye", ("b", "FAIL", 1)),
        ("RESULT: FAIL", None),
        ("the RESULT: FAIL <- a", None),
        ("RESULT: fail <- a", None),
        ("RESULT: FAIL <- a" + "." * 70_000, None),
        ("", None),
    ],
)
def test_a_checker_is_known_by_its_line(text: str, found: tuple[str, str, int] | None) -> None:
    checker = checker_in(result(text))
    assert (checker and (checker.name, checker.verdict, checker.gates)) == found


def test_the_newest_checker_of_all_results() -> None:
    history = [
        result("RESULT: PASS <- old"),
        called(("a", "{}")),
        result("RESULT: FAIL <- new"),
        result("nothing"),
        USER,
    ]
    found = newest_checker(history)
    assert found is not None
    assert found.name == "new"
    assert newest_checker([USER]) is None


def test_a_round_is_the_last_answer_and_what_came_of_it() -> None:
    history = [
        called(("a", "{}")),
        result("1"),
        called(("b", '{"path": "x"}'), ("c", "no json")),
        result("2"),
        result("3"),
    ]
    calls, results = newest_round(history)
    assert [call.name for call in calls] == ["b", "c"]
    assert [one["content"] for one in results] == ["2", "3"]
    assert newest_round([USER]) == ((), ())


@pytest.mark.parametrize("arguments", ["[1]", "{", "null", '{"path": 7}', '{"path": ""}', None, "[" * 50_000])
def test_arguments_of_any_kind_are_survived(arguments: Any) -> None:
    message = called(("read", arguments))
    assert extensions([message], 8) == []
    assert newest_tools([message], 3) == ["read"]
