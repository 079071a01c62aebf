"""The disk tier through the settings document and its routes (MEM-014, MEM-015)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tandem.engine.caches.caching import CacheStats, DiskView
from tandem.engine.caches.disk_index import DiskSettings
from tandem.engine.fake import FakeEngine
from tests.service.harness import Harness, chat, open_harness
from tests.service.test_documents import put, validate

DISK = "/v1/conductor/memory/disk"
GB = 10**9


class DiskFake(FakeEngine):
    """With a disk tier that holds what it is said to."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.set: list[DiskSettings] = []
        self.held = 500

    def configure(self, disk: DiskSettings, now: float) -> None:
        self.set.append(disk)

    def caches(self) -> dict[str, CacheStats]:
        return {"disk": CacheStats(bytes=self.held)}

    def clear(self, caches: Any = None) -> dict[str, int]:
        freed, self.held = self.held, 0
        return dict.fromkeys(caches, freed)

    def disk(self) -> DiskView:
        settings = self.set[-1] if self.set else DiskSettings()
        return DiskView(
            settings=settings,
            bytes=self.held,
            free=7 * GB,
            hits=3,
            misses=1,
            top=((64, 400, 2), (128, 100, 1)),
            events=("writing stopped",),
        )


async def shown(harness: Harness) -> Any:
    call = await harness.client.send(DISK)
    assert call.status == 200, call.body
    validate("memory-disk", call.json)
    return call.json


@pytest.mark.spec("MEM-014", "MEM-015", "API-237")
async def test_the_document_sets_the_disk_tier(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = DiskFake()
    async with open_harness(engine=engine, conductor_config=tmp_path / "c", disk_cache_gb=20) as harness:
        assert engine.set == []  # nothing says otherwise than the server's own settings
        body = await shown(harness)
        assert body["settings"] == {
            "version": 1,
            "mode": "off",
            "budget_gb": 20,
            "ttl_days": 14,
            "admit_after": 2,
            "min_free_gb": 50,
        }
        document = {"memory": {"disk_cache": {"mode": "on", "budget_gb": 0.5, "min_free_gb": 1}}}
        await put(harness, "settings", document)
        await harness.client.send("/v1/chat/completions", chat("hi"))
        assert engine.set == [DiskSettings(mode="on", budget=GB // 2, min_free=GB)]
        body = await shown(harness)
        assert (body["running"], body["bytes"], body["budget_bytes"], body["floor_bytes"]) == (True, 500, GB // 2, GB)
        assert (body["settings"]["version"], body["free_bytes"], body["hit_rate"]) == (2, 7 * GB, 0.75)
        assert body["entries"][0] == {"rows": 64, "bytes": 400, "uses": 2}
        assert body["events"] == ["writing stopped"]
        cleared = await harness.client.send(f"{DISK}/clear", method="POST")
        assert cleared.json == {"freed_bytes": {"disk": 500}}
        assert (await shown(harness))["bytes"] == 0


@pytest.mark.spec("MEM-014")
async def test_a_bad_value_is_refused(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    engine = DiskFake()
    async with open_harness(engine=engine, conductor_config=tmp_path / "c") as harness:
        for disk, param in (({"budget_gb": -1}, "budget_gb"), ({"size": 1}, "size"), ({"mode": "maybe"}, "mode")):
            refused = await put(harness, "settings", {"memory": {"disk_cache": disk}})
            assert refused == (400, f"document.memory.disk_cache.{param}")
        assert engine.set == []


@pytest.mark.spec("MEM-014")
async def test_a_stored_document_holds_from_the_start(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        await put(harness, "settings", {"memory": {"disk_cache": {"mode": "read"}}})
    engine = DiskFake()
    async with open_harness(engine=engine, conductor_config=tmp_path / "c"):
        await trio.testing.wait_all_tasks_blocked()
        assert [settings.mode for settings in engine.set] == ["read"]


@pytest.mark.spec("MEM-015")
async def test_without_a_disk_tier(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "c") as harness:
        body = await shown(harness)
        assert (body["running"], body["bytes"], body["free_bytes"], body["hit_rate"]) == (False, 0, None, None)
        cleared = await harness.client.send(f"{DISK}/clear", method="POST")
        assert cleared.json == {"freed_bytes": {"disk": 0}}
    async with open_harness() as harness:
        assert (await harness.client.send(DISK)).status == 404
        assert (await harness.client.send(f"{DISK}/clear", method="POST")).status == 404
