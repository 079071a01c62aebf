"""Offers rows to the store actor, a line on stdout for each, until it is killed. Run by `test_crash`."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import trio

from tandem.actors.kit import SystemWallClock
from tandem.actors.store import Record, Store
from tandem.store.aio import open_aio
from tests.store.samples import outcome

__all__ = ["main"]


async def main(path: Path) -> None:
    async with trio.open_nursery() as nursery:
        store = Store(partial(open_aio, path), SystemWallClock())
        await nursery.start(store.run)
        number = 0
        while True:
            store.ref.offer(Record(outcome(number)))
            print(number, time.monotonic(), flush=True)
            number += 1
            await trio.sleep(0.005)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
