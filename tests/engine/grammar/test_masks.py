"""Where the languages of an answer begin, and which of two."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tandem.engine.grammar.borders import borders
from tandem.engine.grammar.masks import MOST_BLANKS, BranchMask, ConstraintMask
from tandem.engine.text.prompt import Thinking
from tandem.engine.verbs import Mask
from tests.engine.grammar.texts import END, Texts, TinyText, allowed, text_model

PIECES = (
    "{",
    "}",
    "{{",
    "a",
    "b",
    " ",
    "\n",
    "\n\n",
    "\n{",
    " {",
    "<",
    "</",
    "think",
    "th",
    "ink",
    ">",
    ">{",
    ">a",
    "> ",
)
MARKERS = ("<think>", "</think>", "<tool_call>")
TEXT = TinyText((*PIECES, "</think>", "</think>\n\n{", "<think>", "<th", "think>", "<think>a", "```"), MARKERS)
"""The markers are spelled by ordinary tokens too."""
SPELLED = TinyText([TEXT.piece(token) for token in range(1, TEXT.vocab_size - 3)], ("</think>", "<tool_call>"))
"""The same, all but the last ids, for a model without a token for the opening tag."""


def constraint(thinking: Thinking, *members: str, text: TinyText = TEXT) -> ConstraintMask:
    return ConstraintMask(Texts(text, members or ("{a}", "{{b}}")), text_model(text), thinking)


def tokens(*pieces: str, text: TinyText = TEXT) -> set[int]:
    return set(text.ids(*pieces))


def is_free(mask: Mask, text: TinyText = TEXT) -> bool:
    """Whether everything but an end may come, as inside the reasoning, where the model wants text."""
    row = allowed(mask, best=text.id("a")) or set()
    return row & set(range(text.vocab_size)) == set(range(text.vocab_size)) - {END}


def spelled(piece: str) -> int:
    """The ordinary token of a text that a marker has too."""
    return next(token for token in range(TEXT.vocab_size) if TEXT.piece(token) == piece.encode())


@pytest.mark.spec("ENG-087")
def test_with_thinking_off_the_language_starts_at_the_first_token() -> None:
    mask = constraint("off")
    assert allowed(mask) == tokens("{", "{{")
    mask.commit(TEXT.ids("{"))
    assert allowed(mask) == tokens("a", "{")
    mask.commit(TEXT.ids("a"))
    assert mask.forced() == tuple(TEXT.ids("}"))
    mask.commit(TEXT.ids("}"))
    assert allowed(mask) == {END}


@pytest.mark.spec("ENG-087", "API-126")
def test_an_open_block_is_free_until_its_closer_and_the_language_follows_the_blank_lines() -> None:
    mask = constraint("open")
    for piece in ("a", "<", "\n", "think", ">", "```"):
        assert is_free(mask)
        assert not mask.allows((), END)
        assert mask.forced() == ()
        mask.commit(TEXT.ids(piece))
    mask.commit(TEXT.ids("</think>"))
    for _ in range(2):
        assert allowed(mask) == tokens("{", "{{", "\n", "\n\n")
        assert mask.forced() == ()
        mask.commit(TEXT.ids("\n\n"))
    mask.commit(TEXT.ids("{{"))
    assert allowed(mask) == tokens("b")


@pytest.mark.parametrize(
    "closer", [("</think>",), ("</", "think", ">"), ("<", "</", "th", "ink", ">"), ("a", "</", "think>")]
)
@pytest.mark.spec("ENG-087")
def test_the_closer_may_be_spelled_across_tokens(closer: Sequence[str]) -> None:
    mask = constraint("open")
    ids = [spelled(piece) for piece in closer]
    assert allowed(mask, ids) == tokens("{", "{{", "\n", "\n\n")
    for token in ids:
        mask.commit([token])
    assert allowed(mask) == tokens("{", "{{", "\n", "\n\n")


@pytest.mark.spec("ENG-087")
def test_what_follows_the_closer_in_its_token_counts() -> None:
    mask = constraint("open")
    whole = TEXT.ids("</think>\n\n{")
    assert allowed(mask, whole) == tokens("a", "{")
    assert is_free(mask)
    mask.commit(whole)
    assert allowed(mask) == tokens("a", "{")


@pytest.mark.spec("API-117", "API-126")
def test_a_model_that_would_end_inside_the_block_closes_it() -> None:
    mask = constraint("open")
    mask.commit(TEXT.ids("a"))
    assert allowed(mask, best=END) == {TEXT.markers["</think>"]}
    mask.commit(TEXT.ids("</", "think"))
    assert allowed(mask, best=END) == tokens(">")
    assert not mask.allows((), END)


@pytest.mark.spec("ENG-087", "API-126")
def test_a_token_that_closes_the_block_and_breaks_the_language_is_not_allowed() -> None:
    mask = constraint("open")
    mask.commit(TEXT.ids("</", "think"))
    everything = set(range(TEXT.vocab_size)) - {END}
    assert (allowed(mask, best=TEXT.id("a")) or set()) & everything == everything - tokens(">a")
    assert not mask.allows((), TEXT.id(">a"))
    mask.commit(TEXT.ids(">{"))
    assert allowed(mask) == tokens("a", "{")
    other = constraint("open", "a")
    assert not other.allows((), TEXT.id("</think>\n\n{"))
    assert (allowed(other, best=TEXT.id("a")) or set()) & everything == everything - tokens("</think>\n\n{")


@pytest.mark.spec("API-126")
def test_the_indentation_of_the_answer_is_its_own() -> None:
    """The reading side drops the blank lines only, so a blank on the answer's line would be part of the answer."""
    mask = constraint("open", " {", "a")
    mask.commit(TEXT.ids("</think>"))
    assert allowed(mask) == tokens("a", " ", " {", "\n", "\n\n")
    mask.commit(TEXT.ids(" "))
    assert allowed(mask) == tokens("{")


