"""`tandem serve`: STATE's lock, the engine, then Hypercorn around the service until a signal drains it.

The socket is bound first, so that a port in use is known before a model is loaded, and listens last, so that nothing
answers before the model does (API-002).
"""

from __future__ import annotations

import logging
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing, suppress
from functools import partial
from pathlib import Path

import hypercorn.trio
import rich.progress
import trio
from hypercorn.config import Config as HypercornConfig

from tandem.actors.kit import ActorGone
from tandem.actors.slots import Abort
from tandem.build import Progress, find_model, open_parts
from tandem.conducting import check_policy
from tandem.config import Settings
from tandem.draining import drain
from tandem.fit import check_fit
from tandem.http import connection
from tandem.http.access.hosts import machine_names
from tandem.http.access.rules import Access
from tandem.http.app import create_app
from tandem.http.limits import hypercorn_config
from tandem.log import LogBook, setup_logging
from tandem.secrets import read_secrets
from tandem.service import Service, open_service
from tandem.state import State, open_state

__all__ = ["run"]

log = logging.getLogger(__name__)

CLIENT_GONE_MS = 60_000
"""TCP_USER_TIMEOUT: how long a client's kernel may acknowledge nothing (API-003)."""
FAILED = 1
SWITCH_S = 0.0005
"""How long a thread in Python code may keep the interpreter once another wants it.

The event loop lets go of it at every system call and would wait Python's own 5 ms each time to have it back, some
twenty times for one answer of /health, while a worker thread reads a long prompt.
"""


def run(settings: Settings, environ: Mapping[str, str]) -> int:
    """Serve until a signal; the exit code. The secrets are read from `environ` and STATE.

    Raises `CheckpointError`, `SettingError`, `StateLocked` or `OSError` before the start.
    """
    check_fit(settings)
    check_policy(settings)
    connection.install()
    sys.setswitchinterval(SWITCH_S)
    with setup_logging(log_content=settings.log_content) as logs:
        for variable in settings.unknown:
            log.warning("[config] %s names no setting and changes nothing", variable)
        temporary = settings.fake and "state_dir" not in settings.named
        with open_state(settings.state_dir, temporary=temporary) as state:
            access = _open_access(settings, environ, state)
            with closing(_bind(settings)) as listener:
                with _Progress() as progress:
                    model = find_model(settings, state, progress)
                return trio.run(partial(_serve, settings, state, access, model, listener, logs))


def _open_access(settings: Settings, environ: Mapping[str, str], state: State) -> Access:
    secrets = read_secrets(environ, state.path)
    if not settings.is_loopback and secrets.admin_token is None:
        log.warning("[config] %s is reachable from other machines and nothing asks for a password", settings.host)
    return Access.from_settings(settings, secrets, machine_names(socket.gethostname()))


def _bind(settings: Settings) -> socket.socket:
    family, kind, _, _, address = socket.getaddrinfo(
        settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted sockets inherit it. Hypercorn shields its writes, so only the kernel can end one to a stalled reader.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, CLIENT_GONE_MS)
    try:
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


async def _serve(
    settings: Settings, state: State, access: Access, model: Path | None, listener: socket.socket, logs: LogBook
) -> int:
    async with AsyncExitStack() as stack:
        with _Progress() as progress:
            parts = await stack.enter_async_context(open_parts(settings, state, model, progress, logs))
        service = await stack.enter_async_context(open_service(settings, parts, access))
        shutdown = trio.Event()
        config: HypercornConfig = hypercorn_config()
        # Hypercorn closes the socket it is given, so it gets a descriptor of its own.
        config.bind = [f"fd://{listener.dup().detach()}"]
        async with trio.open_nursery() as signals:
            signals.start_soon(_watch_signals, service)
            async with trio.open_nursery() as front:
                front.start_soon(_drain_when_told, service, shutdown)
                app = create_app(service.context)
                await front.start(partial(hypercorn.trio.serve, app, config, shutdown_trigger=shutdown.wait))
                _announce(settings, listener, service)
            signals.cancel_scope.cancel()
        return FAILED if service.context.broken else 0


async def _watch_signals(service: Service) -> None:
    """The first signal drains; the second also ends what runs at its next safe point and skips the spill (SCH-096)."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            if not service.stop.is_set():
                log.info("[service] %s: draining", signal.Signals(number).name)
                service.stop.set()
                continue
            log.info("[service] %s again: ending what runs", signal.Signals(number).name)
            service.context.hurry.set()
            for slot in service.slots:
                with suppress(ActorGone):
                    await slot.tell(Abort("the server is stopping"))


async def _drain_when_told(service: Service, shutdown: trio.Event) -> None:
    await service.stop.wait()
    await drain(service.context)
    shutdown.set()


def _announce(settings: Settings, listener: socket.socket, service: Service) -> None:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    base = f"http://{shown}:{port}/v1"
    log.info("[service] %s ready at %s", service.context.card.name, base)
    print(
        f"\nTandem serves {service.context.card.name} at {base}\nTry it:\n"
        f"  curl {base}/chat/completions -H 'Content-Type: application/json' \\\n"
        '    -d \'{"messages": [{"role": "user", "content": "Hello! Who are you?"}]}\'\n',
        flush=True,
    )


class _Progress:
    """Progress of a start that takes longer than two seconds: a bar on a terminal, else a line now and then."""

    LINE_EVERY_S = 2.0

    def __enter__(self) -> Progress:
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.TaskProgressColumn(),
            rich.progress.TimeRemainingColumn(),
            console=rich.console.Console(stderr=True),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._tasks: dict[str, rich.progress.TaskID] = {}
        self._line_at = time.monotonic() + self.LINE_EVERY_S
        self._bar.start()
        return self._update

    def _update(self, what: str, done: int, total: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)
        if self._bar.disable and time.monotonic() >= self._line_at and done < total:
            log.info("[start] %s: %d %%", what, 100 * done // max(total, 1))
            self._line_at = time.monotonic() + self.LINE_EVERY_S

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
