"""Plays a story on a whole service under trio's mock clock, and says which of its sentences are not true."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import trio
import trio.testing

from tandem.actors.host import InlineHost
from tandem.draining import drain
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.script import SIDE_ANSWER
from tandem.engine.memory import GIB
from tandem.engine.text.side import SIDE_SHAPES
from tandem.store.outcome import Outcome
from tests.scenarios.language import Act, Ask, Expect, Story, parse, seconds
from tests.service.harness import Call, Harness, fake, open_harness

__all__ = ["Part", "Stage", "body_of", "play", "text_of"]

T = TypeVar("T")

CHAT = "/v1/chat/completions"
DAY_S = 86_400.0
NEAR_S = 0.06
"""How exactly a time is meant: a message's way through the box takes none, a step of its neighbour does."""
IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)
FAILS = ("leaves", "stalls")
REFUSALS = ("refused", "refused in stream")


@dataclass(slots=True)
class Part:
    """One who asked: the newest request, and the conversation so far."""

    ask: Ask
    body: dict[str, Any]
    call: Call
    asked_at: float
    is_cut: bool = False
    """It has left, or reads no more."""
    ended_at: float = math.inf
    outcome: Outcome | None = None

    @property
    def is_stream(self) -> bool:
        """Whether its answer is one; a refusal may not be."""
        return self.call.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def started_at(self) -> float:
        """When its first token came."""
        for event in self.call.events if self.is_stream else ():
            for choice in (event.data or {}).get("choices", ()):
                if any(choice.get("delta", {}).get(name) for name in ("content", "reasoning_content", "reasoning")):
                    return event.at
        return math.inf if self.ask.streamed else self.ended_at

    @property
    def error(self) -> Mapping[str, Any]:
        """That of its stream's last chunk; empty where there is none."""
        if not self.is_stream:
            return {}
        return next((chunk["error"] for chunk in self.call.chunks if "error" in chunk), {})


@dataclass(slots=True)
class Stage:
    """What has come of a story."""

    story: Story
    begun_at: float
    free_gib: float | None
    parts: dict[str, Part] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def free(self) -> int | None:
        """Bytes that could be taken."""
        return None if self.free_gib is None else int(self.free_gib * GIB)

    def say(self, sentence: str, but: str) -> None:
        self.wrong.append(f"{sentence!r}, but {but}")


class OneTurnHost(InlineHost):
    """Holds that at most one piece of engine work runs at a time (SCH-057)."""

    def __init__(self, engine: FakeEngine) -> None:
        super().__init__(engine)
        self._running = 0

    async def run_verb(self, verb: Callable[[], T]) -> T:
        self._running += 1
        assert self._running == 1, "two pieces of engine work at once"
        try:
            return await super().run_verb(verb)
        finally:
            self._running -= 1


async def play(story: str | Story, *, check: Callable[[Harness, Stage], None] | None = None) -> Stage:
    """Play a story to its end; raises AssertionError with every sentence that is not true.

    `check` may look at more, once all have their answers.
    """
    story = parse(story) if isinstance(story, str) else story
    slots = story.settings.get("parallel", 1)
    window = {"side_max_len": story.settings["side_max_len"]} if "side_max_len" in story.settings else {}
    engine = FakeEngine(slots=slots, worst=(GIB, 0), **window)
    stage = Stage(story, trio.current_time(), story.memory_gib)
    more = {"available": stage.free}
    async with open_harness(engine=engine, engine_host=OneTurnHost(engine), more=more, **story.settings) as harness:
        async with trio.open_nursery() as nursery:
            for act in story.acts:
                await trio.sleep_until(stage.begun_at + act.at)
                await trio.testing.wait_all_tasks_blocked()
                _do(harness, stage, act, nursery)
            with trio.fail_after(DAY_S):
                for part in stage.parts.values():
                    await part.call.finished.wait()
        await trio.testing.wait_all_tasks_blocked()
        _collect(harness, stage)
        await _check_nothing_left(harness, stage)
        for who, part in stage.parts.items():
            _check_answer(stage, who, part)
        for expect in story.expects:
            _check(stage, expect)
        if check is not None:
            check(harness, stage)
    assert not stage.wrong, "\n".join(["not true:", *stage.wrong])
    return stage


def text_of(who: str, ask: Ask) -> str:
    """What the box says to it, all of it."""
    if ask.kind == "title":
        return SIDE_ANSWER
    return "".join(_words(who, ask.tokens))


def _words(who: str, count: int) -> list[str]:
    return [f" {who}{at}" for at in range(count)]


