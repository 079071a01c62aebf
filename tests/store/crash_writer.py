"""Offers rows to the store actor until it is killed. Run by `test_crash`, which reads its lines.

`offered N T` stands for a row offered at T on the monotonic clock, `safe N` for the answer of a flush behind row N.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import trio

from tandem.actors.kit import SystemWallClock
from tandem.actors.store import Flush, Journal, Record, Store
from tandem.store.aio import open_aio
from tandem.store.journal import HiddenText
from tests.store.samples import event, outcome

__all__ = ["main"]


async def main(path: Path, flush_every: int) -> None:
    """`flush_every` is a number of rows; 0 leaves the commits to the actor's own clock."""
    text = HiddenText.of("Check your work.", 4)
    async with trio.open_nursery() as nursery:
        store = Store(partial(open_aio, path), SystemWallClock())
        await nursery.start(store.run)
        number = 0
        while True:
            store.ref.offer(Record(outcome(number)))
            store.ref.offer(Journal((event(number, text_hash=text.hash),), (text,)))
            print("offered", number, time.monotonic(), flush=True)
            if flush_every and number % flush_every == flush_every - 1:
                await store.ref.ask(Flush)
                print("safe", number, flush=True)
            number += 1
            await trio.sleep(0.005)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