def test_a_model_does_not_loop_in_blank_lines() -> None:
    mask = constraint("open")
    mask.commit(TEXT.ids("</think>", *["\n\n"] * MOST_BLANKS))
    assert allowed(mask) == tokens("{", "{{")


@pytest.mark.parametrize("text", [TEXT, SPELLED], ids=["marker", "spelled"])
@pytest.mark.spec("ENG-087", "API-258")
def test_a_free_prompt_may_open_a_block_or_begin_the_answer(text: TinyText) -> None:
    tags = {token for token in range(text.vocab_size) if text.piece(token) in (b"<think>", b"<think>a")}
    if text is SPELLED:
        tags |= tokens("<", "<th", text=text)
    mask = constraint("free", text=text)
    assert allowed(mask) == tokens("{", "{{", text=text) | tags
    assert mask.forced() == ()
    assert not mask.allows((), END)
    answer = constraint("free", text=text)
    answer.commit(text.ids("{"))
    assert allowed(answer) == tokens("a", "{", text=text)
    mask.commit(text.ids("<think>"))
    assert is_free(mask)
    mask.commit(text.ids("</think>"))
    assert allowed(mask) == tokens("{", "{{", "\n", "\n\n", text=text)


@pytest.mark.spec("ENG-087", "API-258")
def test_a_tag_that_is_begun_is_finished() -> None:
    mask = constraint("free", text=SPELLED)
    mask.commit(SPELLED.ids("<th"))
    assert allowed(mask) == tokens("ink", text=SPELLED)
    mask.commit(SPELLED.ids("ink"))
    assert allowed(mask) == tokens(">", ">{", ">a", "> ", text=SPELLED)
    mask.commit(SPELLED.ids(">{"))
    assert is_free(mask)


