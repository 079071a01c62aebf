"""The documents actor: versions, restores, what is wrong on disk, and what a kill leaves."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from tandem.actors.document_library import Standing, load, read_versions
from tandem.actors.document_saving import save, seeded
from tandem.actors.documents import Config, Current, DocumentKeeper, Put, Refusal, Restore, Show, Versions
from tandem.actors.kit import Inbox, Inline, Ref, open_mailbox, supervise
from tandem.actors.store import Journal, StoreMessage
from tandem.conductor.documents import Documents, shipped_documents
from tandem.conductor.documents.migrations import Migration
from tandem.conductor.documents.versions import Version
from tandem.conductor.monitor.policy import shipped_body
from tandem.store.document_files import DocumentFiles
from tests.service.harness import FixedWall

POLICY = shipped_body()
WHY = os.strerror(errno.ENOTDIR)
MONITOR = {**POLICY, "tasks": []}


class Box:
    """The actor, asked by name."""

    def __init__(self, keeper: DocumentKeeper, journal: Callable[[], list[tuple[str | None, str | None]]]) -> None:
        self.keeper = keeper
        self.journal = journal
        """Document and decision of each row since the last call."""

    async def current(self) -> Documents:
        return await self.keeper.ref.ask(Current)

    async def put(self, key: str, body: Any, note: str = "n", base: int | None = None) -> Version | Refusal:
        return await self.keeper.ref.ask(lambda reply: Put(key, body, note, base, reply))

    async def restore(self, key: str, number: int) -> Version | Refusal:
        return await self.keeper.ref.ask(lambda reply: Restore(key, number, "back", reply))

    async def show(self, key: str, number: int | None = None) -> Version | None:
        return await self.keeper.ref.ask(lambda reply: Show(key, number, reply))

    async def versions(self, key: str) -> list[int]:
        found: Sequence[Version] = await self.keeper.ref.ask(lambda reply: Versions(key, reply))
        return [version.version for version in found]

    async def standing(self, key: str) -> Standing:
        return next(one for one in await self.keeper.ref.ask(Config) if one.key == key)


@asynccontextmanager
async def open_box(
    root: Path, migrations: Sequence[Migration] = (), policy: Mapping[str, Any] | None = None
) -> AsyncIterator[Box]:
    store: Ref[StoreMessage]
    inbox: Inbox[StoreMessage]
    store, inbox = open_mailbox("store", 1000)

    def journal() -> list[tuple[str | None, str | None]]:
        found: list[tuple[str | None, str | None]] = []
        while (message := inbox.receive_nowait()) is not None:
            assert isinstance(message, Journal)
            found += [(row.task, row.decision) for row in message.rows]
            assert all(row.kind == "config" for row in message.rows)
        return found

    def defect(name: str, error: Exception) -> None:
        raise AssertionError(name) from error

    keeper = DocumentKeeper(
        root, blocking=Inline(), wall=FixedWall(), store=store, policy=policy, migrations=migrations
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(supervise, keeper, defect))
        yield Box(keeper, journal)
        nursery.cancel_scope.cancel()


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as a first start leaves it."""
    root = tmp_path_factory.mktemp("seed")
    seeded(DocumentFiles(root), "2026-01-02T03:04:05+00:00")
    return root


@pytest.fixture
def root(seed: Path, tmp_path: Path) -> Path:
    shutil.copytree(seed, tmp_path / "conductor")
    return tmp_path / "conductor"


