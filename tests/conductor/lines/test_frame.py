"""A line is found again whatever a client did to its ends, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.conductor.lines.frame import MARK, SENTINEL, framed, without_lines
from tandem.conductor.lines.history import clean
from tandem.conductor.lines.templates import FINDINGS, KINDS, MEMORY_VERBS, REASONS, REMINDERS, WHERE, WHYS, say
from tandem.engine.text.reading.deltas import Line

SAID = [
    say("route", label="Code, edit", effort="xhigh"),
    say("packages", names="coding, a.b-c_d"),
    say("compaction"),
    *[say("queue", n=3, reason=why.format(gib="1.5")) for why in REASONS.values()],
    say("queue_eta", n=1, reason=REASONS["own"], eta="about 3 s"),
    say("prefill", done=2_048, tokens=61_000, eta="about 2 min"),
    say("thinking", elapsed="2 min 5 s", tokens=4_096),
    say("thought", elapsed="34 s", tokens=900),
    say("cap", n=1_024),
    *[say("loop", where=where) for where in WHERE],
    *[say("continue", why=why) for why in WHYS.values()],
    *[say("tool_check", tools="bash, edit", finding=finding) for finding in FINDINGS.values()],
    *[say("note", what=what) for what in REMINDERS.values()],
    *[say("memory", verb=verb, what="the tests run with make test: always") for verb in MEMORY_VERBS],
]
FREE = [Line("thinking", "reading the parser, line by line"), say("packages", names="no name at all!")]
lines = st.sampled_from(SAID + FREE)
model_text = st.text(st.sampled_from("ab\u203a*> \n."), max_size=12)


@pytest.mark.spec("STA-004", "STA-008", "STA-052", "API-148")
def test_every_kind_has_a_template_and_its_frame() -> None:
    assert {line.kind for line in SAID} == set(KINDS)
    for line in SAID:
        assert framed(line.text) == f"\n\u203a {line.text}\n\n"
        assert framed(line.text, title=True) == f"\n**\u203a {line.text}**\n\n"
    for line in FREE:
        assert framed(line.text) == f"\n\u203a {line.text}\u2060\n\n"
    assert SAID[0].text == "Code, edit, xhigh effort"
    assert (MARK, SENTINEL) == ("\u203a ", "\u2060")


@pytest.mark.spec("STA-010", "API-153")
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(model_text, lines, st.booleans()), max_size=4), model_text)
def test_what_was_framed_is_cut_out_to_the_letter(pieces: list[tuple[str, Line, bool]], end: str) -> None:
    written = "".join(text for text, _, _ in pieces) + end
    sent = "".join(text + framed(line.text, title=title) for text, line, title in pieces) + end
    assert without_lines(sent) == written
    trimmed = without_lines(sent.strip())
    assert trimmed.strip() == written.strip()  # what more is lost is white space at the ends, which a template drops


@pytest.mark.spec("STA-010")
@settings(max_examples=100, deadline=None)
@given(st.lists(lines, min_size=1, max_size=3), st.sampled_from(["a", "a b\n\nc", ""]), st.sampled_from(["d", ""]))
def test_parts_that_a_client_trims_and_joins(found: list[Line], before: str, behind: str) -> None:
    parts = [part for part in (before, *[framed(line.text) for line in found], behind) if part]
    joined = "\n".join(part.strip() for part in parts)
    assert "".join(without_lines(joined).split()) == "".join((before + behind).split())


@pytest.mark.spec("STA-010", "STA-012")
@pytest.mark.parametrize(
    "text",
    [
        "\u203a a line of the model's own\n\n",
        "so:\n\u203a history compacted, same task, they say\n\nmore",
        "he wrote \u203a history compacted, same task",
        "\n> history compacted, same task\n\n",
        "\n**\u203a history compacted, same task\n\n",
        "\n\u203a in line at three: another request is running\n\n",
        "\n\u203a in line at 3: the moon is full\n\n",
        "\n\u203a checked bash: it looked odd, written again\n\n",
        f"\n\u203a using {', '.join(['coding'] * 200)}\n\n",  # longer than any that is said
        f"\n\u203a {'word ' * 200}\u2060\n\n",
        "",
    ],
)
def test_what_is_no_line_survives(text: str) -> None:
    assert without_lines(text) == text


@pytest.mark.spec("STA-009", "STA-012", "API-153")
def test_the_messages_of_a_history() -> None:
    line, title = framed(SAID[0].text), framed(SAID[2].text, title=True)
    call = [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]
    messages = (
        {"role": "user", "content": line},
        {"role": "assistant", "content": f"{line}yes", "reasoning_content": f"why{title}", "reasoning": line},
        {"role": "assistant", "content": line, "reasoning_content": line, "tool_calls": call},
        {"role": "assistant", "content": "plain"},
        {"role": "assistant", "content": [{"type": "image", "index": 0}]},
        {"role": "assistant", "content": f"{line}yes", "reasoning_content": "\n"},
    )
    cleaned, removed = clean(messages)
    assert cleaned[0] is messages[0]
    assert cleaned[1] == {"role": "assistant", "content": "yes", "reasoning_content": "why"}
    assert cleaned[2] == {"role": "assistant", "content": "", "tool_calls": call}
    assert cleaned[3] is messages[3]
    assert cleaned[4] is messages[4]
    assert cleaned[5] == {"role": "assistant", "content": "yes", "reasoning_content": "\n"}, "no line was in it"
    assert removed == 5 * len(line) + len(title)
