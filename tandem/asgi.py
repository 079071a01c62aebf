"""The same service under plain Hypercorn: `hypercorn --config ops/hypercorn.toml tandem.asgi:app` (API-251).

Settings come from the environment alone. The service lives in the lifespan scope, in a nursery of its own; one worker
only, since one process at a time uses a STATE. `tandem serve` is the richer way in: the draining of running answers and
the kernel's timeout for dead clients are promised there alone.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from functools import partial
from typing import Any

import trio

from tandem.build import build_engine, build_parts
from tandem.config import Settings
from tandem.http.app import create_app
from tandem.http.edge import AsgiApp, Receive, Scope, Send
from tandem.log import setup_logging
from tandem.service import drain, open_service
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
        with ExitStack() as stack:
            try:
                settings = Settings.from_sources({}, os.environ)
                stack.enter_context(setup_logging(log_content=settings.log_content))
                temporary = settings.fake and "state_dir" not in settings.named
                state = stack.enter_context(open_state(settings.state_dir, temporary=temporary))
                engine = await trio.to_thread.run_sync(partial(build_engine, settings, state, _quiet))
            except Exception as error:
                log.exception("[service] the start failed")
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            async with open_service(settings, build_parts(settings, state, engine)) as service:
                self._app = create_app(service.context)
                await send({"type": "lifespan.startup.complete"})
                await receive()  # lifespan.shutdown
                await drain(service.context)
        await send({"type": "lifespan.shutdown.complete"})


def _quiet(_what: str, _done: int, _total: int) -> None:
    """Hypercorn owns the terminal."""


app: Any = AsgiService()
