"""What a `FakeEngine` knows of one sequence, of one pass over it, and of a loan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tandem.engine.fake.script import Script
from tandem.engine.fake.vocabulary import IM_END
from tandem.engine.text.prompt import Prompt
from tandem.engine.text.replay import Run, Whose, hide
from tandem.engine.verbs import Tree

__all__ = ["FakeLoan", "FakeRows", "FakeSeq", "FakeSnapshot", "rows_of"]

_CLOSER: Final = b"</think>"


@dataclass(slots=True, eq=False)
class FakeSeq:
    """A sequence: how far its prompt is read, what it has written, and where in its script it is."""

    number: int
    prompt: Prompt
    script: Script
    says: tuple[tuple[int, ...], ...]
    fixed: tuple[int, ...]
    room: int
    """Rows that it may have."""
    slot: int = 0
    read: int = 0
    output: list[int] = field(default_factory=list)
    written: int = 0
    """Tokens accepted; forced ones are in `output` only."""
    say: int = 0
    at: int = 0
    closed: bool = False
    pending: int = 0
    """Tokens of the last accept as long as it can be taken back, `accepted` drafted ones among them."""
    accepted: int = 0
    unseen: list[Run] | None = field(default_factory=list)
    """Rows of what was forced and is not shown; None where that is not known."""

    @property
    def keys(self) -> tuple[int, ...]:
        """Key ids of the rows that there are; the newest token has none yet."""
        return (*self.prompt.keys[: self.read], *self.output[:-1])

    @property
    def whose(self) -> Whose | None:
        """What is known of its rows' hidden tokens, for the next prompt of its session (ENG-111)."""
        if self.prompt.session is None or self.unseen is None or self.prompt.asks:
            return None
        rows, runs = len(self.keys), [(span.start, span.end) for span in self.prompt.spans if span.kind != "client"]
        return Whose(
            self.prompt.session,
            tuple((start, min(stop, rows)) for start, stop in [*runs, *self.unseen] if start < rows),
        )

    def force(self, ids: Sequence[int], *, hidden: bool, dropped: int) -> None:
        """`ids` now stand at its end."""
        if hidden and ids and self.unseen is not None:
            hide(self.unseen, len(self.prompt.ids) + len(self.output), len(ids), dropped)
        self.output += ids
        self.pending = 0

    def take_back(self, count: int) -> None:
        """The last `count` accepted tokens were not written: the script stands before them."""
        del self.output[len(self.output) - count :]
        self.written -= count
        self.at -= count
        self.pending -= count
        self.accepted = min(self.accepted, self.pending)

    def next_say(self) -> None:
        """Begin the next generation inside the request: the next `then`, past the last the fixed sentence."""
        self.say += 1
        self.at = 0

    @property
    def current(self) -> tuple[int, ...]:
        """What the present generation says."""
        return self.says[self.say] if self.say < len(self.says) else self.fixed

    def scripted(self, ahead: int) -> int:
        """The token that the script has `ahead` places after the next one."""
        at = self.at + ahead
        say = self.current
        if at < len(say):
            return say[at]
        if self.script.loop and say:
            return say[at % len(say)]
        return IM_END if self.script.eos else self.fixed[(at - len(say)) % len(self.fixed)]

    def to_closer(self, piece: Callable[[int], bytes]) -> int:
        """Tokens from here through the script's next `</think>`, one written in several tokens too; 0 without one."""
        say = self.current
        start = self.at % len(say) if self.script.loop and say else self.at
        ahead = say[start:] + (say[:start] if self.script.loop else ())
        seen = b""
        for count, token in enumerate(ahead, start=1):
            seen = seen[1 - len(_CLOSER) :] + piece(token)
            if _CLOSER in seen:
                return count
        return 0


@dataclass(frozen=True, slots=True)
class FakeRows:
    """One pass: the tree, and the scripted token behind the newest token and behind each depth of the tree."""

    tree: Tree
    scripted: tuple[int, ...]
    together: int = 1
    """How many slots shared the pass."""
    fault: str = ""
    """What went wrong with this one of several."""


@dataclass(frozen=True, slots=True)
class FakeSnapshot:
    read: int
    output: tuple[int, ...]
    written: int
    say: int
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class FakeLoan:
    """A loan; it takes no memory, for a fake's sequences are apart from each other."""

    holder: FakeSeq | None
    rows: int
    nbytes: int = 0


def rows_of(room: int, loan: FakeLoan | None) -> str:
    """A window in words."""
    return f"a window of {room}" if loan is None else f"the {room} rows lent to a guest"
