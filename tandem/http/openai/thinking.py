"""The shapes in which clients speak about thinking, read into one budget (API, section 13).

Three kinds of field take part: numbers, words and switches. Each kind has an order of precedence, and every field that
is there is checked, those that lose among them (API-091).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from tandem.http.openai.checks import MAX_INT, as_bool, as_int, as_object, as_word

__all__ = [
    "EFFORTS",
    "OFF",
    "Budget",
    "Effort",
    "budget_row",
    "read_budget",
    "resolve_cap",
    "resolve_reserve",
    "template_defaults",
    "template_kwargs",
]

T = TypeVar("T")
Kind: TypeAlias = Literal["number", "word", "switch"]


class Effort(NamedTuple):
    """What a word stands for."""

    word: str | None
    """What the template gets; None: no word, so that the server's default stays there."""
    cap: int | None
    """Tokens of reasoning; None: no cap."""


EFFORTS: Mapping[str, Effort] = MappingProxyType(
    {
        "none": Effort(None, None),
        "off": Effort(None, None),
        "minimal": Effort("low", 1024),
        "low": Effort("low", 1024),
        "medium": Effort("medium", 8192),
        "high": Effort(None, 16384),
        "xhigh": Effort("xhigh", None),
        "max": Effort("xhigh", None),
    }
)
OFF = frozenset({"none", "off"})
"""The words that turn thinking off."""

# The fields of each kind, in their order of precedence.
NUMBERS = (
    "max_reasoning_tokens",
    "reasoning.max_tokens",
    "thinking.budget_tokens",
    "thinking_budget",
    "thinking_token_budget",
    "thinking_budget_tokens",
    "reasoning_budget",
    "chat_template_kwargs.thinking_budget",
)
WORDS = ("chat_template_kwargs.reasoning_effort", "reasoning_effort", "reasoning.effort")
BARE = ("chat_template_kwargs.enable_thinking", "enable_thinking")
ENABLED = "reasoning.enabled"
TYPE = "thinking.type"
TYPES = ("enabled", "adaptive", "auto", "disabled")

_MEDIUM = EFFORTS["medium"].cap
_SWITCH_CAPS: Mapping[bool | str, int | None] = MappingProxyType(
    {True: _MEDIUM, "enabled": _MEDIUM, "adaptive": None, "auto": None}
)
"""The forms of `reasoning.enabled` and `thinking.type` that are a budget, by their cap (API-089)."""
_AUTO_RESERVE = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a request says about thinking.

    `field`, `kind` and `value` tell of the field that the cap comes from, also where that field sets none; they are
    None where no budget was asked for in any shape.
    """

    enabled: bool | None = None
    """On, off, or None where the template decides (API-087)."""
    switch: str | None = None
    """Path of the field that decided `enabled`; None where none did, the server's default included (API-100)."""
    effort: str | None = None
    """The word the template gets; None: the server's default stays there (API-092)."""
    cap: int | None = None
    """Tokens of reasoning, before the reserve; None: no cap (API-088)."""
    field: str | None = None
    kind: Kind | None = None
    value: int | str | bool | None = None
    """As the client sent it; a number above `MAX_INT` is read as that."""

    @property
    def asked(self) -> bool:
        """A budget was asked for (API-101): a number, 0 included, a word, or a switch that is more than a bare one."""
        return self.kind is not None


class _Sent(NamedTuple, Generic[T]):
    """A field that is there: its path and value, a word in lower case."""

    path: str
    value: T


def read_budget(body: Mapping[str, Any], kwargs: Mapping[str, Any], *, default: str = "medium") -> Budget:
    """The budget in a chat request's `body`, whose `chat_template_kwargs` are given apart.

    `default` is the server's word; `none` or `off` turns thinking off where a request says nothing at all (API-094).
    Raises `ApiError` 400 that names the first field of a wrong form.
    """
    fields = _Fields(body, kwargs)
    numbers, words, bare, switches = fields.numbers(), fields.words(), fields.bare(), fields.switches()
    enabled, switch = _enabled(bare, (*words, *switches))
    if default in OFF and not (numbers or words or bare or switches):
        enabled = False
    cap, (field, kind) = _cap(numbers, words, switches)
    value: Any = None if field is None else fields.raw(field)
    return Budget(
        enabled=enabled,
        switch=switch,
        effort=EFFORTS[words[0].value].word if words else None,
        cap=cap,
        field=field,
        kind=kind,
        value=min(value, MAX_INT) if kind == "number" else value,
    )


