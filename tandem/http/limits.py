"""Hypercorn's limits, each set on purpose: its defaults suit short requests, not streams that last an hour."""

from __future__ import annotations

import logging

from hypercorn.config import Config

__all__ = ["hypercorn_config"]


def hypercorn_config() -> Config:
    """What `tandem serve` and the shipped `ops/hypercorn.toml` have in common."""
    config = Config()
    config.worker_class = "trio"
    config.workers = 1  # one process a STATE
    config.accesslog = None  # [req] is the line of a request, and access lines would hold addresses
    config.errorlog = logging.getLogger("hypercorn.error")  # ours to format: its tracebacks may quote a request
    config.loglevel = "WARNING"
    config.include_server_header = False
    config.alpn_protocols = ["http/1.1"]
    config.keep_alive_timeout = 75  # longer than the pools of the usual clients keep a connection
    config.read_timeout = None  # would cut a client that silently reads a stream
    config.graceful_timeout = 5  # what ran is answered before Hypercorn is told; this is for idle connections
    config.startup_timeout = 3600  # a model is loaded meanwhile, under plain Hypercorn
    config.h11_max_incomplete_size = 64 * 1024
    config.backlog = 256
    config.websocket_ping_interval = 15
    config.websocket_max_message_size = 64 * 1024  # what a watcher says is dropped
    return config
