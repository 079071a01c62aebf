"""What a drafter is told of rows that come from elsewhere: it knows those the last sequence left, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tandem.engine.decoding.torch_engine import TorchEngine
from tests.engine.caches.wired import ALL, flush, on_disk, served, turn
from tests.engine.decoding.drafters import Recording
from tests.engine.decoding.engines import GRID, PROMPT, ids_of

pytestmark = pytest.mark.usefixtures("kind")

OTHER, GUEST = ids_of(110, 8), ids_of(20, 7)
END = len(PROMPT) + 3
"""Where the first answer ends."""


def after_a_turn(engine: TorchEngine) -> None:
    """Nothing comes between."""


def after_a_guest(engine: TorchEngine) -> None:
    turn(engine, GUEST)


def after_another(engine: TorchEngine) -> None:
    turn(engine, OTHER)


@pytest.mark.spec("ENG-106")
@pytest.mark.parametrize(
    ("between", "valid"), [(after_a_turn, END), (after_a_guest, 0), (after_another, 0)], ids=["turn", "guest", "other"]
)
def test_rows_from_elsewhere_are_not_the_drafters(between: Callable[[TorchEngine], None], valid: int) -> None:
    drafter = Recording()
    with served(ALL, drafter=drafter) as engine:
        first = turn(engine, PROMPT)
        between(engine)
        drafter.calls.clear()
        following = [*PROMPT, *first.ids, 3]
        again = turn(engine, following)
        assert again.resumed == END
        assert again.writes_as_cold(following)
        assert drafter.calls[0] == ("start", len(following), valid)


@pytest.mark.spec("ENG-106")
def test_of_rows_from_files_it_knows_those_below(tmp_path: Path) -> None:
    drafter = Recording()
    with served(on_disk(tmp_path), drafter=drafter) as engine:
        turn(engine, OTHER)
        flush(engine)
        turn(engine, [*OTHER[: GRID + 3], *GUEST])
        drafter.calls.clear()
        assert turn(engine, OTHER).source == "disk"
        assert drafter.calls[0] == ("start", len(OTHER), GRID)
