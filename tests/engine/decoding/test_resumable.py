"""A text written in pieces: it is the one written at once, and the conversation under it loses no row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tandem.engine.caches.settings import CacheSettings
from tandem.engine.decoding.resumable import LINES, Resumable
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.decoding.work import perform
from tandem.engine.text.prompt import Prompt
from tandem.engine.verbs import Accepted, Prefilled, SamplingRules
from tests.engine.decoding.engines import GRID, PROMPT, ids_of, read, rounds, tiny_engine

pytestmark = pytest.mark.usefixtures("kind")

GREEDY = SamplingRules()


def turn(engine: TorchEngine, ids: Sequence[int], count: int = 8) -> tuple[int, list[int]]:
    """One request: the row it resumed from and the ids it wrote."""
    seq = read(engine, ids)
    written = rounds(engine, seq, count)
    engine.close(seq)
    return seq.resumed, written


def piece(engine: TorchEngine, text: Resumable, has_room: Callable[[], bool]) -> None:
    """One window: work until there is no more room, or nothing to do."""
    resident, _ = engine.resident()
    assert not text.displaces(resident)
    seq = engine.open(text.prompt)
    text.open(resident)
    while has_room() and (work := text.next()) is not None:
        text.feed(perform(engine, seq, work, text.rules))
    engine.close(seq)


def text_over(ids: Sequence[int], limit: int = 12) -> Resumable:
    return Resumable(Prompt.of_client(ids), GREEDY, limit=limit, grid=GRID)


def limited(anchors: int | None) -> TorchEngine:
    if anchors is None:
        return tiny_engine()
    each = tiny_engine().cost()["bytes_per_anchor"]
    return tiny_engine(anchor_bytes=anchors * each) if each else tiny_engine()


@pytest.mark.spec("SCH-081", "SCH-083")
@pytest.mark.parametrize("anchors", [None, 4])
@pytest.mark.parametrize("seed", range(3))
def test_pieces_make_the_same_text_and_the_next_turn_resumes_as_far(anchors: int | None, seed: int) -> None:
    random = Random(seed)
    asks = ids_of(random.randrange(1, LINES * GRID - 1), seed)
    plain, engine, whole = limited(anchors), limited(anchors), limited(anchors)
    _, written = turn(plain, PROMPT)
    assert turn(engine, PROMPT)[1] == turn(whole, PROMPT)[1] == written
    prompt = [*PROMPT, *written, *asks]
    at_once = text_over(prompt)
    piece(whole, at_once, lambda: True)
    assert at_once.done
    assert len(at_once.ids) == 12
    text = text_over(prompt)
    for _ in range(200):
        if text.done:
            break
        piece(engine, text, lambda: random.random() < 0.7)
    assert text.ids == at_once.ids
    after = [*PROMPT, *written, *ids_of(9, 77)]
    resumed, answer = turn(engine, after)
    assert (resumed, answer) == turn(plain, after)
    assert resumed == len(PROMPT) + 7, "the end of the last turn"


@pytest.mark.spec("SCH-083", "SCH-095", "SCH-097")
def test_after_a_restart_the_next_turn_resumes_as_far_too(tmp_path: Path) -> None:
    options: dict[str, Any] = {"caches": CacheSettings(spill_folder=tmp_path), "fingerprint": "f" * 32}
    engine = tiny_engine(**options)
    _, written = turn(engine, PROMPT)
    text = text_over([*PROMPT, *written, *ids_of(40, 1)])
    works = iter(range(6))
    piece(engine, text, lambda: next(works, None) is not None)
    assert not text.done
    assert text.ids
    engine.spill()
    engine.leave()
    after = [*PROMPT, *written, *ids_of(9, 77)]
    again = tiny_engine(**options)
    again.read_spill()
    assert turn(again, after)[0] == len(PROMPT) + 7


@pytest.mark.spec("SCH-083")
def test_what_would_cost_the_conversation_its_rows_is_not_begun() -> None:
    held = list(range(100, 200))
    assert not text_over([*held, 7]).displaces(held)
    assert not text_over([*held, *ids_of(LINES * GRID)]).displaces(held)
    assert text_over([*held, *ids_of(LINES * GRID + 1)]).displaces(held), "the end's anchor could be thinned out"
    assert text_over(held).displaces(held), "its last token is read again"
    assert text_over([*held[:-1], 7, 8]).displaces(held), "it goes on from another end"
    assert text_over([5, *held]).displaces(held)
    assert text_over([*held, 7]).displaces(()), "nobody knows what is held"


@pytest.mark.spec("SCH-083")
def test_between_two_pieces_another_turn_ends_it() -> None:
    held = list(range(100, 200))
    text = text_over([*held, 7, 8, 9])
    text.open(held)
    text.feed(Prefilled(103, 103))
    text.feed(Accepted((1, 2, 3)))
    for mine in (held, [*held, 7], [*held, 7, 8, 9, 1, 2]):
        assert not text.displaces(mine)
    assert text.displaces([*held, 7, 8, 9, 1, 2, 4])
    assert text.displaces([*held, 8])
    assert text.displaces(held[:-1])


def test_it_ends_at_an_end_token_or_at_its_limit() -> None:
    text = Resumable(Prompt.of_client([1, 2]), SamplingRules(end_ids=frozenset({9})), limit=5, grid=GRID)
    text.open([1])
    text.feed(Prefilled(2, 2))
    text.feed(Accepted((3, 4)))
    assert not text.done
    text.feed(Accepted((5, 9)))
    assert (text.done, text.ids, text.next()) == (True, (3, 4, 5), None)
    text = text_over([1, 2], limit=2)
    text.open([1])
    text.feed(Accepted((3, 4)))
    assert (text.done, text.ids) == (True, (3, 4))
