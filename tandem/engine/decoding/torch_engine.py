"""The verbs over a model in torch: one sequence and one buffer a slot (ENG-182, ENG-167, ENG-160)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import torch

from tandem.engine.caches.hoard import Hoard
from tandem.engine.caches.opening import Opening
from tandem.engine.caches.policy import Policy
from tandem.engine.caches.resident import ANCHOR_BYTES, SPARED, Anchors, ResidentPrefix
from tandem.engine.caches.settings import NO_CACHES, CacheSettings
from tandem.engine.caches.side_hoard import SideHoard
from tandem.engine.caches.sides import Side
from tandem.engine.decoding.asking import shares_of
from tandem.engine.decoding.counters import Counters
from tandem.engine.decoding.faults import Faults
from tandem.engine.decoding.guide import Guide
from tandem.engine.decoding.joint import Joint
from tandem.engine.decoding.loans import Lending
from tandem.engine.decoding.noise import Noise
from tandem.engine.decoding.passes import Passes
from tandem.engine.decoding.penalties import History
from tandem.engine.decoding.rounds import Rounds
from tandem.engine.decoding.sequence import Rows, Snapshot, TorchSequence
from tandem.engine.decoding.sight import Eyes
from tandem.engine.decoding.slotted import SlottedEngine
from tandem.engine.drafting.drafter import Drafter
from tandem.engine.errors import EngineError
from tandem.engine.models.model import Model
from tandem.engine.shared import shared_length
from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Accepted, ModelCard, Prefilled, SamplingRules, Tree

__all__ = ["TorchEngine"]


class TorchEngine(SlottedEngine):
    """One model and one sequence at a time: while one is open, `open` of a second raises `EngineError`.

    The rows for the whole window are reserved here (ENG-033). A closed sequence's rows stay in them, and a next prompt
    that begins with the same ids resumes at the last grid line they share, or where that sequence ended (`resident`,
    `end_anchor`; ENG-037, ENG-107, ENG-110). For a model with recurrent layers a line is such a place only while the
    memory those layers had there is kept, in at most `anchor_bytes` (ENG-108). Every fault of torch inside a verb, a
    failed allocation included, becomes an `EngineError` and leaves the engine usable (ENG-043).

    A `drafter` proposes trees, which change how many tokens a round commits and never which (ENG-065).
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
        drafter: Drafter | None = None,
        caches: CacheSettings = NO_CACHES,
        fingerprint: str = "",
        policy: Policy | None = None,
        suffix: Side | None = None,
        beside: TorchEngine | None = None,
    ) -> None:
        """Without `eyes` no prompt may hold images, without a `fingerprint` nothing is kept on a disk. A side slot's
        engine stands `beside` slot 0's: `add_side` makes it.
        """
        self._model = model
        self._text = text
        self._card = card
        self._eyes = eyes
        self._state = model.new_state(card.max_len)
        self._open: TorchSequence | None = None
        each = self._state.bytes_per_anchor
        limit = None if not each else anchor_bytes // each if beside is None else SPARED
        self._resident = ResidentPrefix(card.anchor_grid, enabled=resident, end_anchor=end_anchor, limit=limit)
        self._guide = Guide(drafter)
        sides = {name: side for name, side in (("images", eyes), ("suffix", suffix)) if side is not None}
        if beside is None:
            self._hoard = Hoard(self._state, self._resident, card.anchor_grid, caches, fingerprint, policy, sides)
        else:
            self._hoard = SideHoard(beside._hoard, self._state, self._resident, card.anchor_grid)
        self._passes = Passes(model, self._state, card.anchor_grid, self._hoard, self._guide, eyes)
        self._counters = Counters()
        self._faults = Faults(self._state, self._counters)
        self._noise = noise or Noise()
        self._rounds = Rounds(
            self._passes, self._state, card.vocab_size, self._guide, self._noise, self._faults, self._counters
        )
        self._lending = Lending(self._state, self._hoard, self._guide)
        self._joint = Joint(model)
        self._slots = (self,)
        self._is_side = beside is not None

    @property
    def card(self) -> ModelCard:
        return self._card

    @property
    def text(self) -> TextModel:
        return self._text

    def add_side(self, max_len: int, drafter: Drafter | None = None, nbytes: int | None = None) -> TorchEngine:
        """One more slot with a window of its own, over this model, these noises and this state store (ENG-160).

        `nbytes`: all that it takes or will take (ENG-124); None: what it takes now.
        """
        card = replace(self._card, max_len=max_len)
        side = TorchEngine(self._model, self._text, card, noise=self._noise, drafter=drafter, beside=self)
        self._slots = (*self._slots, side)
        self._hoard.policy.widen(side._state.nbytes if nbytes is None else nbytes)
        return side

    def open(self, prompt: Prompt) -> TorchSequence:
        self._check_prompt(prompt)
        guest = self._lending.loan is not None
        cold = Opening(Anchors(self._card.anchor_grid, limit=0))
        opening = cold if guest else self._hoard.open(prompt.keys, prompt.head)
        resumed, row = opening.anchors.last, opening.row
        self._state.put_back(self._state.empty if resumed is None else resumed.recurrent)
        self._open = TorchSequence(prompt, History(prompt.ids), opening.anchors, length=row, resumed=row)
        self._open.source = opening.source
        self._guide.start(prompt.ids, opening.valid)
        self._counters.guests += guest
        self._counters.requests += not guest
        self._counters.resumed_tokens += row
        return self._open

    def close(self, seq: TorchSequence) -> None:
        if seq.closed:
            return
        if self._lending.loan is not None and seq is self._lending.loan.holder:
            raise EngineError("the engine is lent; a holder is closed when it has it back")
        try:
            if self._lending.loan is None:
                with self._in_verb(seq, "close"):
                    seq.anchors.whose = seq.whose
                    self._hoard.close(seq.kept_keys, seq.anchors, self._state.keep, seq.prompt.asks)
        finally:
            self._guide.end(seq)
            self._forget(seq)

    def prefill(self, seq: TorchSequence, upto: int) -> Prefilled:
        self._check(seq)
        ids, start = seq.prompt.ids, seq.length
        end = min(upto, len(ids), self._passes.next_cut(start))
        if start < end:
            if start == seq.resumed:
                self._hoard.admit(len(ids), start)
            with self._in_verb(seq, "prefill"):
                hidden = self._passes.prompt(seq.prompt, start, end)
                seq.row = self._passes.row(hidden) if end == len(ids) else None
            seq.length = end
            seq.anchors.prefilled(start, end, self._state.keep())
            self._counters.prefilled_tokens += end - start
            if end == len(ids):
                self._hoard.prompt_read(seq.prompt.keys[: seq.prompt.asked_at], seq.anchors)
        return Prefilled(min(seq.length, len(ids)), len(ids), seq.resumed, seq.source)

    def draft(self, seq: TorchSequence, limit: int) -> Tree:
        self._check(seq)
        return self._rounds.draft(seq, limit)

    def accept(self, seq: TorchSequence, rows: Rows, rules: SamplingRules) -> Accepted:
        """As the Protocol says. `rules.mask` is read and not committed to: the generation tells it what was written."""
        self._check(seq)
        if len(seq.history) >= self._card.max_len:
            raise EngineError(f"the window of {self._card.max_len} tokens is full")
        return self._rounds.accept(seq, rows, rules)

    def settle(self, seq: TorchSequence) -> None:
        with self._in_verb(seq, "settle"):
            pass  # every verb that reads the sequence begins by settling it

    def discard(self, seq: TorchSequence) -> None:
        self.trim(seq, 0)

    def trim(self, seq: TorchSequence, count: int) -> None:
        self._check(seq)
        self._rounds.trim(seq, count)

    def force(self, seq: TorchSequence, ids: Sequence[int], *, hidden: bool = False, dropped: int = 0) -> None:
        self._check_read(seq)
        if not ids:
            return
        with self._in_verb(seq, "force"):
            read, length = self._passes.on([*seq.unread, *ids], seq.length)
            row = self._passes.row(read)
        seq.force(ids, hidden=hidden, dropped=dropped)
        seq.length, seq.row = length, row
        self._counters.forced_tokens += len(ids)

    def ask(self, seq: TorchSequence, ids: Sequence[int], options: Sequence[int]) -> tuple[float, ...]:
        # The question's rows go where scratch rows are, the recurrent part is put back, and an accepted token that has
        # not been forwarded is forwarded again by the next verify, in a pass of its own: nothing here reaches what
        # comes later.
        self._check_read(seq)
        question = [*seq.unread, *ids]
        with self._in_verb(seq, "ask"):
            if question:
                stood = self._state.keep()
                row = self._passes.row(self._passes.on(question, seq.length, guided=False)[0])
                self._state.put_back(stood)
            elif seq.row is None:
                raise EngineError("a question needs ids or a kept row")
            else:
                row = seq.row
            shares = shares_of(row, options, seq.length + len(question) - 1)
        self._counters.asked_tokens += len(ids)
        return shares

    def snapshot(self, seq: TorchSequence) -> Snapshot:
        with self._in_verb(seq, "snapshot"):
            state = self._state.copy(seq.length)
        output = tuple(seq.history.ids[len(seq.prompt.ids) :])
        return Snapshot(seq.prompt, output, seq.length, seq.row, state, seq.resumed, seq.anchors.all)

    def restore(self, seq: TorchSequence, snapshot: object) -> None:
        if not isinstance(snapshot, Snapshot):
            raise EngineError("not a snapshot of this engine")
        if snapshot.length > self._passes.window:
            raise EngineError(f"a snapshot of {snapshot.length} rows does not fit {self._passes.window}")
        sound = seq.sound
        shared = shared_length(tuple(seq.read), snapshot.read)
        # Rows of bit class are the same bits in every sequence of these ids: what is to be written of them may be.
        exact = max((each.row for each in snapshot.anchors if each.exactness == "bit"), default=0)
        with self._in_verb(seq, "restore"):
            self._hoard.writing(min(exact, shared) if snapshot.prompt is seq.prompt else 0, snapshot.length)
            seq.sound = False  # until all of it is loaded
            self._state.load(snapshot.state)
        seq.sound = sound
        seq.prompt, seq.history = snapshot.prompt, History(snapshot.prompt.ids, snapshot.output)
        seq.forced, seq.unseen = [(len(snapshot.prompt.ids), len(seq.history))], None  # a snapshot does not say
        seq.length, seq.row = snapshot.length, snapshot.row
        seq.resumed, seq.anchors = snapshot.resumed, self._resident.taken_up(snapshot.anchors)
        self._guide.start(seq.history.ids, shared)

    def cost(self) -> Mapping[str, int]:
        # A snapshot costs its rows and, apart from them, the recurrent part and the one row of logits.
        anchor, row = self._state.bytes_per_anchor, self._model.config.vocab_size * torch.float32.itemsize
        return {
            "bytes_per_anchor": anchor,
            "bytes_per_snapshot": anchor + row,
            "bytes_per_token": self._state.bytes_per_token,
        }

    def state(self) -> Mapping[str, int]:
        opened = self._open  # one look: the engine's thread may close it meanwhile
        rows = opened.length if opened is not None else self._resident.rows
        return {
            **self._counted(),
            **self._hoard.state(),
            **({} if self._eyes is None else self._eyes.state()),
            "kv_bytes": self._state.kv.nbytes,
            "kv_rows": self._state.max_len,
            "kv_rows_used": rows,
        }

    def _forget(self, seq: TorchSequence) -> None:
        """What a sequence holds is free."""
        seq.closed = True
        seq.row, seq.verified, seq.pending = None, None, None
        self._open = None
        self._state.put_back(self._state.empty)
        if self._eyes is not None and self._lending.loan is None:
            self._eyes.release()

    def _check_prompt(self, prompt: Prompt) -> None:
        if self._open is not None:
            raise EngineError("a sequence is open already; this engine holds one at a time")
        if not prompt.ids:
            raise EngineError("the prompt has no tokens")
        if len(prompt.ids) >= self._passes.window:
            raise EngineError(f"{len(prompt.ids)} prompt tokens leave no room in {self._passes.room}")
        if prompt.images and (self._eyes is None or self._lending.loan is not None):
            raise EngineError("this engine reads no images" if self._eyes is None else "a guest brings no images")

    def _check(self, seq: TorchSequence) -> None:
        if seq.closed:
            raise EngineError("the sequence is closed")
        if seq is not self._open:
            raise EngineError("the engine is lent; its holder waits until it is given back")

    def _check_read(self, seq: TorchSequence) -> None:
        self._check(seq)
        if not seq.prompt_read:
            raise EngineError(f"{seq.length} of {len(seq.prompt.ids)} prompt tokens are read; prefill the rest first")

    def _in_verb(self, seq: TorchSequence, verb: str) -> AbstractContextManager[None]:
        self._check(seq)
        return self._faults.in_verb(seq, verb)
