"""What the live view says, in words (OBS-068): who asks, what a request does, why it waits, how it ended.

The page only formats numbers and times. Tool names are said, arguments never (OBS-072).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tandem.live.event import ActivityState, DecodeNow, Holder, PrefillNow, QueueNow, Tone, ToolNow
from tandem.live.figures import counted
from tandem.store.outcome import Outcome

__all__ = [
    "arriving",
    "busy",
    "calling",
    "clip",
    "draining",
    "duration",
    "ended",
    "finishing",
    "gone",
    "idle",
    "of_choice",
    "of_guest",
    "own_work",
    "reading",
    "short",
    "thinking",
    "together",
    "tone",
    "unknown",
    "waiting",
    "who",
    "writing",
    "yielding",
]

GIB = 1 << 30
NAMED = 4
"""So many slots the engine's sentence tells of."""
LONGEST_NAME = 80
"""A model or tool may be called anything."""
KINDS: Mapping[str, str] = MappingProxyType({"anon": "an unnamed client", "chat-app": "the chat page"})
ENDPOINTS: Mapping[str, str] = MappingProxyType({"chat": "chat", "completions": "completion"})
DOES: Mapping[ActivityState, str] = MappingProxyType(
    {
        "arriving": "arriving",
        "queued": "waiting",
        "prefilling": "reading its prompt",
        "thinking": "thinking",
        "writing": "writing",
        "tool_call": "writing a tool call",
        "finishing": "sending its last pieces",
        "done": "done",
        "unknown": "running",
    }
)
"""After `which has been`."""
OWN: Mapping[str, str] = MappingProxyType(
    {
        "summary": "prepares a summary ahead",
        "reader": "reads the last conversation on",
        "deciders": "asks a decision model",
        "probe": "runs a probe",
    }
)
"""The jobs of idle windows (SCH-080), after `the service`."""
REFUSALS: Mapping[str, str] = MappingProxyType(
    {
        "queue_full": "the queue was full",
        "queue_timeout": "it waited in the queue as long as it may",
        "draining": "the server is draining",
        "memory": "there was no memory for it",
        "context_length_exceeded": "its prompt is too long",
    }
)
TONES: Mapping[str, Tone] = MappingProxyType({"error": "bad", "timeout": "bad", "refused": "warn", "abandoned": "warn"})
"""Of an end that is not a good one."""


