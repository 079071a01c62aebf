"""What the fake engine is to say, and where it is told: `@fake {…}` in the newest user message (ENG-187).

| field                  | meaning                                                                                    |
|------------------------|--------------------------------------------------------------------------------------------|
| `say`                  | a string, cut into word-like tokens; or a list of one item a token, a string or            |
|                        | `{"bytes": "f09f"}`; absent: the fixed sentence                                            |
| `then`                 | further `say` values: the 2nd, 3rd … generation inside the request (`FakeSeq.next_say`)    |
| `turns`                | scripts for the later turns, complete in themselves; entry k-1 serves when k assistant     |
|                        | messages follow the user message                                                           |
| `loop`                 | repeat `say` until the limit                                                               |
| `eos`                  | false: after `say` the fixed sentence follows, over and over, until the limit              |
| `token_ms`             | simulated milliseconds a token                                                             |
| `prefill_ms_per_token` | and a prompt token                                                                         |
| `block`                | tokens a round                                                                             |
| `fail_at`              | index of the output token at which the engine raises; those before it stand                |

With `loop`, and with `eos` false, the end token never comes of the script itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import msgspec

from tandem.engine.errors import BadInput
from tandem.engine.fake.vocabulary import cut

__all__ = ["FIXED_SENTENCE", "SIDE_ANSWER", "Script", "find_script", "parse_script"]

FIXED_SENTENCE: Final = "This is the fake engine, and it says the same sentence to everybody."
SIDE_ANSWER: Final = "Title"

# The openings of SES-009: of the first message, a system one; of the only message, a user one.
_SIDE_SYSTEM = (
    "You are a title generator. You output ONLY a thread title. Nothing else.",
    "Summarize what was done in this conversation. Write like a pull request description.",
    "You name chat sessions. Given the user's opening message, write a title that lets them find this conversation "
    "again in a list.",
)
_SIDE_USER = (
    "### Task: Generate a concise title",
    "### Task: Generate 1-3 broad tags",
    "### Task: Predict 3-5 useful messages",
    "### Task: Suggest 3-5 relevant follow-up",
)
_SIDE_HEAD = 1_000

_MARK = re.compile(r"@fake\s*(?=\{)")

_Ms: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=3_600_000)]


class _Bytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bytes: str


_Say: TypeAlias = str | list[str | _Bytes]


class _Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    say: _Say = FIXED_SENTENCE
    then: tuple[_Say, ...] = ()
    loop: bool = False
    eos: bool = True
    token_ms: _Ms = 0.0
    prefill_ms_per_token: _Ms = 0.0
    block: Annotated[int, msgspec.Meta(ge=1, le=32)] = 1
    fail_at: Annotated[int, msgspec.Meta(ge=0)] | None = None


class _Top(_Turn, frozen=True, forbid_unknown_fields=True):
    turns: tuple[_Turn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One turn's script. `says` are the pieces of each generation, one a token."""

    says: tuple[tuple[bytes, ...], ...]
    loop: bool = False
    eos: bool = True
    token_ms: float = 0.0
    prefill_ms_per_token: float = 0.0
    block: int = 1
    fail_at: int | None = None

    @classmethod
    def of_text(cls, text: str) -> Script:
        return cls(says=(tuple(cut(text)),))


def find_script(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> Script:
    """The script in force for a chat as the client sent it. Raises `BadInput` with the path of the message."""
    if _is_side_request(messages, tools):
        return Script.of_text(SIDE_ANSWER)
    newest = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=None)
    if newest is None:
        return Script.of_text(FIXED_SENTENCE)
    turn = sum(message["role"] == "assistant" for message in messages[newest:])
    return parse_script(_content(messages[newest]), f"messages[{newest}].content", turn)


def parse_script(text: str, param: str, turn: int = 0) -> Script:
    """The first script in `text`, without one the fixed sentence. Raises `BadInput` that names `param`."""
    mark = _MARK.search(text)
    if mark is None:
        return Script.of_text(FIXED_SENTENCE)
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    try:
        top = msgspec.convert(decoder.raw_decode(text, mark.end())[0], _Top)
        scripts = [_script(spec, path) for spec, path in _turns(top)]
    except json.JSONDecodeError as error:
        # The decoder's own message has no text of the client, its position counts from the message's start.
        raise BadInput(param, f"the @fake script is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise BadInput(param, "the @fake script is nested too deeply") from None
    except ValueError as error:  # msgspec's, and those of this file
        raise BadInput(param, f"the @fake script is wrong: {str(error).replace('$.', '')}") from None
    return scripts[turn] if turn < len(scripts) else Script.of_text(FIXED_SENTENCE)


def _turns(top: _Top) -> list[tuple[_Turn, str]]:
    return [(top, ""), *((turn, f"turns[{at}].") for at, turn in enumerate(top.turns))]


def _script(spec: _Turn, path: str) -> Script:
    named = [(spec.say, f"{path}say"), *((say, f"{path}then[{at}]") for at, say in enumerate(spec.then))]
    if spec.loop and not spec.say:
        raise ValueError(f"`loop` needs something in `{path}say` to repeat")
    return Script(
        says=tuple(_pieces(say, name) for say, name in named),
        loop=spec.loop,
        eos=spec.eos,
        token_ms=spec.token_ms,
        prefill_ms_per_token=spec.prefill_ms_per_token,
        block=spec.block,
        fail_at=spec.fail_at,
    )


def _pieces(say: _Say, path: str) -> tuple[bytes, ...]:
    if isinstance(say, str):
        return tuple(cut(say))
    return tuple(_piece(item, f"{path}[{at}]") for at, item in enumerate(say))


def _piece(item: str | _Bytes, path: str) -> bytes:
    if isinstance(item, str):
        piece = b"".join(cut(item))
    else:
        try:
            piece = bytes.fromhex(item.bytes)
        except ValueError:
            raise ValueError(f"`{path}.bytes` must be pairs of hexadecimal digits") from None
    if not piece:
        raise ValueError(f"`{path}` is empty, and a token has at least one byte")
    return piece


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _is_side_request(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> bool:
    if tools or not messages:
        return False
    head = " ".join(_content(messages[0])[:_SIDE_HEAD].split())
    if messages[0]["role"] in ("system", "developer"):
        return head.startswith(_SIDE_SYSTEM)
    return len(messages) == 1 and messages[0]["role"] == "user" and head.startswith(_SIDE_USER)


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""
