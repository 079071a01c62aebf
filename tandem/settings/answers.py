"""What answers are where a request does not say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from tandem.kinds import Auto, Choice, OnOff, Real, Text, Whole
from tandem.settings.group import DAY_S, Group, setting

__all__ = ["AnswersSettings"]


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AnswersSettings(Group):
    """What answers are where a request does not say."""

    __slots__ = ()
    heading: ClassVar = "Answers"

    served_model: str = setting(Text("NAME"), "TandemLLM", help="Name of the model on the wire (/v1/models).")
    model_name: str | None = setting(
        Text("NAME"),
        None,
        shown="the checkpoint's own name",
        help="Name of the checkpoint, shown as base_model.",
    )
    default_max_tokens: int = setting(
        Whole(1, 4_194_304),
        32_768,
        help="Limit of an answer in tokens where the request names none; cut to what fits the window.",
    )
    reasoning_format: Literal["tags", "reasoning_content", "both"] = setting(
        Choice(("tags", "reasoning_content", "both")),
        "tags",
        help="Where reasoning goes if a request does not say; any value but tags holds for every client.",
    )
    reasoning_alias: bool = setting(OnOff(), True, help="Send reasoning_content under the name reasoning as well.")
    reasoning_effort: Literal["none", "off", "minimal", "low", "medium", "high", "xhigh", "max"] = setting(
        Choice(("none", "off", "minimal", "low", "medium", "high", "xhigh", "max")),
        "medium",
        help="Effort of a request that says nothing about thinking; none or off has it answer without.",
    )
    answer_reserve: int | None = setting(
        Auto(0, 4_194_304),
        None,
        shown="auto",
        help="Tokens of the limit that a thinking budget leaves to the answer; auto is a quarter, at most 2,048.",
    )
    tool_format: Literal["xml", "pythonic"] = setting(
        Choice(("xml", "pythonic")), "xml", help="Syntax in which the model writes its tool calls."
    )
    usage_default: bool = setting(OnOff(), True, help="Send usage and timings on a stream that did not ask for them.")
    no_repeat_ngram: int = setting(
        Whole(0, 1024),
        0,
        help="no_repeat_ngram_size of requests that send none, also where a plan drops a client's; 0 is none.",
    )
    regenerate: bool = setting(
        OnOff(), True, help="Sample a turn that is asked for again, so that its answer is another one."
    )
    regenerate_temperature: float = setting(
        Real(0, 2, "T"), 0.7, help="Temperature of such a turn, where its client sends no sampling."
    )
    regenerate_top_p: float = setting(
        Real(0.01, 1, "P"), 0.95, help="Its top_p: the share of probability that is drawn from."
    )
    regenerate_top_k: int = setting(
        Whole(0, 4_194_304), 20, help="Its top_k: how many tokens are drawn from; 0 is all."
    )
    prefill_heartbeat_s: float = setting(
        Real(0, DAY_S),
        5.0,
        help="A stream gets progress comments once its prompt has been read for this long; 0 turns them off.",
    )