@pytest.mark.spec("ENG-087", "API-258")
def test_a_begun_tag_may_still_be_the_answers_text() -> None:
    members = ("<a", "<th{", "a")
    mask = constraint("free", *members, text=SPELLED)
    mask.commit(SPELLED.ids("<"))
    assert allowed(mask) == tokens("a", "th", "think", "think>", text=SPELLED)
    assert mask.forced() == ()
    answer, block = (constraint("free", *members, text=SPELLED) for _ in range(2))
    answer.commit(SPELLED.ids("<"))
    answer.commit(SPELLED.ids("a"))
    assert allowed(answer) == {END}
    block.commit(SPELLED.ids("<", "th"))
    assert allowed(block) == tokens("ink", "{", text=SPELLED)
    block.commit(SPELLED.ids("ink"))
    block.commit(SPELLED.ids(">", "</think>"))
    assert allowed(block) == tokens("<", "<th", "a", "\n", "\n\n", text=SPELLED)


@pytest.mark.spec("API-126")
def test_whitespace_of_a_free_prompt_is_the_answers_or_the_tags() -> None:
    """It would be sent as text, so the language has to take it."""
    tags = {token for token in range(TEXT.vocab_size) if TEXT.piece(token) in (b"<think>", b"<think>a")}
    mask = constraint("free", "\n{", "a")
    assert allowed(mask) == tokens("\n", "\n{", "a") | tags
    mask.commit(TEXT.ids("\n"))
    assert allowed(mask) == tokens("{") | tags
    tag = constraint("free", "\n{", "a")
    tag.commit(TEXT.ids("\n", "<think>", "</think>"))
    assert allowed(tag) == tokens("\n", "\n\n", "\n{", "a")
    mask.commit(TEXT.ids("{"))
    assert allowed(mask) == {END}


@pytest.mark.parametrize("thinking", ["open", "free"])
def test_only_the_first_block_counts(thinking: Thinking) -> None:
    mask = constraint(thinking, "<think>", "a")
    mask.commit(TEXT.ids("<think>", "a", "</think>"))
    assert allowed(mask) == tokens("a", "<think>", "\n", "\n\n")
    mask.commit(TEXT.ids("<think>"))
    assert allowed(mask) == {END}


SCRIPTS = (
    ("open", ("a", "</think>", "\n\n", "{", "a", "}")),
    ("open", ("</", "think", ">{", "{", "b", "}", "}")),
    ("open", ("</think>\n\n{", "a", "}")),
    ("free", ("<", "th", "ink", ">a", "<", "</", "think>", "\n", "{{", "b", "}", "}")),
    ("free", ("<think>", "</think>", "{", "a", "}")),
    ("free", ("{{", "b", "}", "}")),
    ("off", ("{", "a", "}")),
)


@pytest.mark.parametrize(("thinking", "script"), SCRIPTS)
@pytest.mark.spec("ENG-086", "API-127")
def test_every_cut_into_path_and_commits_gives_the_same_rows(thinking: Thinking, script: Sequence[str]) -> None:
    """Case G-02: however many tokens a round drafts, its rows are those of plain decoding."""
    ids = SPELLED.ids(*script)
    plain = constraint(thinking, text=SPELLED)
    rows = []
    for token in ids:
        rows.append(allowed(plain))
        assert plain.allows((), token)
        plain.commit([token])
    rows.append(allowed(plain))
    assert rows[-1] == {END}
    for block in range(1, len(ids) + 2):
        mask = constraint(thinking, text=SPELLED)
        for start in range(0, len(ids), block):
            path = ids[start : start + block]
            assert [allowed(mask, path[:at]) for at in range(len(path) + 1)] == rows[start : start + len(path) + 1]
            assert all(mask.allows(path[:at], path[at]) for at in range(len(path)))
            mask.commit(path)
        assert allowed(mask) == {END}


@pytest.mark.parametrize(("thinking", "script"), SCRIPTS)
def test_bits_and_allows_agree_on_every_token(thinking: Thinking, script: Sequence[str]) -> None:
    mask = constraint(thinking)
    path: list[int] = []
    for token in TEXT.ids(*script):
        row = allowed(mask, path, TEXT.id("a"))
        alone = {token for token in range(TEXT.vocab_size) if mask.allows(path, token)}
        assert alone == (set(range(TEXT.vocab_size)) if row is None else row & set(range(TEXT.vocab_size)))
        path.append(token)


