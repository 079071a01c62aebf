"""What a secret looks like: the kinds of table 14.3 and their shapes.

A shape is a regular expression that begins with the literal it is known by, so a long text is searched for it at the
speed of a plain search, and none of them looks further than the run of characters at that place or a fixed number of
them: the time is linear in the text, whatever it holds. All but the `cased` ones are matched on the text in lower case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

__all__ = ["KINDS", "LEAST", "LONG_BODY", "MASK_ONLY", "NAME", "PLACEHOLDERS", "SHAPES", "KindName", "Needs", "Shape"]

KindName: TypeAlias = Literal[
    "private_key",
    "auth_header",
    "service_token",
    "jwt",
    "url_credentials",
    "connection_string",
    "assigned_secret",
    "api_key",
    "bearer",
    "assignment",
    "pin",
]
Needs: TypeAlias = Literal["letter", "letter and digit", "digits"]
"""What a value must hold to be a span (MEM-009)."""

KINDS: Final[tuple[KindName, ...]] = get_args(KindName)
"""In the table's order: a value that has two kinds counts as the first."""
MASK_ONLY: Final = frozenset({"api_key", "bearer", "assignment", "pin"})
"""Of these the refusal (MEM-007) takes no notice."""
LONG_BODY: Final = 16
LEAST: Final = 4
"""A shorter value is no span: it would be found everywhere."""
PLACEHOLDERS: Final = frozenset(
    {"password", "passwd", "pass", "secret", "token", "apikey", "api_key", "changeme", "null", "none", "undefined"}
)
"""Words that documentation has in a secret's place, in lower case."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How one kind is found: the secret is the group `value` or `bare`, or else the whole match."""

    kind: KindName
    pattern: re.Pattern[str]
    needs: Needs = "letter"
    cased: bool = False
    keeps: str = ""
    """A prefix that stays where the value is masked."""
    short: KindName | None = None
    """What it is in its short form, where `body` has less than 16 characters or `bare` is the value."""


_PREFIXES = (
    "sk-", "sk_live_", "rk_live_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "AIza",
    "hf_", "npm_", "pypi-",
)  # fmt: skip
_NAMES = ("password", "passwd", "secret", "token", "api[_-]?key")
_MORE = r"(?:[_-]?(?:access|key|value|base|string|\d{1,3})){0,3}"
"""What may follow in the name: `secret_access_key` and `token_2` are secrets, `tokenizer` and `token_url` are none."""
NAME: Final = re.compile(f"(?:{'|'.join(_NAMES)}){_MORE}$")
"""A name, in lower case, that ends as a secret's does."""
_TOKEN = r"[\w.~+/=-]"
_QUOTED = r"[^\s\\\"'`<>(){}\[\]]{6,512}+"
_BARE = r"[^\s\\\"'`<>(){}\[\],;]{6,512}+(?![(\[])"


def _service_token(prefix: str) -> Shape:
    known = re.escape(prefix)
    # The prefix begins a word; behind the literal, so that the search is for the literal.
    pattern = re.compile(rf"{known}(?<!\w{known})(?P<body>[\w-]{{6,}}+)", re.ASCII)
    return Shape("service_token", pattern, cased=True, keeps=prefix, short="api_key")


def _assignment(name: str) -> Shape:
    value = rf"(?:(?P<quote>[\"'`])(?P<value>{_QUOTED})(?P=quote)|(?P<bare>{_BARE}))"
    pattern = re.compile(rf"{name}{_MORE}[\"']?[ \t]{{0,8}}(?::=|=>|[=:])[ \t]{{0,8}}{value}", re.ASCII)
    return Shape("assigned_secret", pattern, short="assignment")


def _connection(name: str) -> Shape:
    value = r"[^\s;\"'=]{1,512}+={0,2}"
    in_list = rf"(?:(?<=;{name}=)|(?<=; {name}=)|(?={value};))"
    return Shape("connection_string", re.compile(f"{name}={in_list}(?P<value>{value})"), needs="letter and digit")


_PEM = r"-----{} [A-Z0-9 ]{{0,40}}PRIVATE KEY-----"

SHAPES: Final[tuple[Shape, ...]] = (
    Shape(
        "private_key",
        re.compile(rf"{_PEM.format('BEGIN')}(?P<value>.*?)(?:{_PEM.format('END')}|\Z)", re.DOTALL),
        cased=True,
    ),
    Shape(
        "auth_header",
        re.compile(
            rf"authorization[\"']?\s{{0,8}}[:=]\s{{0,8}}[\"']?(?:bearer|basic)\s{{1,8}}(?P<value>{_TOKEN}{{16,}}+)",
            re.ASCII,
        ),
    ),
    *(_service_token(prefix) for prefix in _PREFIXES),
    Shape(
        "jwt",
        re.compile(r"eyJ(?<![\w-]eyJ)[\w-]{5,}+\.[\w-]{2,}+\.[\w-]{5,}+", re.ASCII),
        cased=True,
    ),
    Shape(
        "url_credentials",
        re.compile(r"://(?<=[a-z0-9]://)[^\s/:@\"'<>]{0,128}+:(?P<value>[^\s/@\"'<>]{1,256}+)@"),
    ),
    *(_connection(name) for name in ("password", "pwd", "accountkey", "sharedaccesskey")),
    *(_assignment(name) for name in _NAMES),
    Shape("bearer", re.compile(rf"bearer\s{{1,8}}(?P<value>{_TOKEN}{{6,}}+)", re.ASCII), needs="letter and digit"),
    Shape(
        "pin",
        re.compile(
            r"pin(?<![a-z]pin)(?:[ _-](?:code|number))?[\"']?\s{0,8}(?:[:=]|is\s)\s{0,8}[\"']?"
            r"(?P<value>\d{4,12}+)(?!\w)",
            re.ASCII,
        ),
        needs="digits",
    ),
)