def body_of(who: str, ask: Ask, before: Part | None) -> dict[str, Any]:
    """The request that asks for it, after what was said `before`."""
    more: dict[str, Any] = {"model": "M", "stream": ask.streamed}
    if ask.choices > 1:
        more["n"] = ask.choices
    if ask.limit is not None:
        more["max_tokens"] = ask.limit
    if not ask.thinks:
        more["reasoning_effort"] = "none"
    words = "word " * ask.prompt
    if ask.kind == "title":
        (shape,) = (shape for shape in SIDE_SHAPES if shape.id == "opencode-title")
        system = {"role": "system", "content": f"{shape.opens[0]} {words}".strip()}
        return {"messages": [system, {"role": "user", "content": f"Name what {who} does."}], **more}
    thinking = ["<think>", *_words("hm", ask.thinking), "</think>"] if ask.thinking else []
    script: dict[str, Any] = {"say": [*thinking, *_words(who, ask.tokens)], "token_ms": ask.token_ms}
    script |= {"prefill_ms_per_token": ask.prompt_ms} if ask.prompt_ms else {}
    script |= {"fail_at": ask.fails_at} if ask.fails_at is not None else {}
    script |= {"block": ask.block} if ask.block > 1 else {}
    content: Any = f"{words}{fake(**script)}"
    if ask.has_image:
        content = [{"type": "text", "text": content}, {"type": "image_url", "image_url": {"url": IMAGE}}]
    said: list[dict[str, Any]] = []
    if ask.kind == "next" and before is not None:
        said = [*before.body["messages"], {"role": "assistant", "content": before.call.text}]
    return {"messages": [*said, {"role": "user", "content": content}], **more}


def _do(harness: Harness, stage: Stage, act: Act, nursery: trio.Nursery) -> None:
    match act.what:
        case "asks" if act.ask is not None:
            body = body_of(act.who, act.ask, stage.parts.get(act.who))
            headers = {"user-agent": act.ask.agent, "x-request-id": act.who}
            call = harness.client.start(CHAT, body, headers=headers)
            part = stage.parts[act.who] = Part(act.ask, body, call, trio.current_time())
            nursery.start_soon(_note_end, part)
        case "leaves":
            stage.parts[act.who].is_cut = True
            stage.parts[act.who].call.leave()
        case "stalls":
            stage.parts[act.who].is_cut = True
            stage.parts[act.who].call.stall()
        case "memory":
            stage.free_gib = act.amount
        case "drains":
            nursery.start_soon(drain, harness.service.context)
        case _:
            raise AssertionError(act)


async def _note_end(part: Part) -> None:
    await part.call.finished.wait()
    part.ended_at = trio.current_time()


def _collect(harness: Harness, stage: Stage) -> None:
    """Each one's row; the order of rows is that of ends, so they are told apart by their ids."""
    rows = {outcome.request_id: outcome for outcome in harness.outcomes}
    for part in stage.parts.values():
        part.outcome = rows.get(part.call.headers.get("x-request-id", ""))
    cut = [part for part in stage.parts.values() if part.outcome is None]
    named = {part.outcome.request_id for part in stage.parts.values() if part.outcome is not None}
    left = [outcome for outcome in harness.outcomes if outcome.request_id not in named]
    if len(cut) == 1 and left:  # it left before it had any header
        cut[0].outcome = left[-1]


async def _check_nothing_left(harness: Harness, stage: Stage) -> None:
    sight = await harness.look()
    if sight.waiting or sight.running or sight.lane:
        stage.say("nothing is left", f"{sight.waiting} wait, {sight.lane} of the lane, and {sight.running} run")
    if sight.memory is not None and sight.memory.reserved:
        stage.say("nothing is left", f"{sight.memory.reserved} bytes are reserved")
    if any(phase != "idle" for phase in sight.slots.values()):
        stage.say("nothing is left", f"slots are {dict(sight.slots)}")
    if open_ones := harness.engine.state()["open_sequences"]:
        stage.say("nothing is left", f"{open_ones} sequences are open")
    ids = [outcome.request_id for outcome in harness.outcomes]
    if len(ids) != len(set(ids)):
        stage.say("every request ends once", "some have two rows")