def clip(name: str) -> str:
    """A name that somebody else has chosen, at a length that can be shown."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def who(kind: str, endpoint: str) -> str:
    """`opencode's chat`."""
    return f"{KINDS.get(kind, kind)}'s {ENDPOINTS.get(endpoint, endpoint)}"


def duration(seconds: float) -> str:
    """`40 ms`, `1.4 s`, `12 s`, `3 min`, `2 h 5 min`."""
    if seconds < 1:
        return f"{math.floor(1e3 * seconds)} ms"
    return f"{math.floor(seconds * 10) / 10:.1f} s" if seconds < 10 else _whole(math.floor(seconds))


def _whole(seconds: float) -> str:
    if seconds < 120:
        return f"{math.ceil(seconds)} s"
    minutes = int(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def arriving() -> str:
    return "arrives: its body, images and prompt are being read"


def waiting(
    queue: QueueNow, running: int, estimate: str | None = None, own: str | None = None, *, only_slot_0: bool = False
) -> str:
    """Where it stands, why, and for how long yet: the answer to `why does mine wait` (SCH-028).

    `only_slot_0`: a side slot is free that is not for this one (SCH-049, SCH-051).
    """
    if queue.missing_bytes:
        return short(queue.missing_bytes, queue.place or 1)
    place = "its place is not known yet" if queue.place is None else f"{_ordinal(queue.place)} in line"
    if queue.is_lane:
        place = f"{_ordinal(queue.place or 1)} in the side lane"
    head = "waits for slot 0" if only_slot_0 and not queue.is_lane else "waits"
    return f"{head}: {place}{_why(queue, running, own)}{'' if estimate is None else f'; {estimate} to go'}"


def _why(queue: QueueNow, running: int, own: str | None) -> str:
    holder = queue.holder
    match queue.reason:
        case "own":
            return f", the service finishes its background work first{'' if own is None else f' ({_own(own)})'}"
        case "deciding":
            return ", the service is deciding how to handle it"
        case _ if holder is None:
            return ""
        case _ if queue.is_lane:
            return f", to be served between two steps of {who(holder.client_kind, holder.endpoint)}"
        case "side":
            return f", a client's side request runs first: {_holding(holder)}"
        case _:
            return f" behind {_holding(holder, running - 1)}"


def short(missing: int, place: int) -> str:
    """What one waits for that has a slot, and no memory to read its prompt with (SCH-073)."""
    return f"waits for memory: {missing / GIB:.1f} GiB short, {_ordinal(place)} of those who lack it"


def _holding(holder: Holder, others: int = 0) -> str:
    name = who(holder.client_kind, holder.endpoint) + (f" and {others} more" if others > 0 else "")
    seconds = math.floor(holder.since_ms / 1e3)
    return f"{name}, which has been {DOES[holder.state]} for {_whole(seconds) if seconds else 'less than 1 s'}"


def reading(prefill: PrefillNow) -> str:
    parts = [f"reads the prompt: {prefill.done:,} of {_tokens(prefill.total)}"]
    if prefill.image is not None:
        parts.append(f"image {prefill.image.number} of {prefill.image.of}")
    if prefill.cached:
        parts.append(f"{prefill.cached:,} from the cache")
    if prefill.eta_s is not None and prefill.eta_s >= 1:
        parts.append(f"about {_whole(prefill.eta_s)} left")
    return ", ".join(parts)


def thinking(decode: DecodeNow) -> str:
    return f"thinks: {_written(decode.thinking_tokens, decode.rate)}" if decode.thinking_tokens else "begins to think"


def writing(decode: DecodeNow) -> str:
    return f"writes: {_written(decode.content_tokens, decode.rate)}" if decode.content_tokens else "begins to write"


def calling(tool: ToolNow | None) -> str:
    return "begins a tool call" if tool is None else f"calls {tool.name} ({counted(tool.bytes, 'byte')} of arguments)"


def finishing() -> str:
    return "sends its last pieces"


def unknown() -> str:
    return "cannot be looked at"


def of_choice(label: str, choice: int, choices: int) -> str:
    """Several choices are written one after the other."""
    return f"{label} (choice {choice + 1} of {choices})" if choices > 1 else label


def gone(label: str) -> str:
    return f"{label}; its client has left"


def of_guest(label: str, holder: Holder | None) -> str:
    """One whose answer a holder computes between two steps of its own."""
    of = "another request" if holder is None else who(holder.client_kind, holder.endpoint)
    return f"{label}, between two steps of {of}"


def own_work(name: str) -> str:
    return f"the service {_own(name)}"


def _own(name: str) -> str:
    return OWN.get(name, f"runs its own work, {name}")


def idle(own: str | None = None) -> str:
    return "idle: nothing runs" if own is None else f"idle: no request runs, {own_work(own)}"


def busy(running: int, waiting: int) -> str:
    """Where no request is named."""
    return f"busy: {running} running, {waiting} waiting"


def yielding(own: str, waiting: int) -> str:
    """Requests have come while own work holds the engine."""
    return f"{own_work(own)} and yields at its next chunk; {waiting} waiting"


def draining(does: str | None) -> str:
    """`does` is what is still done."""
    return "drains: nothing runs any more" if does is None else f"drains, takes no more requests; {does}"


def together(sentences: Sequence[tuple[int, str]], guests: int) -> str:
    """The engine's sentence: what those do that hold a slot, each with its slot where there are several."""
    several = len(sentences) > 1
    named = [f"slot {slot}: {said}" if several else said for slot, said in sentences[:NAMED]]
    if len(sentences) > NAMED:
        named.append(f"{len(sentences) - NAMED} more {'runs' if len(sentences) == NAMED + 1 else 'run'}")
    if guests:
        named.append(f"{counted(guests, 'short request')} between {'the steps of slot 0' if several else 'its steps'}")
    return "; ".join(named)


def ended(outcome: Outcome, tool: str | None) -> str:
    """The sentence of a request's end."""
    written = _tokens(outcome.completion_tokens or 0)
    spent = duration(outcome.total_ms / 1e3)
    match outcome.finish_reason:
        case "refused":
            return f"refused: {_refusal(outcome)}"
        case "error":
            return f"failed: an error inside the server, after {written}"
        case "timeout":
            return f"stopped: the time for one request was over, after {written}"
        case "abandoned" if outcome.completion_tokens:
            return f"its client left after {written}"
        case "abandoned":
            return f"its client left after {spent}, before the first token"
        case "length":
            return f"done: length, it reached its limit of {written}"
        case "tool_calls":
            return f"done: tool_calls, {_called(outcome, tool)}, {written} in {spent}"
        case reason:
            return f"done: {reason}, {written} in {spent}"


def tone(finish_reason: str) -> Tone:
    return TONES.get(finish_reason, "ok")


def _refusal(outcome: Outcome) -> str:
    code = outcome.error_type or ""
    return REFUSALS.get(code, f"the request was not valid ({outcome.status}{f', {code}' if code else ''})")


def _called(outcome: Outcome, tool: str | None) -> str:
    calls = outcome.tool_calls or 0
    if tool is None:
        return f"made {counted(calls, 'call')}"
    return f"called {tool}" if calls <= 1 else f"made {calls} calls, the last of {tool}"


def _written(tokens: int, rate: float | None) -> str:
    return _tokens(tokens) + (f" at {_rate(rate)}/s" if rate else "")


def _rate(rate: float) -> str:
    return f"{rate:.1f}" if rate < 10 else f"{rate:.0f}"


def _tokens(count: int) -> str:
    return counted(count, "token")


def _ordinal(place: int) -> str:
    if place == 1:
        return "next"
    ends = {1: "st", 2: "nd", 3: "rd"}
    end = "th" if place % 100 in (11, 12, 13) else ends.get(place % 10, "th")
    return f"{place}{end}"
