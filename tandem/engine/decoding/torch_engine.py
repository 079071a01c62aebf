"""The verbs over a model in torch: one sequence, one buffer, no drafter yet (ENG-182, ENG-167)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields

import torch
from torch import Tensor

from tandem.engine.caches.resident import ANCHOR_BYTES, ResidentPrefix
from tandem.engine.decoding.noise import Noise
from tandem.engine.decoding.penalties import History
from tandem.engine.decoding.sampler import sample
from tandem.engine.decoding.sequence import Rows, Snapshot, TorchSequence
from tandem.engine.decoding.sight import Eyes
from tandem.engine.errors import EngineError, NumericalError
from tandem.engine.models.model import Model
from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import EMPTY_TREE, NOTHING_SPENT, Accepted, ModelCard, Prefilled, SamplingRules, Spent, Tree

__all__ = ["TorchEngine"]


@dataclass(slots=True)
class _Counters:
    """What has been done since the load; plain numbers, no text (ENG-045, ENG-174)."""

    requests: int = 0
    prefilled_tokens: int = 0
    resumed_tokens: int = 0
    """Prompt rows that a cache supplied: tokens saved."""
    rounds: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    committed_tokens: int = 0
    forced_tokens: int = 0
    asked_tokens: int = 0
    errors: int = 0


class TorchEngine:
    """One model and one sequence at a time: while one is open, `open` of a second raises `EngineError`.

    The rows for the whole window are reserved here (ENG-033). A closed sequence's rows stay in them, and a next prompt
    that begins with the same ids resumes at the last grid line they share, or where that sequence ended (`resident`,
    `end_anchor`; ENG-037, ENG-107, ENG-110). For a model with recurrent layers a line is such a place only while the
    memory those layers had there is kept, in at most `anchor_bytes` (ENG-108). Every fault of torch inside a verb, a
    failed allocation included, becomes an `EngineError` and leaves the engine usable (ENG-043).
    """

    def __init__(
        self,
        model: Model,
        text: TextModel,
        card: ModelCard,
        *,
        noise: Noise | None = None,
        resident: bool = True,
        end_anchor: bool = True,
        anchor_bytes: int = ANCHOR_BYTES,
        eyes: Eyes | None = None,
    ) -> None:
        """Without `eyes` no prompt may hold images."""
        self._model = model
        self._text = text
        self._card = card
        self._noise = noise or Noise()
        self._eyes = eyes
        self._state = model.new_state(card.max_len)
        self._open: TorchSequence | None = None
        each = self._state.bytes_per_anchor
        limit = anchor_bytes // each if each else None
        self._resident = ResidentPrefix(card.anchor_grid, enabled=resident, end_anchor=end_anchor, limit=limit)
        self._counters = _Counters()
        self._spent = NOTHING_SPENT

    @property
    def card(self) -> ModelCard:
        return self._card

    @property
    def text(self) -> TextModel:
        return self._text

    def open(self, prompt: Prompt) -> TorchSequence:
        if self._open is not None:
            raise EngineError("a sequence is open already; this engine holds one at a time")
        if not prompt.ids:
            raise EngineError("the prompt has no tokens")
        if len(prompt.ids) >= self._card.max_len:
            raise EngineError(f"{len(prompt.ids)} prompt tokens leave no room in a window of {self._card.max_len}")
        if prompt.images and self._eyes is None:
            raise EngineError("this engine reads no images")
        anchors = self._resident.resume(prompt.keys)
        resumed, row = anchors.last, anchors.newest
        self._state.put_back(self._state.empty if resumed is None else resumed.recurrent)
        self._open = TorchSequence(prompt, History(prompt.ids), anchors, length=row, resumed=row)
        self._counters.requests += 1
        self._counters.resumed_tokens += row
        return self._open

    def close(self, seq: TorchSequence) -> None:
        if seq.closed:
            return
        seq.closed = True
        seq.row = None
        self._open = None
        # Where nothing was forwarded, what was resident before still is.
        if seq.sound and not self._resident.rows:
            self._resident.keep(seq.read_keys, seq.anchors, self._state.keep())
        self._state.put_back(self._state.empty)
        if self._eyes is not None:
            self._eyes.release()

    def prefill(self, seq: TorchSequence, upto: int) -> Prefilled:
        self._check(seq)
        ids, start = seq.prompt.ids, seq.length
        end = min(upto, len(ids), self._next_cut(start))
        if start < end:
            with self._fault(seq, "prefill"):
                hidden = self._read_prompt(seq.prompt, start, end)
                seq.row = self._row(hidden) if end == len(ids) else None
            seq.length = end
            seq.anchors.prefilled(start, end, self._state.keep())
            self._counters.prefilled_tokens += end - start
        return Prefilled(min(seq.length, len(ids)), len(ids), seq.resumed)

    def draft(self, seq: TorchSequence, limit: int) -> Tree:
        self._check(seq)
        if limit < 1:
            raise EngineError("a round commits at least one token")
        return EMPTY_TREE

    def verify(self, pairs: Sequence[tuple[TorchSequence, Tree]]) -> list[Rows]:
        return [self._verify(seq, tree) for seq, tree in pairs]

    def accept(self, seq: TorchSequence, rows: Rows, rules: SamplingRules) -> Accepted:
        """As the Protocol says. `rules.mask` is read and not committed to: the generation tells it what was written."""
        if len(seq.history) >= self._card.max_len:
            raise EngineError(f"the window of {self._card.max_len} tokens is full")
        started = time.perf_counter()
        with self._fault(seq, "accept"):
            token, logprob = sample(rows.logits, rules, seq.history, self._noise, position=rows.position)
        seq.history.extend((token,))
        seq.row = None
        spent = Spent(verify=rows.verify_ms, commit=1e3 * (time.perf_counter() - started))
        self._counters.rounds += 1
        self._counters.committed_tokens += 1
        self._spent += spent
        return Accepted((token,), () if logprob is None else (logprob,), spent=spent)

    def force(self, seq: TorchSequence, ids: Sequence[int]) -> None:
        if not ids:
            return
        self._check_read(seq)
        with self._fault(seq, "force"):
            hidden, length = self._read_on([*seq.unread, *ids], seq.length)
            row = self._row(hidden)
        seq.history.extend(ids)
        seq.length, seq.row = length, row
        self._counters.forced_tokens += len(ids)

    def ask(self, seq: TorchSequence, ids: Sequence[int], options: Sequence[int]) -> tuple[float, ...]:
        # The question's rows go where scratch rows are, the recurrent part is put back, and an accepted token that has
        # not been forwarded is forwarded again by the next verify, in a pass of its own: nothing here reaches what
        # comes later.
        self._check_read(seq)
        question = [*seq.unread, *ids]
        with self._fault(seq, "ask"):
            if question:
                stood = self._state.keep()
                row = self._row(self._read_on(question, seq.length)[0])
                self._state.put_back(stood)
            elif seq.row is None:
                raise EngineError("a question needs ids or a kept row")
            else:
                row = seq.row
            scores = row[torch.tensor(options)].double()
            if not scores.isfinite().all():
                raise NumericalError(seq.length + len(question) - 1)
            shares = torch.softmax(scores, dim=0).tolist()
        self._counters.asked_tokens += len(ids)
        return tuple(shares)

    def snapshot(self, seq: TorchSequence) -> Snapshot:
        with self._fault(seq, "snapshot"):
            state = self._state.copy(seq.length)
        output = tuple(seq.history.ids[len(seq.prompt.ids) :])
        return Snapshot(seq.prompt, output, seq.length, seq.row, state, seq.resumed, seq.anchors.all)

    def restore(self, seq: TorchSequence, snapshot: object) -> None:
        if not isinstance(snapshot, Snapshot):
            raise EngineError("not a snapshot of this engine")
        sound = seq.sound
        with self._fault(seq, "restore"):
            self._resident.drop()
            seq.sound = False  # until all of it is loaded
            self._state.load(snapshot.state)
        seq.sound = sound
        seq.prompt, seq.history = snapshot.prompt, History(snapshot.prompt.ids, snapshot.output)
        seq.length, seq.row = snapshot.length, snapshot.row
        seq.resumed, seq.anchors = snapshot.resumed, self._resident.taken_up(snapshot.anchors)

    def clear(self, caches: Collection[str] | None = None) -> Mapping[str, int]:
        """Empty the caches named, None: all; bytes given up by each (ENG-123). `EngineError` while a sequence is open.

        `resident`: its rows lie in the buffer that is reserved for the window, which stays; the recurrent parts of its
        anchors are given back. `images`, where the engine reads some: what its tower made of them.
        """
        there = ["resident"] if self._eyes is None else ["images", "resident"]
        if self._open is not None:
            raise EngineError("a sequence is open; caches are emptied between two requests")
        if unknown := sorted(set(caches or ()) - set(there)):
            raise EngineError(f"no cache is called {unknown[0]}; there is: {', '.join(there)}")
        cleared = {}
        for name in there if caches is None else caches:
            if name == "images" and self._eyes is not None:
                cleared[name] = self._eyes.clear()
            else:
                cleared[name] = self._held()
                self._resident.drop()
        return cleared

    def cost(self) -> Mapping[str, int]:
        # A snapshot costs its rows and, apart from them, the recurrent part and the one row of logits.
        anchor, row = self._state.bytes_per_anchor, self._model.config.vocab_size * torch.float32.itemsize
        return {
            "bytes_per_anchor": anchor,
            "bytes_per_snapshot": anchor + row,
            "bytes_per_token": self._state.bytes_per_token,
        }

    def state(self) -> Mapping[str, int]:
        counted = {field.name: getattr(self._counters, field.name) for field in fields(_Counters)}
        opened = self._open  # one look: the engine's thread may close it meanwhile
        rows = opened.length if opened is not None else self._resident.rows
        held = {**self._resident.state(), "resident_bytes": self._held()}
        spent = {f"{name}_ms_by_none": round(ms) for name, ms in asdict(self._spent).items()}
        return (
            counted
            | spent
            | held
            | (dict(self._eyes.state()) if self._eyes is not None else {})
            | {"kv_bytes": self._state.kv.nbytes, "kv_rows": self._state.max_len, "kv_rows_used": rows}
        )

    def _held(self) -> int:
        """Bytes that the resident prefix uses."""
        state = self._state
        return self._resident.rows * state.bytes_per_token + self._resident.anchors_held * state.bytes_per_anchor

    def _verify(self, seq: TorchSequence, tree: Tree) -> Rows:
        self._check_read(seq)
        if tree.tokens:
            raise EngineError("this engine verifies no drafts")
        verify_ms = 0.0
        if seq.row is None:
            started = time.perf_counter()
            with self._fault(seq, "verify"):
                hidden, length = self._read_on(seq.unread, seq.length)
                row = self._row(hidden)
            seq.length, seq.row = length, row
            verify_ms = 1e3 * (time.perf_counter() - started)
        assert seq.row is not None
        return Rows(seq.row, seq.length - 1, verify_ms)

    def _next_cut(self, start: int) -> int:
        grid = self._card.anchor_grid
        return (start // grid + 1) * grid

    def _read_on(self, ids: Sequence[int], start: int) -> tuple[Tensor, int]:
        """Forward `ids` from row `start` on, cut as a prefill would be: hidden states of the last cut, and the end."""
        if not ids:
            raise EngineError("there is no token to forward")
        end = start + len(ids)
        cuts = [*range(self._next_cut(start), end, self._card.anchor_grid), end]
        hidden = None
        for low, high in zip([start, *cuts], cuts, strict=False):
            hidden = self._forward(ids[low - start : high - start], low)
        assert hidden is not None
        return hidden, end

    def _read_prompt(self, prompt: Prompt, start: int, end: int) -> Tensor:
        """Forward rows `start` to below `end` of a prompt, images among them."""
        if prompt.images and self._eyes is not None:
            self._resident.drop()
            if (hidden := self._eyes.read(prompt, start, end, self._state)) is not None:
                return hidden
        return self._forward(prompt.ids[start:end], start)

    def _forward(self, ids: Sequence[int], start: int) -> Tensor:
        if start + len(ids) > self._card.max_len:
            raise EngineError(f"{start + len(ids)} rows do not fit a window of {self._card.max_len}")
        self._resident.drop()  # a sequence that has resumed needs it no more, and rows of it are overwritten here
        return self._model.forward(torch.tensor(ids), start, self._state)

    def _row(self, hidden: Tensor) -> Tensor:
        """Logits (vocab) of the last of `hidden`'s rows."""
        return self._model.logits(hidden[-1:])[0]

    def _check(self, seq: TorchSequence) -> None:
        if seq.closed:
            raise EngineError("the sequence is closed")

    def _check_read(self, seq: TorchSequence) -> None:
        self._check(seq)
        if not seq.prompt_read:
            raise EngineError(f"{seq.length} of {len(seq.prompt.ids)} prompt tokens are read; prefill the rest first")

    @contextmanager
    def _fault(self, seq: TorchSequence, verb: str) -> Iterator[None]:
        """Run a verb's work without autograd; a fault of torch ends the request (ENG-043).

        A forward that fails has written rows from its first one on only, which the sequence does not count yet: those
        below `length` serve the next request, and the recurrent part is put back to where it stood. After a row that
        is not finite nothing serves it, for nobody knows its origin.
        """
        self._check(seq)
        stood = self._state.keep()
        try:
            with torch.inference_mode():
                yield
        except (RuntimeError, IndexError, MemoryError, EngineError) as error:
            self._state.put_back(stood)
            self._counters.errors += 1
            if isinstance(error, EngineError):
                seq.sound = seq.sound and not isinstance(error, NumericalError)
                raise
            raise EngineError(f"{verb} failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}") from error
