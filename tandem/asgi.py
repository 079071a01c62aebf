"""The same service under plain Hypercorn: `hypercorn --config ops/hypercorn.toml tandem.asgi:app` (API-251).

Settings come from the environment alone. The service lives in the lifespan scope, in a nursery of its own; one worker
only, since one process at a time uses a STATE. `tandem serve` is the richer way in: the draining of running answers and
the kernel's timeout for dead clients are promised there alone.

The shipped configuration has Hypercorn serve in its own process (`workers = 0`), because the parent of a single worker
that has failed exits with 0 (Hypercorn 0.18). Hypercorn knows no SIGTERM there, so it is turned into SIGINT.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import trio

from tandem.build import find_model, open_parts
from tandem.config import Settings
from tandem.draining import drain
from tandem.http import connection
from tandem.http.access.hosts import machine_names
from tandem.http.access.rules import Access
from tandem.http.app import create_app
from tandem.http.edge import AsgiApp, Receive, Scope, Send
from tandem.log import setup_logging
from tandem.secrets import read_secrets
from tandem.serve import SWITCH_S
from tandem.service import open_service
from tandem.state import open_state

__all__ = ["AsgiService", "app"]

log = logging.getLogger(__name__)


class AsgiService:
    """Starts the service at lifespan startup and hands everything else to its app."""

    def __init__(self) -> None:
        self._app: AsgiApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._app is None:
            raise RuntimeError("the service starts in the lifespan scope: run Hypercorn with lifespan support")
        else:
            await self._app(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        connection.install()
        sys.setswitchinterval(SWITCH_S)
        async with AsyncExitStack() as stack:
            try:
                settings = Settings.from_sources({}, os.environ)
                logs = stack.enter_context(setup_logging(log_content=settings.log_content))
                temporary = settings.fake and "state_dir" not in settings.named
                state = stack.enter_context(open_state(settings.state_dir, temporary=temporary))
                secrets = read_secrets(os.environ, state.path)
                access = Access.from_settings(settings, secrets, machine_names(socket.gethostname()))
                model = await trio.to_thread.run_sync(partial(find_model, settings, state, _quiet))
                parts = await stack.enter_async_context(open_parts(settings, state, model, _quiet, logs))
            except Exception as error:
                # Hypercorn prints the traceback.
                log.error("[service] the start failed: %s", " ".join(str(error).split()))
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            async with (
                open_service(settings, parts, access) as service,
                trio.open_nursery() as nursery,
            ):
                self._app = create_app(service.context)
                if _is_server_process():
                    nursery.start_soon(_interrupt_when_told, service.stop)
                await send({"type": "lifespan.startup.complete"})
                await receive()  # lifespan.shutdown
                await drain(service.context)
                nursery.cancel_scope.cancel()
        await send({"type": "lifespan.shutdown.complete"})


def _is_server_process() -> bool:
    """False in the workers that Hypercorn starts: they ignore SIGINT, and their parent tells them when to stop."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


async def _interrupt_when_told(stop: trio.Event) -> None:
    """Have Hypercorn shut down at the first SIGTERM or SIGINT, or once something essential has failed."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch_signals, stop)
        await stop.wait()
        nursery.cancel_scope.cancel()  # the next signal has its usual effect
    _interrupt()


async def _watch_signals(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        await anext(signals)
    stop.set()


@trio.lowlevel.enable_ki_protection
def _interrupt() -> None:
    # From protected code trio raises KeyboardInterrupt in the main task, which is Hypercorn's, and in no actor.
    signal.raise_signal(signal.SIGINT)


def _quiet(_what: str, _done: int, _total: int) -> None:
    """Hypercorn owns the terminal."""


app: Any = AsgiService()