@pytest.mark.spec("CFG-001", "CFG-002", "PRF-023", "JRN-005")
async def test_a_first_start_stores_what_ships(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with open_box(tmp_path / "conductor") as box:
        documents = await box.current()
        assert documents.versions == {**dict.fromkeys(shipped_documents(), 1), "monitor": 0}
        assert len(documents.profiles) == 9
        assert documents.monitor is None
        assert box.journal() == [(key, "stored") for key in sorted(shipped_documents())]
        stored = json.loads((tmp_path / "conductor/profiles/coding/v1.json").read_bytes())
        assert stored == {
            "version": 1,
            "created": "2026-01-02T03:04:05+00:00",
            "note": "as shipped",
            "body": shipped_documents()["profiles/coding"],
        }
        assert (tmp_path / "conductor/profiles/coding/current").read_bytes() == b"1\n"


@pytest.mark.spec("PRF-023")
async def test_a_store_that_lacks_a_profile_gets_it(autojump_clock: MockClock, root: Path) -> None:
    shutil.rmtree(root / "profiles/hermes")
    async with open_box(root) as box:
        assert box.journal() == [("profiles/hermes", "stored")]
        assert (await box.current()).profile("hermes") is not None


@pytest.mark.spec("CFG-003", "CFG-005", "CFG-006", "CFG-008")
async def test_saves_and_restores(autojump_clock: MockClock, root: Path) -> None:
    async with open_box(root) as box:
        before = await box.current()
        saved = await box.put("settings", {"default_profile": "coding"}, base=1)
        assert isinstance(saved, Version)
        assert (saved.version, saved.note, saved.restored_from) == (2, "n", None)
        after = await box.current()
        assert (before.settings.default_profile, after.settings.default_profile) == ("general", "coding")
        assert (before.versions["settings"], after.versions["settings"]) == (1, 2)
        stale = await box.put("settings", {}, base=1)
        assert isinstance(stale, Refusal)
        assert (stale.code, stale.path) == ("conflict", "base_version")
        restored = await box.restore("settings", 1)
        assert isinstance(restored, Version)
        assert (restored.version, restored.restored_from) == (3, 1)
        assert (await box.current()).settings == before.settings
        assert await box.versions("settings") == [1, 2, 3]
        unknown = await box.restore("settings", 9)
        assert isinstance(unknown, Refusal)
        assert unknown.code == "unknown"
        assert box.journal() == [
            ("settings", "stored"),
            ("settings", "refused"),
            ("settings", "restored"),
            ("settings", "refused"),
        ]
        shown = await box.show("settings", 2)
        assert shown is not None
        assert shown.body == {"default_profile": "coding"}
        assert await box.show("settings", 9) is None


@pytest.mark.spec("CFG-004")
async def test_a_refused_body_stores_nothing(autojump_clock: MockClock, root: Path) -> None:
    async with open_box(root) as box:
        refused = await box.put("profiles/coding", {"mode": "on", "routing": {"default_class": "nope"}})
        assert refused == Refusal("invalid", "document.routing.default_class", "there is no class nope")
        assert (await box.standing("profiles/coding")).versions == 1


@pytest.mark.spec("PRF-012")
@pytest.mark.parametrize("name", ["raw", "bench"])
async def test_locked_profiles_stay(autojump_clock: MockClock, root: Path, name: str) -> None:
    async with open_box(root) as box:
        for refused in (await box.put(f"profiles/{name}", {"mode": "raw"}), await box.restore(f"profiles/{name}", 1)):
            assert isinstance(refused, Refusal)
            assert refused.code == "locked"
        assert await box.versions(f"profiles/{name}") == [1]


async def test_a_new_profile_and_the_monitor_document(autojump_clock: MockClock, root: Path) -> None:
    async with open_box(root) as box:
        await box.put("profiles/mine", {"mode": "shadow"})
        await box.put("monitor", MONITOR)
        documents = await box.current()
        assert documents.profiles["mine"].mode == "shadow"
        assert documents.monitor == MONITOR
        assert documents.versions["monitor"] == 1
    async with open_box(root) as box:
        documents = await box.current()
        assert documents.profiles["mine"].mode == "shadow"
        assert documents.monitor == MONITOR


@pytest.mark.spec("CFG-009", "MON-021", "MON-023", "MON-024")
async def test_the_policy_file_is_the_monitors_version_0(autojump_clock: MockClock, root: Path) -> None:
    async with open_box(root, policy=POLICY) as box:
        assert (await box.current()).monitor == POLICY
        shown = await box.show("monitor")
        assert shown is not None
        assert (shown.version, shown.body) == (0, POLICY)
        assert await box.versions("monitor") == []
        refused = await box.put("monitor", {**MONITOR, "caps": {"acts_per_request": 1}})
        assert isinstance(refused, Refusal)
        assert (refused.code, refused.path) == ("invalid", "document.caps.acts_per_session_hour")
        assert (await box.current()).monitor == POLICY
        await box.put("monitor", MONITOR)
        documents = await box.current()
        assert (documents.monitor, documents.versions["monitor"]) == (MONITOR, 1), "without a task, and none is added"
    rewrite(root, "monitor", 1, lambda body: body.pop("texts"))
    async with open_box(root, policy=POLICY) as box:
        assert (await box.current()).monitor == POLICY
        standing = await box.standing("monitor")
        assert standing.problem is not None
        assert (standing.version, standing.problem.path) == (0, "texts")


def rewrite(root: Path, key: str, number: int, change: Callable[[dict[str, Any]], object]) -> None:
    """As somebody with an editor."""
    path = root / key / f"v{number}.json"
    stored = json.loads(path.read_bytes())
    change(stored["body"])
    path.write_text(json.dumps(stored), "utf-8")


@pytest.mark.spec("CFG-007")
async def test_a_good_change_on_disk_is_taken(autojump_clock: MockClock, root: Path) -> None:
    async with open_box(root) as box:
        await box.current()
        rewrite(root, "settings", 1, lambda body: body.update(default_profile="coding"))
        (root / "profiles/mine").mkdir()
        mine = {"version": 1, "created": "", "note": "", "body": {"mode": "raw"}}
        (root / "profiles/mine/v1.json").write_text(json.dumps(mine))
        await trio.sleep(2)
        documents = await box.current()
        assert documents.settings.default_profile == "coding"
        assert documents.profiles["mine"].mode == "raw"


@pytest.mark.spec("CFG-007", "JRN-005")
@pytest.mark.parametrize("how", ["torn", "invalid", "names nothing", "no such version", "no number"])
async def test_a_bad_change_on_disk_leaves_the_last_good_version(
    autojump_clock: MockClock, root: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_box(root) as box:
        await box.put("settings", {"default_profile": "coding"})
        box.journal()
        file, path = "settings/v2.json", ""
        match how:
            case "torn":
                (root / file).write_bytes((root / file).read_bytes()[:40])
            case "invalid":
                rewrite(root, "settings", 2, lambda body: body.update(nonsense=1))
                path = "nonsense"
            case "names nothing":
                rewrite(root, "settings", 2, lambda body: body.update(default_profile="nope"))
                path = "default_profile"
            case "no such version":
                (root / "settings/current").write_text("7\n")
                file = "settings/v7.json"
            case _:
                (root / "settings/current").write_text("seven\n")
                file = "settings/current"
        await trio.sleep(2)
        assert (await box.current()).settings.default_profile == "coding"
        standing = await box.standing("settings")
        assert standing.problem is not None
        assert (standing.version, standing.problem.file, standing.problem.path) == (2, file, path)
        assert box.journal() == [("settings", "refused")]
        assert f"{file} is not in service" in caplog.text
        saved = await box.put("settings", {"default_profile": "chat"}, base=2)
        assert isinstance(saved, Version)
        await trio.sleep(2)
        assert (await box.current()).settings.default_profile == "chat"
        assert (await box.standing("settings")).problem is None


@pytest.mark.spec("CFG-007")
@pytest.mark.parametrize("older", [True, False])
async def test_a_start_over_a_bad_file(autojump_clock: MockClock, root: Path, older: bool) -> None:
    """The newest older version serves; without one what ships, as version 0."""
    async with open_box(root) as box:
        if older:
            await box.put("router", {**shipped_documents()["router"], "sticky": {"switch": 0.5}})
            await box.put("router", shipped_documents()["router"])
    (root / "router" / ("v3.json" if older else "v1.json")).write_bytes(b"{")
    async with open_box(root) as box:
        documents = await box.current()
        assert (documents.versions["router"], documents.router.sticky.switch) == ((2, 0.5) if older else (0, 0.8))
        assert (await box.standing("router")).problem is not None


async def test_a_profile_without_a_good_version_is_left_out(autojump_clock: MockClock, root: Path) -> None:
    (root / "profiles/mine").mkdir()
    (root / "profiles/mine/v1.json").write_bytes(b"{")
    async with open_box(root) as box:
        assert "mine" not in (await box.current()).profiles
        assert (await box.standing("profiles/mine")).problem is not None


async def test_a_directory_that_cannot_be_used(
    autojump_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "conductor").write_text("a file")
    async with open_box(tmp_path / "conductor") as box:
        documents = await box.current()
        assert len(documents.profiles) == 9
        assert documents.versions["router"] == 0
        refused = await box.put("settings", {})
        assert isinstance(refused, Refusal)
        assert (refused.code, refused.message) == ("failed", f"the version could not be written: {WHY}")
        assert caplog.messages[0].endswith(f"cannot be used, what ships serves: {WHY}")
        assert (await box.standing("router")).problem is not None


@pytest.mark.spec("CFG-011", "MON-150")
async def test_a_migration_runs_at_a_start_and_never_again(autojump_clock: MockClock, root: Path) -> None:
    def change(body: Any) -> dict[str, Any]:
        return {**body, "toolgate": {**body["toolgate"], "malformed": "on"}}

    migration = Migration("malformed", ("profiles/coding", "profiles/nobody"), change)
    async with open_box(root, [migration]) as box:
        shown = await box.show("profiles/coding")
        assert shown is not None
        assert (shown.version, shown.note) == (2, "migration malformed")
        assert (await box.current()).profiles["coding"].toolgate.malformed == "on"
        assert box.journal() == [("profiles/coding", "migrated")]
        await box.restore("profiles/coding", 1)
    async with open_box(root, [migration]) as box:
        assert await box.versions("profiles/coding") == [1, 2, 3]
        assert (await box.current()).profiles["coding"].toolgate.malformed == "off"


@pytest.mark.spec("CFG-010")
async def test_an_upgrade_changes_no_stored_document(autojump_clock: MockClock, root: Path) -> None:
    """A key that a stored document lacks has its absent meaning, whatever ships now."""
    rewrite(root, "profiles/coding", 1, lambda body: [body.pop("secret_mask"), body.pop("ui")])
    rewrite(root, "settings", 1, lambda body: body.pop("tools_profile"))
    async with open_box(root) as box:
        documents = await box.current()
        assert documents.profiles["coding"].secret_mask == "off"
        assert documents.profiles["coding"].ui.states_channel == "reasoning"
        assert documents.settings.tools_profile == "tools"


async def test_no_file_is_read_while_nothing_changes(
    autojump_clock: MockClock, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_box(root) as box:
        await trio.sleep(2)
        first = await box.current()
        reads = []
        monkeypatch.setattr(DocumentFiles, "read", lambda *_: reads.append(1))
        await trio.sleep(3600)
        assert await box.current() is first
        await wait_all_tasks_blocked()
        assert reads == []


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "bad", "stale", "restore", "start", "look"]), st.integers(1, 9)), max_size=14
)


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    return (f"p{number}" for number in range(10_000))


