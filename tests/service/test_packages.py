"""Packages over HTTP: catalog, one of them, their use, and the tokens of texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import trio.testing

import tandem
from tandem.actors.store import Flush, Journal
from tandem.secrets import Secrets
from tandem.store.journal import JournalRow
from tandem.store.package_reads import DAY_MS
from tests.service.harness import Harness, open_harness

CONTRACT = Path(tandem.__file__).parent / "contract" / "conductor-v1"
ROOT = "/v1/conductor/packages"
SKILL = "---\nname: maps\ndescription: Draw maps\n---\n\n# Maps\n\nDraw a map.\n\n## Reference\n\nMore of it.\n"


def validate(name: str, body: Any) -> None:
    schema = json.loads((CONTRACT / f"{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(body)


async def get(harness: Harness, path: str, shape: str | None = None, *, status: int = 200) -> Any:
    call = await harness.client.send(f"{ROOT}/{path}")
    assert call.status == status, call.body
    if shape is not None:
        validate(shape, call.json)
    return call.json


async def count(harness: Harness, body: Any, status: int = 200) -> Any:
    call = await harness.client.send(f"{ROOT}/tokens", body)
    assert call.status == status, call.body
    return call.json


@pytest.mark.spec("API-232")
async def test_without_a_conductor_there_are_no_routes(autojump_clock: trio.testing.MockClock) -> None:
    async with open_harness() as harness:
        for path in ("catalog", "item/coding", "usage"):
            await get(harness, path, status=404)
        await count(harness, {"texts": ["a"]}, 404)


@pytest.mark.spec("API-238", "LIB-014", "LIB-015", "LIB-019", "CFG-017")
async def test_the_catalog_has_every_package(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "conductor") as harness:
        body = await get(harness, "catalog", "packages-catalog")
        found = {one["name"]: one for one in body["packages"]}
        assert (body["version"], body["counted"], len(found)) == (1, "engine", 22)
        coding = found["coding"]
        assert coding["classes"] == ["code_edit", "debug", "design_ui", "drawing", "three_d"]
        assert (coding["general"], coding["fallback"], coding["category"]) == (True, "coding-answer", "package")
        assert coding["tokens"] == coding["tokens_whole"] > 100
        assert not any(one["over"] for one in found.values() if one["tokens"] <= one["limit"])
        assert found["test-web"]["category"] == "test_skill"
        assert found["threejs-scene"]["core"] == ["three_d"]


@pytest.mark.spec("API-238", "LIB-016", "CFG-017")
async def test_one_package_is_shown_with_its_texts(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "conductor") as harness:
        body = await get(harness, "item/coding", "packages-item")
        assert body["inserted"]["text"] == body["body"]["text"]
        assert body["inserted"]["text"].startswith("# Work on code")
        assert (body["frontmatter"], body["reference"]["text"], body["similar"]) == (None, "", [])
        assert body["inserted"]["tokens"] == body["package"]["tokens"]
        await get(harness, "item/nothing", status=404)


@pytest.mark.spec("PKG-001", "LIB-016")
async def test_a_skill_is_looked_up_in_the_skill_directories(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps" / "SKILL.md").write_text(SKILL)
    async with open_harness(conductor_config=tmp_path / "conductor") as harness:
        stored = (await harness.client.send("/v1/conductor/packages")).json["document"]
        stored["skill_dirs"] = ["no-such-place", str(tmp_path)]
        stored["packages"] += [
            {"name": "maps", "description": "maps", "max_tokens": 3, "source": "skill:maps"},
            {"name": "gone", "description": "gone", "max_tokens": 3, "source": "skill:gone"},
        ]
        call = await harness.client.send("/v1/conductor/packages", {"document": stored, "note": "skills"}, method="PUT")
        assert call.status == 200, call.body
        body = await get(harness, "item/maps", "packages-item")
        assert body["fields"] == {"name": "maps", "description": "Draw maps"}
        assert body["body"]["text"] == "# Maps\n\nDraw a map."
        assert body["inserted"]["text"] == "# Maps\n\nDr"
        assert body["reference"]["text"] == "More of it."
        assert (body["package"]["over"], body["package"]["category"]) == (True, "task_skill")
        assert (await get(harness, "item/gone"))["package"]["has_text"] is False


@pytest.mark.spec("API-238", "LIB-016", "CFG-017")
async def test_texts_are_counted_in_order(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    async with open_harness(conductor_config=tmp_path / "conductor") as harness:
        encode = harness.service.context.text.encode
        texts = ["one two three", "", "one", "x" * 200_000]
        body = await count(harness, {"texts": texts})
        validate("packages-tokens", body)
        assert body["tokens"] == [len(encode(text)) for text in texts]


@pytest.mark.spec("API-238", "LIB-016")
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "texts"),
        ({"texts": []}, "texts"),
        ({"texts": "one"}, "texts"),
        ({"texts": ["a"] * 21}, "texts"),
        ({"texts": ["a", 7]}, "texts[1]"),
        ({"texts": ["a" * 200_001]}, "texts[0]"),
        ({"texts": ["a"], "more": 1}, "more"),
    ],
)
async def test_anything_else_is_a_400_that_names_it(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, body: Any, param: str
) -> None:
    async with open_harness(conductor_config=tmp_path / "conductor") as harness:
        assert (await count(harness, body, 400))["error"]["param"] == param


@pytest.mark.spec("API-238", "LIB-017", "CFG-017")
async def test_usage_counts_what_went_in_and_what_would_have(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    async with open_harness(conductor_config=tmp_path / "conductor") as harness:
        now = int(harness.service.context.wall.now().timestamp() * 1000)

        def row(age: int, **more: Any) -> JournalRow:
            return JournalRow(ts_ms=now - age, kind="route", session_key="c:1", **more)

        def notes(kind: str, *names: str) -> dict[str, Any]:
            return {"notes": [{"kind": kind, "parts": ["effort", *(f"package:{name}" for name in names)]}]}

        rows = (
            row(8 * DAY_MS, detail=notes("new", "coding")),  # too old
            row(2 * DAY_MS, detail=notes("new", "coding"), request_id="r1"),
            row(10, detail=notes("new", "coding", "test-web"), request_id="r2", class_="debug"),
            row(9, detail=notes("replayed", "coding")),  # put back, not inserted
            row(8, extra={"shadow": {"notes": ["package:coding"]}}, request_id="r3"),
            row(7, detail={"notes": "nonsense"}, extra={"shadow": 7}),
            JournalRow(ts_ms=now, kind="monitor", detail=notes("new", "coding")),
        )
        await harness.service.context.store.tell(Journal(rows, ()))
        await harness.service.context.store.ask(Flush)
        body = await get(harness, "usage", "packages-usage")
        assert body["packages"] == {
            "coding": {"inserted_day": 1, "inserted_week": 2, "would_day": 1, "would_week": 1},
            "test-web": {"inserted_day": 1, "inserted_week": 1, "would_day": 0, "would_week": 0},
        }
        assert "rows" not in body
        named = await get(harness, "usage?name=coding&limit=2", "packages-usage")
        assert [(one["request_id"], one["how"]) for one in named["rows"]] == [("r3", "shadow"), ("r2", "inserted")]
        assert named["rows"][1]["class_id"] == "debug"
        for bad in ("limit=0", "limit=201", "other=1"):
            await get(harness, f"usage?{bad}", status=400)


@pytest.mark.spec("API-238")
@pytest.mark.parametrize("login", [False, True])
async def test_they_are_read_as_the_dashboard_is(
    autojump_clock: trio.testing.MockClock, tmp_path: Path, login: bool
) -> None:
    secrets = Secrets(admin_token="a password of thirty-two characters")
    async with open_harness(
        secrets=secrets, dashboard_login=login, conductor_config=tmp_path / "conductor", allowed_hosts=["box"]
    ) as harness:
        expected = 401 if login else 200
        counted = await harness.client.send(f"{ROOT}/tokens", {"texts": ["a"]}, peer="203.0.113.9")
        listed = await harness.client.send(f"{ROOT}/catalog", peer="203.0.113.9")
        assert (counted.status, listed.status) == (expected, expected)
