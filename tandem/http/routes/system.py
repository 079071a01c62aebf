"""GET /v1/dashboard/system: what runs and how it is set (OBS-083, OBS-053)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import trio
from quart import Blueprint, Response, request

from tandem.actors.watchdog import Sight
from tandem.config import Setting, Settings, declared
from tandem.http import facts
from tandem.http.context import SERVED_NAME, Context, context
from tandem.http.openai.images import sight_of
from tandem.http.query import Parameters
from tandem.http.responses import data_response
from tandem.secrets import shown_value

__all__ = ["blueprint"]

blueprint = Blueprint("system", __name__)

DISK_S = 0.1
"""How long the file system of STATE may take to tell its size; one on a network can hang."""


@blueprint.get("/v1/dashboard/system")
async def system() -> Response:
    Parameters(request.args).end()
    return data_response(await _document(context()))


async def _document(here: Context) -> dict[str, Any]:
    """Blocks that cannot be read at the moment are null."""
    sight = await facts.look(here)
    ledger = await facts.ledger_facts(here)
    return {
        "status": facts.status_of(here, sight),
        "model": SERVED_NAME,
        **facts.identity_block(here),
        "identity": _identity(here),
        "started_at": here.created.timestamp(),
        "generated_at": here.wall.now().timestamp(),
        "card": _card(here),
        "settings": _settings(here.settings, Path.home()),
        "unknown_variables": list(here.settings.unknown),
        "access": {"password_set": here.access.has_password, "login": here.access.dashboard_login},
        "privacy": {"log_content": here.settings.log_content, "log_request_keys": here.settings.log_request_keys},
        "memory": facts.memory_block(here),
        "disk": await _disk(here),
        "cache": facts.attempt(lambda: facts.cache_block(here)),
        "queue": None if sight is None else _queue(here, sight),
        **facts.shared_blocks(here, sight),
        "totals": None if sight is None else facts.counts_block(sight),
        "ledger": None if ledger is None else facts.ledger_block(ledger),
        "images": _images(here),
        "live": facts.readers_block(here),
        "watch": None if sight is None else facts.watch_block(here, sight),
        "failed": list(here.broken),
    }


def _identity(here: Context) -> dict[str, str]:
    """What runs, besides its version: the commit, and hashes of code and settings."""
    identity = here.identity
    return {
        "git_sha": identity.git_sha,
        "code_sha256": identity.code_sha256,
        "flags_sha256": identity.flags_sha256,
    }


def _card(here: Context) -> dict[str, Any]:
    card = here.card
    return {
        "architecture": card.architecture,
        "context_length": card.max_len,
        "vocabulary": card.vocab_size,
        "prefill_grid": card.anchor_grid,
    }


def _settings(settings: Settings, home: Path) -> list[dict[str, str]]:
    """All of them in the order of the help, as they are in effect."""
    return [_setting(settings, setting, home) for setting in declared().values()]


def _setting(settings: Settings, setting: Setting, home: Path) -> dict[str, str]:
    value = getattr(settings, setting.name)
    return {
        "name": setting.name,
        "flag": setting.flag,
        "variable": setting.variable,
        "group": setting.group,
        "help": setting.help,
        "value": setting.default if value is None else _text(setting.name, value, home),
        "default": shown_value(setting.name, setting.default, home),
        "source": "named" if setting.name in settings.named else "default",
    }


def _text(name: str, value: object, home: Path) -> str:
    """As it would be written behind its flag (OBS-053)."""
    match value:
        case bool():
            shown: object = "on" if value else "off"
        case float():
            shown = f"{value:.10g}"
        case tuple():
            return ", ".join(shown_value(name, each, home) for each in value) or "none"
        case _:
            shown = value
    return shown_value(name, shown, home)


async def _disk(here: Context) -> dict[str, Any] | None:
    """Of the file system that STATE is on; None where it does not exist or does not tell in time."""
    path = here.settings.state_dir
    with trio.move_on_after(DISK_S):
        usage = await here.blocking.run("usage", facts.attempt, lambda: shutil.disk_usage(path))
        if usage is not None:
            shown = shown_value("state_dir", path, Path.home())
            return {"path": shown, "total_bytes": usage.total, "free_bytes": usage.free}
    return None


def _queue(here: Context, sight: Sight) -> dict[str, Any]:
    settings = here.settings
    return {
        "running": sight.running,
        "waiting": sight.waiting,
        "max_queue": settings.max_queue,
        "queue_timeout_s": settings.queue_timeout,
        "request_timeout_s": settings.request_timeout,
        "slots": [{"slot": slot, "phase": phase} for slot, phase in sorted(sight.slots.items())],
    }


def _images(here: Context) -> dict[str, Any]:
    """Whether images are read; if not, whether the setting or the model is why."""
    settings = here.settings
    return {
        "state": sight_of(here.card.images, settings.vision),
        "max_images": settings.max_images,
        "max_image_rows": settings.max_image_rows,
    }