def resolve_reserve(limit: int, reserve: int | None) -> int:
    """Tokens of the `limit` that are kept for the answer; a `reserve` of None is `auto`, 0 keeps none (API-101)."""
    return min(_AUTO_RESERVE, limit // 4) if reserve is None else reserve


def resolve_cap(budget: Budget, *, limit: int, reserve: int | None, closer: int, wants_json: bool) -> int | None:
    """Tokens the reasoning may have, or None: the smaller of the cap asked for and what the reserve leaves of `limit`.

    `reserve` is as in `resolve_reserve`; `closer` counts the tokens of the closing phrase, which the limit holds too.
    The reserve is kept where a budget was asked for and for a JSON answer (API-101, API-102, API-131). A limit that
    does not even hold the phrase leaves no answer either way, so the reasoning is not cut for it.
    """
    kept = resolve_reserve(limit, reserve)
    if kept == 0 or limit <= closer or not (budget.asked or wants_json):
        return budget.cap
    room = max(limit - kept - closer, 0)
    return room if budget.cap is None else min(budget.cap, room)


def budget_row(
    budget: Budget, *, limit: int, reserve: int | None, cap: int | None, wants_json: bool
) -> dict[str, dict[str, Any]]:
    """What log and row say of the budget that was asked for and of the reserve (API-103, EFF-017); empty for neither.

    `cap` is what came of it all.
    """
    kept = {"reserve": resolve_reserve(limit, reserve), "limit": limit, "cap": cap}
    if budget.asked:
        return {"client_budget": {"field": budget.field, "kind": budget.kind, "asked": budget.value, **kept}}
    return {"json_reserve": kept} if wants_json and kept["reserve"] else {}


def template_kwargs(budget: Budget, sent: Mapping[str, Any]) -> dict[str, Any]:
    """What reaches the chat template of the client's `sent` keys.

    `enable_thinking` is there where it was decided, `reasoning_effort` where there is a word and thinking is not off:
    a prompt without thinking holds no sentence that asks for it (API-100). Every other key is as sent, but for a null
    `thinking_budget`, which is as good as absent (API-028).
    """
    own = ("enable_thinking", "reasoning_effort")
    kwargs = {
        name: value
        for name, value in sent.items()
        if name not in own and not (name == "thinking_budget" and value is None)
    }
    if budget.enabled is not None:
        kwargs["enable_thinking"] = budget.enabled
    if budget.effort is not None and budget.enabled is not False:
        kwargs["reasoning_effort"] = budget.effort
    return kwargs


def template_defaults(budget: Budget, default: str) -> dict[str, Any]:
    """The server's `default` word, where the client has none and thinking is not off (API-094)."""
    word = EFFORTS[default].word
    if word is None or budget.effort is not None or budget.enabled is False:
        return {}
    return {"reasoning_effort": word}


def _enabled(bare: Sequence[_Sent[bool]], others: Iterable[_Sent[Any]]) -> tuple[bool | None, str | None]:
    """On, off or neither, and the path of what decided it: a bare switch, else the first off form (API-087)."""
    if bare:
        return bare[0].value, bare[0].path
    for path, value in others:
        if value is False or value in OFF or value == "disabled":
            return False, path
    return None, None


def _cap(
    numbers: Sequence[_Sent[int]], words: Sequence[_Sent[str]], switches: Sequence[_Sent[Any]]
) -> tuple[int | None, tuple[str | None, Kind | None]]:
    """The cap with the path and kind of the field it is from (API-088 to API-090)."""
    for number in numbers:
        return min(number.value, MAX_INT) or None, (number.path, "number")
    for word in words:
        return EFFORTS[word.value].cap, (word.path, "word")
    for path, value in switches:
        if value in _SWITCH_CAPS:
            return _SWITCH_CAPS[value], (path, "switch")
    return None, (None, None)


class _Fields:
    """The fields that speak about thinking: of each kind those that are there, in their order of precedence."""

    def __init__(self, body: Mapping[str, Any], kwargs: Mapping[str, Any]) -> None:
        self._body = body
        self._within: Mapping[str, Mapping[str, Any]] = {
            "chat_template_kwargs": kwargs,
            "reasoning": as_object(body.get("reasoning"), "reasoning") or {},
            "thinking": as_object(body.get("thinking"), "thinking") or {},
        }

    def numbers(self) -> list[_Sent[int]]:
        return _present((path, as_int(self.raw(path), path, low=0)) for path in NUMBERS)

    def words(self) -> list[_Sent[str]]:
        return _present((path, as_word(self.raw(path), path, tuple(EFFORTS))) for path in WORDS)

    def bare(self) -> list[_Sent[bool]]:
        """Switches that are no budget (API-093)."""
        return _present((path, as_bool(self.raw(path), path)) for path in BARE)

    def switches(self) -> list[_Sent[bool | str]]:
        """Switches of which some forms are one (API-089)."""
        enabled = as_bool(self.raw(ENABLED), ENABLED)
        kind = as_word(self.raw(TYPE), TYPE, TYPES)
        forms: list[tuple[str, bool | str | None]] = [(ENABLED, enabled), (TYPE, kind)]
        return _present(forms)

    def raw(self, path: str) -> Any:
        """The value at the path as sent; None where there is none."""
        outer, _, name = path.rpartition(".")
        return (self._within[outer] if outer else self._body).get(name)


def _present(fields: Iterable[tuple[str, T | None]]) -> list[_Sent[T]]:
    return [_Sent(path, value) for path, value in fields if value is not None]