@pytest.mark.spec("ENG-086")
def test_a_matcher_moves_once_a_committed_token() -> None:
    """Case G-02: `</think>` and `{{` in one block."""
    matcher = Texts(TEXT, ("{{b}}",))
    mask = ConstraintMask(matcher, text_model(TEXT), "open")
    block = TEXT.ids("a", "</think>", "{{", "b")
    for at in range(len(block)):
        mask.allows(block[:at], block[at])
        mask.bits(block[:at], END)
    assert matcher.commits == 0
    mask.commit(block[:3])
    assert (matcher.commits, bytes(letter for letter in matcher.read if isinstance(letter, int))) == (1, b"{{")
    mask.commit(block[3:])
    assert matcher.commits == 2


def branch_mask(thinking: Thinking = "off", text: TinyText = TEXT) -> BranchMask:
    calls = Texts(text, ("<tool_call>a", "<tool_call>b"))
    return BranchMask(calls, Texts(text, ("{a}", "<{")), text_model(text), thinking)


@pytest.mark.parametrize(
    ("best", "branch"),
    [
        ("<tool_call>", "calls"),
        ("<", "calls"),
        ("</", "calls"),
        ("```", "document"),
        ("a", "document"),
        ("{", "document"),
    ],
)
@pytest.mark.spec("ENG-091", "API-132", "API-133")
def test_the_models_own_first_token_decides(best: str, branch: str) -> None:
    only = {"calls": tokens("<tool_call>"), "document": tokens("{", "<")}[branch]
    mask = branch_mask()
    assert allowed(mask, (), TEXT.id(best)) == only
    assert mask.branch is None
    for token in range(TEXT.vocab_size):
        assert mask.allows((), token) == (token in only)
    mask.commit([min(only)])
    assert mask.branch == branch
    assert TEXT.id("<tool_call>") not in (allowed(mask, (), TEXT.id("<tool_call>")) or set())


@pytest.mark.spec("ENG-091", "API-133")
def test_whitespace_decides_nothing() -> None:
    mask = branch_mask()
    for _ in range(3):
        row = allowed(mask, (), TEXT.id("\n\n")) or set()
        assert tokens("\n", "\n\n", " ", "{", "<tool_call>") <= row
        assert not row & tokens("a", "```")
        assert not mask.allows((), END)
        mask.commit(TEXT.ids("\n"))
        assert (mask.branch, mask.forced()) == (None, ())
    assert allowed(mask, (), TEXT.id("```")) == tokens("{", "<")
    mask.commit(TEXT.ids("{"))
    assert mask.branch == "document"
    assert mask.forced() == tuple(TEXT.ids("a"))


@pytest.mark.spec("ENG-091")
def test_a_decision_holds_for_the_rows_behind_it_and_is_forgotten_with_them() -> None:
    mask = branch_mask()
    start = TEXT.ids("\n")
    assert allowed(mask, (), TEXT.id("\n")) is not None
    assert allowed(mask, start, TEXT.id("a")) == tokens("{", "<")
    # Both languages could begin with it, had they the same text; the row's best has said document.
    assert allowed(mask, [*start, TEXT.id("<")], TEXT.id("<tool_call>")) == tokens("{")
    mask.commit(start)
    assert mask.branch is None
    assert allowed(mask, (), TEXT.id("<tool_call>")) == tokens("<tool_call>")
    assert allowed(mask, TEXT.ids("<tool_call>"), TEXT.id("a")) == tokens("a", "b")
    assert allowed(mask, (), TEXT.id("```")) == tokens("{", "<")
    mask.commit(TEXT.ids("<"))
    assert mask.branch == "document"