@pytest.mark.spec("CFG-005", "CFG-008")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_history_of_saves_and_restores(seed: Path, names: Iterator[str], steps: list[Step]) -> None:
    """Against a list of bodies: each save or restore adds one, and nothing else ever changes."""
    key = f"profiles/{next(names)}"
    bodies: list[int] = []

    async def check(box: Box) -> None:
        versions: Sequence[Version] = await box.keeper.ref.ask(lambda reply: Versions(key, reply))
        assert [version.body["thinking"]["budgets"]["low"] for version in versions] == bodies
        profile = (await box.current()).profile(key.partition("/")[2])
        assert (profile is None) == (not bodies)
        if profile is not None:
            assert profile.thinking.budgets["low"] == bodies[-1]

    async def run(rest: list[Step]) -> list[Step]:
        async with open_box(seed) as box:
            while rest:
                (step, number), *rest = rest
                match step:
                    case "put":
                        body = {"mode": "on", "thinking": {"budgets": {"low": number}}}
                        assert isinstance(await box.put(key, body, base=len(bodies)), Version)
                        bodies.append(number)
                    case "bad":
                        assert isinstance(await box.put(key, {"mode": number}), Refusal)
                    case "stale":
                        assert isinstance(await box.put(key, {"mode": "on"}, base=len(bodies) + number), Refusal)
                    case "restore":
                        done = await box.restore(key, number)
                        assert isinstance(done, Version) == (number <= len(bodies))
                        bodies.extend([bodies[number - 1]] if number <= len(bodies) else [])
                    case "look":
                        await trio.sleep(number)
                    case _:
                        return rest
                await check(box)
        return []

    while steps:
        steps = trio.run(run, steps, clock=MockClock(autojump_threshold=0))


