"""A stand-in for the Hugging Face hub: the endpoints that a pull uses, over files on disk."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from huggingface_hub import close_session

__all__ = ["Hub", "running_hub"]

COMMIT = "a" * 40
_INFO = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass
class Hub:
    """What the hub holds and how it behaves; a test changes it while the hub runs."""

    url: str = ""
    repos: dict[str, Path] = field(default_factory=dict)
    revisions: dict[str, dict[str, Path]] = field(default_factory=dict)
    """Other revisions than `main`, by repository."""
    elements: dict[str, dict[str, int]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    token: str = "hf_secret"
    """Opens gated repositories; any other one is not accepted."""
    status: int = 0
    """Answered to everything, where it is not 0."""
    cut_after: int | None = None
    """Bytes of a file after which the connection breaks."""
    cuts: int = 10**6
    """How often it does so."""
    stall_after: int | None = None
    """Bytes of a file after which nothing more comes."""
    ranges: bool = True
    damage: str = ""
    """A file whose bytes come wrong."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """File and Range header of every download, in order."""
    sent: dict[str, int] = field(default_factory=dict)
    """Bytes sent, by file."""

    def root(self, repo: str, revision: str | None) -> Path | None:
        if revision is None or revision in ("main", COMMIT):
            return self.repos.get(repo)
        return self.revisions.get(repo, {}).get(revision)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> Hub:
        return cast(Hub, self.server.hub)  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        if self.hub.status:
            self._fail(self.hub.status)
        elif path == "/api/models":
            word = parse_qs(url.query)["search"][0].lower()
            self._json([{"id": repo} for repo in self.hub.repos if word in repo.lower()])
        elif info := _INFO.fullmatch(path):
            self._serve(info[1], info[2], None)
        elif file := _FILE.fullmatch(path):
            self._serve(file[1], file[2], file[3])
        else:
            self._fail(404)

    def _serve(self, repo: str, revision: str | None, name: str | None) -> None:
        token = self.headers.get("Authorization")
        if token not in (None, f"Bearer {self.hub.token}"):
            self._fail(401, "", "Invalid credentials in Authorization header")
        elif repo not in self.hub.repos:
            self._fail(404 if token else 401, "RepoNotFound")
        elif repo in self.hub.gated and token is None:
            self._fail(403, "GatedRepo")
        elif (root := self.hub.root(repo, revision)) is None:
            self._fail(404, "RevisionNotFound")
        elif name is None:
            self._json(_info(root, repo, revision, self.hub.elements.get(repo)))
        elif not (root / name).is_file():
            self._fail(404, "EntryNotFound")
        else:
            self._file(name, (root / name).read_bytes())

    def _file(self, name: str, content: bytes) -> None:
        wanted = self.headers.get("Range", "")
        self.hub.requests.append((name, wanted))
        if name == self.hub.damage:
            content = bytes(len(content))
        bounds = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted) if self.hub.ranges else None
        first = int(bounds[1]) if bounds else 0
        body = content[first : int(bounds[2]) + 1 if bounds and bounds[2] else None]
        self.send_response(206 if bounds else 200)
        if bounds:
            self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(content)}")
        self.send_header("ETag", f'"{_digest(content)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.hub.cut_after is not None and len(body) > self.hub.cut_after and self.hub.cuts > 0:
            self.hub.cuts -= 1
            body = body[: self.hub.cut_after]
            self.close_connection = True
        stalled = self.hub.stall_after is not None and len(body) > self.hub.stall_after
        body = body[: self.hub.stall_after] if stalled else body
        self.wfile.write(body)
        self.hub.sent[name] = self.hub.sent.get(name, 0) + len(body)
        while stalled and self.hub.stall_after is not None:
            time.sleep(0.01)

    def _json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _fail(self, status: int, code: str = "", message: str = "") -> None:
        self.send_response(status)
        for header, value in (("X-Error-Code", code), ("X-Error-Message", message)):
            if value:
                self.send_header(header, value)
        self.send_header("Content-Length", "0")
        self.end_headers()


def _info(root: Path, repo: str, revision: str | None, elements: dict[str, int] | None) -> dict[str, object]:
    siblings = []
    for path in sorted(each for each in root.rglob("*") if each.is_file()):
        content = path.read_bytes()
        entry: dict[str, object] = {"rfilename": str(path.relative_to(root)), "size": len(content)}
        entry["blobId"] = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        if path.suffix in (".safetensors", ".gguf"):
            entry["lfs"] = {"sha256": _digest(content), "size": len(content), "pointerSize": 134}
        siblings.append(entry)
    commit = COMMIT if revision in (None, "main") else revision
    info: dict[str, object] = {"id": repo, "sha": commit, "siblings": siblings, "private": False}
    if elements is not None:
        info["safetensors"] = {"parameters": elements, "total": sum(elements.values())}
    return info


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub on a port of its own, in a thread."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    hub = Hub(url=f"http://127.0.0.1:{server.server_port}")
    server.hub = hub  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        close_session()
        server.shutdown()
        thread.join()
        server.server_close()