@pytest.mark.spec("ENG-091")
def test_between_languages_of_one_beginning_the_row_decides_and_without_it_the_text() -> None:
    def spelled_calls() -> BranchMask:
        plain = TinyText(PIECES)
        return BranchMask(Texts(plain, ("<a",)), Texts(plain, ("<b", "{")), text_model(plain), "off")

    less = TinyText(PIECES).id("<")
    decided = spelled_calls()
    assert allowed(decided, (), TEXT.id("a")) == tokens("<", "{")
    decided.commit([less])
    assert (decided.branch, allowed(decided)) == ("document", tokens("b"))
    forced = spelled_calls()
    assert allowed(forced, [less]) == tokens("a")
    assert allowed(forced, (), TEXT.id("{")) == tokens("<", "{")
    assert allowed(forced, [less]) == tokens("b")
    other = spelled_calls()
    other.commit([less])
    assert (other.branch, allowed(other)) == ("calls", tokens("a"))


@pytest.mark.spec("ENG-087", "ENG-091")
@pytest.mark.parametrize(
    ("thinking", "reasoning"),
    [
        ("open", ("a", "</think>", "\n\n")),
        ("free", ("<think>", "```", "</", "think", ">")),
        ("free", ("\n", "<think>", "</think>")),
    ],
)
def test_the_branch_is_chosen_behind_the_reasoning(thinking: Thinking, reasoning: Sequence[str]) -> None:
    for best, branch in (("```", "document"), ("<tool_call>", "calls")):
        mask = branch_mask(thinking)
        path: list[int] = []
        for token in TEXT.ids(*reasoning):
            assert mask.allows(path, token)
            mask.bits(path, token)
            path.append(token)
        rows = [allowed(mask, path, TEXT.id(best))]
        mask.commit(path[:2])
        rows.append(allowed(mask, path[2:], TEXT.id(best)))
        assert rows == [tokens("<tool_call>") if branch == "calls" else tokens("{", "<")] * 2
        mask.commit(path[2:])
        assert mask.branch is None
        mask.commit([min(rows[0] or ())])
        assert mask.branch == branch


@pytest.mark.spec("ENG-091", "API-258")
def test_a_tag_that_the_model_begins_is_no_call_yet() -> None:
    mask = branch_mask("free")
    row = allowed(mask, (), TEXT.id("<think>")) or set()
    assert row >= tokens("<think>", "<tool_call>", "{", "\n")
    assert allowed(mask, (), TEXT.id("<th")) == tokens("<tool_call>")
    spelled = branch_mask("free", text=SPELLED)
    tags = {token for token in range(SPELLED.vocab_size) if SPELLED.piece(token) in (b"<think>", b"<think>a")}
    half = allowed(spelled, (), SPELLED.id("<th"))
    assert half == tokens("<tool_call>", "<", "<th", text=SPELLED) | tags
    spelled.commit(SPELLED.ids("<th"))
    assert allowed(spelled, (), SPELLED.id("a")) == tokens("ink", text=SPELLED)
    spelled.commit(SPELLED.ids("ink", ">"))
    assert is_free(spelled, SPELLED)
    assert spelled.branch is None


@pytest.mark.spec("ENG-088")
def test_no_end_and_no_special_token_without_text_before_the_answer() -> None:
    text = TinyText(("{", "\n", ""), MARKERS)
    mute = 3
    cases: list[tuple[Thinking, tuple[str, ...]]] = [("free", ()), ("open", ("</think>",)), ("off", ())]
    for thinking, before in cases:
        masks: list[Mask] = [ConstraintMask(Texts(text, ("{",)), text_model(text), thinking)]
        masks.append(BranchMask(Texts(text, ("<tool_call>",)), Texts(text, ("{",)), text_model(text), thinking))
        for mask in masks:
            mask.commit(text.ids(*before))
            row = allowed(mask, (), text.id("\n")) or set()
            assert row
            assert not row & {END, mute}
            assert not mask.allows((), END)
            assert not mask.allows((), mute)


def test_text_in_no_language_allows_nothing_more() -> None:
    for mask in (constraint("open"), branch_mask("open")):
        path = TEXT.ids("</think>", "b")
        assert allowed(mask, path) == set()
        assert not mask.allows(path, END)
        mask.commit(path)
        assert allowed(mask) == set()
        assert mask.forced() == ()


def test_tables_are_built_once_a_model() -> None:
    assert borders(text_model(TEXT)) is borders(text_model(TEXT))