class Killed(Exception):
    pass


class Dying(DocumentFiles):
    """The process ends at its n-th write: before it, or with the file there and the next not."""

    left = 0

    def write(self, folder: str, name: str, content: bytes, *, new: bool = False) -> None:
        if Dying.left == 0:
            raise Killed
        Dying.left -= 1
        super().write(folder, name, content, new=new)


@pytest.mark.spec("CFG-002")
@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_kill_between_two_writes(root: Path, writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dying, "left", writes)
    dying, files = Dying(root), DocumentFiles(root)
    try:
        save(dying, load(files), "settings", {"default_profile": "coding"}, "n", "")
    except Killed:
        assert writes < 2
    library = load(files)
    assert library.problems == {}
    assert library.documents.settings.default_profile == ("coding" if writes == 2 else "general")
    again, version = save(files, library, "settings", {"default_profile": "chat"}, "n", "")
    assert version.version == (2 if writes == 0 else 3)
    assert load(files).documents.settings == again.documents.settings


@pytest.mark.spec("CFG-002")
def test_a_killed_process_leaves_whole_versions(root: Path) -> None:
    command = [sys.executable, "-m", "tests.actors.document_writer", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(5)]
        process.kill()
        told += process.stdout.readlines()
    last = max(int(line) for line in told if line.endswith("\n"))
    files = DocumentFiles(root)
    seeded(files, "")
    library = load(files)
    assert library.problems == {}
    assert library.documents.versions["settings"] >= last
    versions = read_versions(files, "settings")
    assert [version.version for version in versions] == list(range(1, len(versions) + 1))
    assert not [name for name in files.names("settings") if name.endswith(".tmp")]


