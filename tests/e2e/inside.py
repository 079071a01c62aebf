"""The service behind Hypercorn inside the test's process, for limits that no setting reaches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import hypercorn.trio
import trio

from tandem import serve
from tandem.config import Settings
from tandem.http import connection
from tandem.http.app import create_app
from tandem.http.limits import hypercorn_config
from tests.e2e.wire import until
from tests.service.harness import Harness, open_harness

__all__ = ["Inside", "open_inside"]


@dataclass(slots=True)
class Inside:
    """A server in a thread of its own."""

    harness: Harness
    port: int
    token: trio.lowlevel.TrioToken
    shutdown: trio.Event
    ended: threading.Event

    def stop(self) -> None:
        """Tell Hypercorn to shut down; `ended` is set once it has."""
        self.token.run_sync_soon(self.shutdown.set)


@contextmanager
def open_inside(
    *,
    hypercorn_options: dict[str, Any] | None = None,
    prepare: Callable[[Harness], None] | None = None,
    **settings: Any,
) -> Iterator[Inside]:
    """Serve the fake engine until the end of the block. The limits are those of `tandem serve` but for the options."""
    connection.install()
    ready: list[Inside] = []
    failed: list[BaseException] = []
    ended = threading.Event()

    async def main() -> None:
        async with open_harness(**settings) as harness:
            if prepare is not None:
                prepare(harness)
            with closing(serve._bind(Settings(port=0))) as listener:
                config = hypercorn_config()
                for name, value in (hypercorn_options or {}).items():
                    setattr(config, name, value)
                config.bind = [f"fd://{listener.dup().detach()}"]
                shutdown = trio.Event()
                app = create_app(harness.service.context)
                async with trio.open_nursery() as nursery:
                    await nursery.start(partial(hypercorn.trio.serve, app, config, shutdown_trigger=shutdown.wait))
                    port = listener.getsockname()[1]
                    ready.append(Inside(harness, port, trio.lowlevel.current_trio_token(), shutdown, ended))

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:  # told to the test below
            failed.append(error)
        ended.set()

    thread = threading.Thread(target=run, name="inside")
    thread.start()
    try:
        until(lambda: ready or failed)
        if ready:
            yield ready[0]
    finally:
        if ready and not ended.is_set():
            ready[0].stop()
        thread.join(30)
    assert not thread.is_alive(), "Hypercorn did not shut down"
    if failed:
        raise failed[0]