def _check_answer(stage: Stage, who: str, part: Part) -> None:
    """All of it has come, unless the story says otherwise."""
    ask = part.ask
    is_cut = ask.limit is not None and ask.kind != "title" and ask.limit <= ask.tokens + ask.thinking + 2
    if part.is_cut or is_cut or ask.fails_at is not None:
        return
    if stage.story.about(who, *REFUSALS) or stage.story.about(who, "ends with", "writes"):
        return
    if part.call.status != 200 or part.error:
        stage.say(f"{who} gets an answer", f"it got {part.call.status} {part.error or part.call.body[:200]!r}")
    elif part.ask.choices == 1 and part.call.text.strip() != text_of(who, part.ask).strip():
        stage.say(f"{who} gets all of it", f"it got {part.call.text[:100]!r}")


def _check(stage: Stage, expect: Expect) -> None:
    part = stage.parts[expect.who]
    if but := CHECKS[expect.kind](stage, part, expect.gaps):
        stage.say(expect.line, but)


Check = Callable[[Stage, Part, Mapping[str, str]], str | None]


def _time(what: str, how: str) -> Check:
    def check(stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
        moment = (part.started_at if what == "starts" else part.ended_at) - stage.begun_at
        if how == "before":
            other = stage.parts[gaps["other"]]
            theirs = (other.started_at if what == "starts" else other.ended_at) - stage.begun_at
            return None if moment < theirs else f"at {moment:.2f} s against {theirs:.2f} s"
        meant = seconds(gaps["at"])
        step = part.ask.token_ms / 1e3
        is_so = moment <= meant + NEAR_S if how == "by" else meant - NEAR_S <= moment <= meant + step + NEAR_S
        return None if is_so else f"at {moment:.2f} s"

    return check


def _ends_with(_stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
    reason = part.outcome.finish_reason if part.outcome else None
    return None if reason == gaps["finish"] else f"it ended with {reason}"


def _refused(stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
    if part.call.status != int(gaps["status"]):
        return f"its status is {part.call.status}"
    code = part.call.json["error"]["code"]
    return f"the code is {code}" if code != gaps["code"] else _ended_at(stage, part, gaps)


def _refused_in_stream(stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
    told = part.error
    if part.call.status != 200 or not told:
        return f"it got {part.call.status} and {told}"
    if (told.get("code"), told.get("status")) != (gaps["code"], int(gaps["status"])):
        return f"it was told {told}"
    return _ended_at(stage, part, gaps)


def _ended_at(stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
    moment = part.ended_at - stage.begun_at
    return None if "at" not in gaps or abs(moment - seconds(gaps["at"])) <= NEAR_S else f"at {moment:.2f} s"


def _told(stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
    comments = [(at - stage.begun_at, words) for at, words in _comments(part)]
    found = [at for at, words in comments if gaps["words"] in words]
    if not found or ("at" in gaps and not any(abs(at - seconds(gaps["at"])) <= NEAR_S for at in found)):
        return f"it was told {comments[:12]}"
    return None


def _comments(part: Part) -> list[tuple[float, str]]:
    return part.call.comments if part.is_stream else []


def _never_told(_stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
    found = [words for _, words in _comments(part) if gaps["words"] in words]
    return f"it was told {found[0]!r}" if found else None


def _slot(_stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
    slot = part.outcome.slot if part.outcome else None
    return None if slot == int(gaps["slot"]) else f"its slot is {slot}"


def _lane(_stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
    lane = part.outcome.lane if part.outcome else None
    return None if lane == gaps.get("lane") else f"its lane is {lane}"


def _waits(_stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
    row = part.outcome
    waited = None if row is None else row.wait_own_ms if gaps["what"] == "own work" else row.wait_mem_ms
    return None if abs((waited or 0) / 1e3 - float(gaps["s"])) <= 0.1 else f"it waited {waited} ms"


def _resumes(_stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
    rows = (part.outcome.engine_cached if part.outcome else None) or 0
    return None if rows >= int(gaps["rows"].replace(",", "")) else f"it resumed {rows}"


def _writes(_stage: Stage, part: Part, gaps: Mapping[str, str]) -> str | None:
    written = (part.outcome.completion_tokens if part.outcome else None) or 0
    return None if written == int(gaps["n"].replace(",", "")) else f"it wrote {written}"


CHECKS: Mapping[str, Check] = {
    **{f"{what} {how}": _time(what, how) for what in ("starts", "ends") for how in ("at", "by", "before")},
    "ends with": _ends_with,
    "refused": _refused,
    "refused in stream": _refused_in_stream,
    "told": _told,
    "never told": _never_told,
    "slot": _slot,
    "lane": _lane,
    "waits": _waits,
    "resumes": _resumes,
    "writes": _writes,
}
