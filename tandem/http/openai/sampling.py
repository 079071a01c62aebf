"""Sampling, log-probability and stop fields of both routes, checked against their ranges (API, sections 6, 12, 20)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tandem.engine.verbs import SamplingRules
from tandem.http.openai.checks import MAX_INT, as_bool, as_int, as_number, as_object
from tandem.http.openai.errors import invalid

__all__ = ["MAX_STOPS", "read_chat_logprobs", "read_completion_logprobs", "read_rules", "read_stops"]

MAX_STOPS = 16
TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,9}")
PENALTY_BOUND = 1e30
"""A repetition penalty beyond this or its inverse acts like this one, and stays finite in fp32."""


def read_rules(body: Mapping[str, Any], is_token: Callable[[int], bool], logprobs: int | None) -> SamplingRules:
    """The rules of choice 0; a field that is absent keeps the default of `SamplingRules`, which is greedy (API-170).

    Raises a 400 naming the field that is out of its range (API-171).
    """
    sent = {
        "temperature": as_number(body.get("temperature"), "temperature", low=0, high=2),
        "top_p": as_number(body.get("top_p"), "top_p", low=0, high=1, above=True),
        "min_p": as_number(body.get("min_p"), "min_p", low=0, high=1),
        "top_k": _count(body, "top_k", low=-1),
        "repetition_penalty": _repetition_penalty(body),
        "presence_penalty": as_number(body.get("presence_penalty"), "presence_penalty", low=-2, high=2),
        "frequency_penalty": as_number(body.get("frequency_penalty"), "frequency_penalty", low=-2, high=2),
        "no_repeat_ngram": _count(body, "no_repeat_ngram_size", low=0),
        "seed": as_int(body.get("seed"), "seed", low=-(2**63), high=2**63 - 1),
        "draft_temperature": as_number(body.get("draft_temperature"), "draft_temperature", low=0, high=2),
        "logit_bias": _logit_bias(body.get("logit_bias"), is_token),
        "logprobs": logprobs,
    }
    rules: dict[str, Any] = {name: value for name, value in sent.items() if value is not None}
    return SamplingRules(**rules)


def _count(body: Mapping[str, Any], name: str, *, low: int) -> int | None:
    value = as_int(body.get(name), name, low=low)
    return None if value is None else min(max(value, 0), MAX_INT)


def _repetition_penalty(body: Mapping[str, Any]) -> float | None:
    value = as_number(body.get("repetition_penalty"), "repetition_penalty", low=0, above=True)
    return None if value is None else min(max(value, 1 / PENALTY_BOUND), PENALTY_BOUND)


def _logit_bias(value: Any, is_token: Callable[[int], bool]) -> dict[int, float] | None:
    biases = as_object(value, "logit_bias")
    if biases is None:
        return None
    read: dict[int, float] = {}
    for key, bias in biases.items():
        if not TOKEN_ID.fullmatch(key) or not is_token(int(key)):
            raise invalid("logit_bias", "a key of logit_bias is not a token id of the vocabulary, as a decimal string")
        number = as_number(bias, "logit_bias", low=-100, high=100)
        if number is None:
            raise invalid("logit_bias", "logit_bias must hold numbers from -100 to 100")
        read[int(key)] = number
    return read


def read_chat_logprobs(body: Mapping[str, Any]) -> int | None:
    """How many alternatives a chat wants beside each token's log-probability; None when it wants none (API-035)."""
    wanted = as_bool(body.get("logprobs"), "logprobs")
    top = as_int(body.get("top_logprobs"), "top_logprobs", low=0, high=20)
    if top is not None and not wanted:
        raise invalid("top_logprobs", "top_logprobs needs logprobs: true")
    return (top or 0) if wanted else None


def read_completion_logprobs(body: Mapping[str, Any]) -> int | None:
    """The same for a text completion, whose `logprobs` is the number itself."""
    return as_int(body.get("logprobs"), "logprobs", low=0, high=5)


def read_stops(value: Any) -> tuple[str, ...]:
    """Stop strings; an empty list is none (API-083)."""
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > MAX_STOPS:
        raise invalid("stop", f"stop must be a string or a list of up to {MAX_STOPS} strings")
    if not all(isinstance(stop, str) and stop for stop in stops):
        raise invalid("stop", "a stop string must be a string of at least one character")
    return tuple(stops)
