"""Of every task one answer at which it fires and one at which it does not, with what comes of it (MON-151)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.conductor.monitor.calling import called, round_of
from tests.service.cases import asking
from tests.service.monitor.stage import BACKSTOP, CODE, Row, words

__all__ = ["ENDLESS", "FIXTURES", "LS", "WROTE", "Fixture", "written"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """`content` and `reasoning` are None where there is none; `begins`: they only begin with it."""

    task: str
    script: Mapping[str, Any]
    before: Sequence[Any] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    content: str | None = None
    reasoning: str | None = None
    begins: bool = False
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    finish: str = "stop"
    rows: Sequence[Row] = ()
    """With the mode on; in shadow only the first is due, and nothing is done. Without any it does not fire."""

    @property
    def name(self) -> str:
        return f"{self.task} {'fires' if self.rows else 'rests'}"


def acts(kind: str, reason: str) -> Row:
    return kind, kind, reason


LS = ("bash", {"command": "ls"})
OWN = ("write", {"path": "a.py", "content": "x"})
MAIL = ("send", {"to": "a", "body": "b"})
LOOKED = called(*(("bash", '{"command": "ls"}', "nothing"),) * 2)
WROTE = round_of(("write", '{"path": "a.py", "content": "x"}', "ok"))
ENDLESS = "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n" + "very " * 500
CLAIM = "All 42 tests pass."


def written(*made: tuple[str, Mapping[str, Any]]) -> str:
    """Calls as the model writes them, and as its template renders them later."""
    return "\n".join(asking.written(name, **arguments) for name, arguments in made)


def again(task: str, reason: str, *made: tuple[str, Mapping[str, Any]], before: Sequence[Any] = ()) -> Fixture:
    """A set of calls that is held back and written again."""
    return Fixture(
        task=task,
        script={"say": written(*made), "then": [written(OWN)]},
        before=before,
        calls=[OWN],
        finish="tool_calls",
        rows=[acts("REGENERATE_CALL", reason)],
    )


def clean(task: str, *made: tuple[str, Mapping[str, Any]], before: Sequence[Any] = ()) -> Fixture:
    script = {"say": written(*made)}
    return Fixture(task=task, script=script, before=before, calls=made, finish="tool_calls")


FIXTURES: Sequence[Fixture] = (
    Fixture(
        task="D1",
        script={"say": f"<think>\n{'items ' * 300}</think>Five.", "block": 32},
        content="Five.",
        reasoning="\nitems " + "items " * 130,
        begins=True,
        rows=[acts("CLOSE_REASONING", "loop(period)")],
    ),
    Fixture(
        task="D1",
        script={"say": f"<think>\n{'items ' * 60}\n</think>\n\nFive."},
        content="Five.",
        reasoning="\n" + "items " * 60 + "\n",
    ),
    Fixture(
        task="D2",
        script={"say": f"<think>\n{words(BACKSTOP + 40)}</think>Five.", "block": 32},
        content="Five.",
        reasoning=f"\n{words(BACKSTOP - 2)}".rstrip(),  # the opening tag counts
        rows=[acts("CLOSE_REASONING", f"backstop({BACKSTOP})")],
    ),
    Fixture(
        task="D2",
        script={"say": f"<think>\n{words(BACKSTOP - 9)}\n</think>\n\nFive.", "block": 32},
        content="Five.",
        reasoning=f"\n{words(BACKSTOP - 9)}\n",
    ),
    Fixture(
        task="D3",
        script={"say": "items " * 400, "block": 32},
        content="items " * 255,
        begins=True,
        rows=[acts("GIVE_UP", "answer_loop(period)")],
    ),
    Fixture(task="D3", script={"say": "items " * 60 + "that is all."}, content="items " * 60 + "that is all."),
    Fixture(
        task="E1",
        script={"say": "<think>\nHm.", "then": ["Five."]},
        content="Five.",
        reasoning="\nHm.",
        rows=[acts("CONTINUE_HIDDEN", "empty(A)"), acts("CONTINUE_HIDDEN", "empty(B)")],
    ),
    Fixture(
        task="E1",
        script={"say": "<think>\nHm.\n</think>\n\n", "then": ["Five."]},
        content="Five.",
        reasoning="\nHm.\n",
        rows=[acts("CONTINUE_HIDDEN", "empty(B)")],
    ),
    Fixture(
        task="E1",
        script={"say": f"<think>\nI look.\n{written(LS)}\n</think>\n\n"},
        reasoning=f"\nI look.\n{written(LS)}\n",
        calls=[LS],
        finish="tool_calls",
        rows=[acts("CONTINUE_HIDDEN", "empty(C)")],
    ),
    Fixture(task="E1", script={"say": "<think>\nHm.\n</think>\n\nFive."}, content="Five.", reasoning="\nHm.\n"),
    Fixture(
        task="E2",
        script={"say": CLAIM, "then": ["I ran nothing."], "choose": {**CODE, "A": 0.49, "B": 0.51}},
        before=WROTE,
        content=f"{CLAIM}\n\nI ran nothing.",
        rows=[acts("CONTINUE_HIDDEN", "claim_check(no_run_after_last_write)")],
    ),
    Fixture(task="E2", script={"say": CLAIM, "choose": {**CODE, "A": 0.49, "B": 0.51}}, content=CLAIM),
    again("C1", "risky(delete_root)", ("bash", {"command": "rm -rf /"})),
    clean("C1", LS),
    again("C2", "project(outside_root)", ("write", {"path": "/etc/hosts", "content": "x"})),
    clean("C2", OWN),
    again("C3", "repeat(3)", LS, before=LOOKED),
    clean("C3", OWN, before=LOOKED),
    again("C4", "malformed(unknown_tool)", ("look", {"path": "a"})),
    clean("C4", LS, OWN),
    again("C5", "sequence(mutations=2)", MAIL, OWN),
    clean("C5", LS, MAIL),
    Fixture(
        task="A1",
        script={"say": ENDLESS, "block": 32},
        content="[TandemLLM cut off the write call at 320 tokens, because one piece of 5 characters came ",
        begins=True,
        more={"max_tokens": 600},
        rows=[acts("GIVE_UP", "tool_arg_loop(periodic)")],
    ),
    clean("A1", ("write", {"path": "a", "content": "very " * 100})),
)