def test_the_store_may_be_full(tmp_path: Path) -> None:
    """A journal without room costs no document."""

    async def run() -> None:
        store: Ref[StoreMessage]
        store, _inbox = open_mailbox("store", 1)
        keeper = DocumentKeeper(tmp_path, blocking=Inline(), wall=FixedWall(), store=store)
        async with trio.open_nursery() as nursery:
            await nursery.start(keeper.run)
            assert (await keeper.ref.ask(Current)).versions["router"] == 1
            nursery.cancel_scope.cancel()

    trio.run(run, clock=MockClock(autojump_threshold=0))


@pytest.mark.spec("ROL-005", "JRN-005")
async def test_a_role_from_before_the_contract_is_journaled_once_a_start(autojump_clock: MockClock, root: Path) -> None:
    old = {"roles": {"decider": {"model": "laya-english", "mode": "on", "timeout_ms": 700}}}
    stored = json.loads((root / "roles/v1.json").read_bytes())
    (root / "roles/v1.json").write_text(json.dumps({**stored, "body": old}))
    for _ in range(2):
        async with open_box(root) as box:
            await box.current()
            await trio.sleep(5)
            await box.current()
            assert box.journal() == [("roles", "filled")]
            assert (await box.current()).contracts["decider"].latency_budget_ms == 700
