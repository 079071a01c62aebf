"""E1 and E2 in the decode loop on the fake engine: what the client gets, what the model reads, what the rows say."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tandem.conductor.monitor.events import MonitorEvent, RequestEvent, TaskMode
from tandem.conductor.monitor.monitor import Monitor
from tandem.conductor.monitor.policy import Policy, policy_of, shipped_body
from tandem.conductor.monitor.supervisor import Supervisor
from tandem.conductor.sessions.view import SessionView
from tandem.engine.decoding.generation import Generation, ReasoningCap
from tandem.engine.fake import FakeEngine
from tandem.engine.text.closing import closing_ids
from tandem.engine.text.model import Conversation
from tandem.engine.text.reading.calls import xml_calls
from tandem.engine.text.reading.deltas import CallArguments, CallEnd, CallStart, Delta
from tandem.engine.text.reading.reader import AnswerReader
from tandem.engine.verbs import SamplingRules
from tests.engine.decoding.driving import drive, finish_of, reasoning_of, text_of

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("ls", "write")]
WROTE = {"id": "w1", "type": "function", "function": {"name": "write", "arguments": "{}"}}
DAY = datetime.date(2026, 11, 30)
LS = '<tool_call>\n{"name": "ls", "arguments": {"path": "/"}}\n</tool_call>'


SHIPPED = policy_of(shipped_body())


def policy(**modes: TaskMode) -> Policy:
    """The shipped policy with only these tasks."""
    tasks = [replace(task, mode=modes[task.id]) for task in SHIPPED.tasks if task.id in modes]
    return replace(SHIPPED, tasks=tuple(tasks))


class Run:
    """One request: its deltas, the sequence it left, the rows of the monitor."""

    def __init__(
        self,
        script: dict[str, Any],
        watched: Policy | None,
        *,
        after_write: bool = False,
        cap: tuple[int, bool] | None = None,
        window: int | None = None,
        limit: int = 200,
        **req: Any,
    ) -> None:
        engine = FakeEngine()
        messages: list[dict[str, Any]] = [{"role": "user", "content": f"hi @fake {json.dumps(script)}"}]
        if after_write:
            messages = [
                {"role": "user", "content": "Write it."},
                {"role": "assistant", "content": "", "tool_calls": [WROTE]},
                {"role": "tool", "content": "ok", "tool_call_id": "w1"},
                *messages,
            ]
        prompt = engine.text.render(Conversation(messages=messages, tools=TOOLS))
        request = RequestEvent(**{"messages": messages, "tools": TOOLS, "cls": "code_edit", **req})
        self.supervisor: Supervisor | None = None
        if watched is not None:
            monitor = Monitor("on", watched, engine.text, window=engine.card.max_len)
            self.supervisor = monitor.begin("on", request, prompt, SessionView(key="k", first_date=DAY))
        window = engine.card.max_len if window is None else len(prompt.ids) + window
        reader = AnswerReader(
            engine.text,
            thinking=prompt.thinking,
            calls=xml_calls(TOOLS, live=False, new_id=lambda: "id"),
            trace=None if self.supervisor is None else self.supervisor.trace,
        )
        generation = Generation(
            prompt,
            SamplingRules(),
            limit=min(limit, window - len(prompt.ids)),
            reader=reader,
            end_ids=engine.text.end_ids,
            grid=engine.card.anchor_grid,
            arrived_at=0.0,
            window=window,
            reasoning_cap=None if cap is None else ReasoningCap(cap[0], closing_ids(engine.text), cap[1]),
            supervisor=self.supervisor,
        )
        seq = engine.open(prompt)
        self.deltas: Sequence[Delta] = drive(engine, seq, generation)
        self.finish = finish_of(self.deltas)
        text = engine.text
        whole = b"".join(text.piece(token) or text.name(token).encode() for token in seq.output).decode()
        self.written = whole.removesuffix("<|im_end|>")
        """Without the end token, which a question about it leaves out of the sequence (MON-029)."""
        if self.supervisor is not None:
            self.supervisor.finished(self.finish, 1.0)

    @property
    def rows(self) -> list[MonitorEvent]:
        assert self.supervisor is not None
        return [event for event in self.supervisor.take_events() if event.decision != "OUTCOME"]

    @property
    def calls(self) -> list[str]:
        return [delta.text for delta in self.deltas if isinstance(delta, CallArguments)]


def spelled(run: Run) -> tuple[str, str, list[str], str]:
    return reasoning_of(run.deltas), text_of(run.deltas), run.calls, run.finish.reason


def turn(text: str) -> str:
    return f"<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


E1 = policy(E1="act")
NUDGE, AGAIN = E1.texts["nudge"] or "", E1.texts["nudge_again"] or ""
BLOCKS = pytest.mark.parametrize("block", [1, 5])


@pytest.mark.spec("MON-031", "MON-032", "MON-052", "MON-055", "MON-056")
@BLOCKS
def test_an_empty_turn_is_asked_for_its_answer(block: int) -> None:
    """Cases A and B, one behind the other."""
    run = Run({"say": "<think>Hm", "then": ["Here it is."], "block": block}, E1)
    assert spelled(run) == ("Hm", "Here it is.", [], "stop")
    assert run.written == ("<think>Hm\nEnough thinking; now the answer.\n</think>\n\n" + turn(AGAIN) + "Here it is.")
    assert [(row.reason, row.acted, row.detail["try"]) for row in run.rows] == [
        ("empty(A)", "CONTINUE_HIDDEN", 1),
        ("empty(B)", "CONTINUE_HIDDEN", 2),
    ]
    assert run.finish.usage.completion == len(["<think>", "Hm", "Here", " it", " is", ".", "<|im_end|>"])


@pytest.mark.spec("MON-055", "MON-068")
def test_a_limit_that_the_window_has_lowered_leaves_room_for_an_act() -> None:
    """The default limit is more than a small window holds."""
    script = {"say": "", "then": ["Here it is."]}
    run = Run(script, E1, window=120)
    assert text_of(run.deltas) == "Here it is."
    short = Run(script, E1, window=len(run.written) // 8)
    assert (text_of(short.deltas), [row.reason for row in short.rows]) == (E1.texts["give_up"], ["no_room"])


@pytest.mark.spec("MON-054", "MON-055")
def test_calls_for_which_the_limit_is_too_small_are_not_begun() -> None:
    said = f"<think>I look.\n{LS}"
    whole = Run({"say": said}, E1)
    assert whole.calls == ['{"path":"/"}']
    for limit in (whole.finish.usage.completion, whole.finish.usage.completion - 2):
        run = Run({"say": said}, E1, limit=limit)
        fits = limit == whole.finish.usage.completion
        assert run.calls == (whole.calls if fits else [])
        assert text_of(run.deltas) == ("" if fits else E1.texts["give_up"])
        assert [row.reason for row in run.rows] == ["empty(C)" if fits else "no_room"]


@pytest.mark.spec("MON-052", "MON-058", "MON-072")
@pytest.mark.parametrize(
    "block", ["<tool_call>ls -la", "<tool_call>{no", "<tool_call>", "<function=ls><parameter=path>"]
)
def test_a_block_whose_end_never_comes_is_no_silence(block: str) -> None:
    """It is judged as a call, or goes out as text."""
    raw = Run({"say": block, "then": ["Here."]}, None)
    run = Run({"say": block, "then": ["Here."]}, E1)
    assert run.rows == []
    assert spelled(run) == spelled(raw)


@pytest.mark.spec("MON-055")
def test_a_turn_that_stays_empty_ends_with_a_sentence() -> None:
    run = Run({"say": "", "then": [" ", ""]}, E1)
    assert text_of(run.deltas).strip() == E1.texts["give_up"]
    assert turn(NUDGE) in run.written
    assert turn(AGAIN) in run.written
    assert [row.acted for row in run.rows] == ["CONTINUE_HIDDEN", "CONTINUE_HIDDEN", "GIVE_UP"]
    assert run.finish.reason == "stop"


@pytest.mark.spec("MON-053", "MON-054", "MON-056")
@BLOCKS
@pytest.mark.parametrize("closed", [False, True])
def test_calls_of_the_reasoning_go_out_whole(block: int, closed: bool) -> None:
    """Case C, and B-01: the arguments are those that were written."""
    said = f"<think>I look.\n{LS}" + ("\n</think>\n\n" if closed else "")
    run = Run({"say": said, "block": block}, E1)
    assert run.calls == ['{"path":"/"}']
    assert run.finish.reason == "tool_calls"
    assert [type(delta) for delta in run.deltas if isinstance(delta, CallStart | CallEnd)] == [CallStart, CallEnd]
    assert text_of(run.deltas).strip() == ""
    assert run.written.removeprefix(said) == ("" if closed else "\n</think>\n\n") + LS
    plain = Run({"say": said, "block": block}, None)
    forced = len(FakeEngine().text.encode_own(LS))
    assert run.finish.usage.completion == plain.finish.usage.completion + forced
    (row,) = run.rows
    assert (row.reason, row.detail["tools"], row.detail["call_count"]) == ("empty(C)", ["ls"], 1)


@pytest.mark.spec("MON-053", "MON-054", "API-261")
@pytest.mark.parametrize("visible", [True, False])
def test_a_call_that_a_cap_waited_for_goes_out_whole(visible: bool) -> None:
    """B-01."""
    run = Run({"say": f"<think>a b c {LS}"}, E1, cap=(6, visible))
    assert run.calls == ['{"path":"/"}']
    assert [row.reason for row in run.rows] == ["budget(6)", "empty(C)"]
    assert reasoning_of(run.deltas).startswith(f"a b c {LS}")


@pytest.mark.spec("MON-056", "MON-003")
@pytest.mark.parametrize("say", ["", "<think>Hm", f"<think>I look.\n{LS}", "An answer.", LS])
def test_off_and_in_shadow_every_byte_is_as_it_was(say: str) -> None:
    script = {"say": say, "then": ["More."], "block": 3}
    plain, off, shadow = Run(script, None), Run(script, policy()), Run(script, policy(E1="shadow"))
    assert plain.deltas == off.deltas == shadow.deltas
    assert plain.written == off.written == shadow.written
    assert [row.acted for row in shadow.rows] == ([] if say in ("An answer.", LS) else [None])


# --- E2

E2 = policy(E2="act")
CLAIM = "All 42 tests pass."
NOTE = next(task for task in E2.tasks if task.id == "E2").params["notes"]["no_run_after_last_write"]
CHOICES = {
    "note": {"A": 0.49, "B": 0.51},
    "supported": {"A": 0.97},
    "no claim": {"B": 0.97},
}


def claiming(choose: dict[str, float], **more: Any) -> dict[str, Any]:
    return {"say": CLAIM, "then": ["I ran nothing."], "choose": choose, **more}


def lenient(mode: TaskMode) -> Policy:
    """One choice serves both questions of a script, so the first one is content with little."""
    made = policy(E2=mode)
    tasks = [replace(task, params={**task.params, "claim_at": 0.4, "admit_at": 0.4}) for task in made.tasks]
    return replace(made, tasks=tuple(tasks))


@pytest.mark.spec("MON-057", "MON-065", "MON-070")
@BLOCKS
def test_a_claim_without_evidence_is_gone_on_with(block: int) -> None:
    """T-01: the model's words stand, and what comes is behind them, a paragraph of its own."""
    run = Run(claiming(CHOICES["note"], block=block), lenient("act"), after_write=True)
    assert text_of(run.deltas) == f"{CLAIM}\n\nI ran nothing."
    assert run.written == f"{CLAIM}\n\n{turn(NOTE)}I ran nothing.", "the questions left no trace"
    (row,) = run.rows
    assert (row.acted, row.reason) == ("CONTINUE_HIDDEN", "claim_check(no_run_after_last_write)")
    assert row.detail["twin"] == "no_run_after_last_write"
    assert row.detail["questions"] == 2
    assert row.detail["ms"] >= 0.0
    assert run.supervisor is not None
    delta = run.supervisor.take_delta()
    assert delta is not None
    assert delta.kept["E2"]["notes"] == 1


@pytest.mark.spec("MON-067", "MON-068", "MON-069", "MON-072")
@BLOCKS
@pytest.mark.parametrize(
    ("watched", "choose", "req", "reason"),
    [
        (E2, "supported", {}, "claim_check(supported)"),
        (E2, "no claim", {}, "claim_check(no_claim)"),
        (lenient("shadow"), "note", {}, "claim_check(no_run_after_last_write)"),
        (E2, "supported", {"cls": "chat"}, None),
        (E2, "note", {"logprobs": True}, "claim_check(not_asked)"),
        (policy(), "note", {}, None),
    ],
)
def test_everything_else_is_delivered_as_it_was(
    block: int, watched: Policy, choose: str, req: dict[str, Any], reason: str | None
) -> None:
    script = claiming(CHOICES[choose], block=block)
    plain = Run(script, None, after_write=True)
    run = Run(script, watched, after_write=True, **req)
    assert run.deltas == plain.deltas
    assert run.written == plain.written == CLAIM
    assert [(row.reason, row.acted) for row in run.rows] == ([] if reason is None else [(reason, None)])
