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
| `choose`               | what a hidden question is answered: `{"code_edit": 0.9}`, options by their name or letter; |
|                        | the others share the rest; absent: all are alike                                           |

With `loop`, and with `eos` false, the end token never comes of the script itself.

`<think>`, `</think>`, `<tool_call>` and `</tool_call>` in a string, or as one whole item of a list, are the single
special tokens that a model writes there; part of an item, they are text like any other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import msgspec

from tandem.engine.errors import BadInput
from tandem.engine.fake.vocabulary import SCRIPT_MARKERS, cut
from tandem.engine.text.side import side_shape

__all__ = ["FIXED_SENTENCE", "SIDE_ANSWER", "Piece", "Script", "find_script", "parse_script"]

FIXED_SENTENCE: Final = "This is the fake engine, and it says the same sentence to everybody."
SIDE_ANSWER: Final = "Title"

_MARK = re.compile(r"@fake\s*(?=\{)")
_MARKERS = re.compile("(" + "|".join(SCRIPT_MARKERS) + ")")
_OPENER, _CLOSER = b"<think>", b"</think>"
_SPELLED = {token: name.encode() for name, token in SCRIPT_MARKERS.items()}

Piece: TypeAlias = bytes | int
"""What one token is to say: its bytes, or the id of a special token."""

_Ms: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=3_600_000)]
_Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]


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
    choose: dict[str, _Share] = msgspec.field(default_factory=dict)


class _Top(_Turn, frozen=True, forbid_unknown_fields=True):
    turns: tuple[_Turn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One turn's script. `says` are the pieces of each generation, one a token."""

    says: tuple[tuple[Piece, ...], ...]
    loop: bool = False
    eos: bool = True
    token_ms: float = 0.0
    prefill_ms_per_token: float = 0.0
    block: int = 1
    fail_at: int | None = None
    choose: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of_text(cls, text: str) -> Script:
        return cls(says=(tuple(cut(text)),))

    @property
    def closes_thinking(self) -> bool:
        """It begins inside the thinking block: `say` closes one that it does not open."""
        text = b"".join(_SPELLED[piece] if isinstance(piece, int) else piece for piece in self.says[0])
        closer, opener = text.find(_CLOSER), text.find(_OPENER)
        return closer >= 0 and not 0 <= opener < closer

    def shares(self, options: Sequence[bytes]) -> tuple[float, ...]:
        """Probabilities of a question's options, each given as the text of its first token (ENG-041)."""
        named = {at: share for at, option in enumerate(options) if (share := self._share(option)) is not None}
        if not named or (len(named) == len(options) and not any(named.values())):
            return (1.0 / len(options),) * len(options)
        rest = max(1.0 - sum(named.values()), 0.0) / max(len(options) - len(named), 1)
        shares = [named.get(at, rest) for at in range(len(options))]
        return tuple(share / sum(shares) for share in shares)

    def _share(self, option: bytes) -> float | None:
        """Of the name that begins with this token; several may, and the first counts."""
        return next((share for name, share in self.choose if option and name.encode().startswith(option)), None)


def find_script(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> Script:
    """The script in force for a chat as the client sent it. Raises `BadInput` with the path of the message."""
    if side_shape(messages, has_tools=bool(tools)) is not None:
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
        choose=tuple(spec.choose.items()),
    )


def _pieces(say: _Say, path: str) -> tuple[Piece, ...]:
    if isinstance(say, str):
        return tuple(piece for part in _MARKERS.split(say) for piece in _cut_part(part))
    return tuple(_piece(item, f"{path}[{at}]") for at, item in enumerate(say))


def _cut_part(part: str) -> Sequence[Piece]:
    marker = SCRIPT_MARKERS.get(part)
    return cut(part) if marker is None else (marker,)


def _piece(item: str | _Bytes, path: str) -> Piece:
    if isinstance(item, str):
        if item in SCRIPT_MARKERS:
            return SCRIPT_MARKERS[item]
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


def _content(message: Mapping[str, Any]) -> str:
    """The message's text, without its images."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join([part["text"] for part in content if part["type"] == "text"])
    return content if isinstance(content, str) else ""
