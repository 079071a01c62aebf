"""The conductor's documents edited in a browser: forms, the difference, the note, versions, conflicts, locked ones."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import Faults, answer, example, goto, sideways_px
from tests.browser.past import HOSTILE, HOSTILE_IMAGE, get, hits, queries
from tests.e2e.process import Server


def current(server: Server, name: str) -> Any:
    return get(server, f"/v1/conductor/{name}")


def save(server: Server, name: str, document: Any, note: str = "by somebody else") -> None:
    """A new version, past the page."""
    body = json.dumps({"document": document, "note": note}).encode()
    request = urllib.request.Request(
        f"{server.base}/v1/conductor/{name}", body, {"Content-Type": "application/json"}, method="PUT"
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        assert response.status == 200


def start(server: Server, name: str, **changes: Any) -> str:
    """A new profile with the values of `general` and these; the name of its document."""
    document = {
        key: value for key, value in current(server, "profiles/general")["document"].items() if key != "clients"
    }
    save(server, f"profiles/{name}", {**document, **changes})
    return f"profiles/{name}"


def edited(page: Page, server: Server, screen: str, name: str) -> Locator:
    """The editor of a document, once it is there."""
    goto(page, server.base, f"conductor/{screen}")
    box = page.get_by_role("region", name=name, exact=True)
    expect(box.get_by_text("Versions")).to_be_visible()
    return box


def send(page: Page, note: str) -> Locator:
    """Presses save, with this note; the dialog."""
    page.get_by_role("button", name="Review and save").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Note").fill(note)
    dialog.get_by_role("button", name="Save").click()
    return dialog


@pytest.mark.spec("OBS-078", "OBS-092")
def test_router_is_edited_with_a_note_and_restored(page: Page, conducted: Server) -> None:
    before = current(conducted, "router")
    box = edited(page, conducted, "routing", "router")
    box.get_by_text("The classes of turns.").click()
    box.locator("summary", has_text="small talk").click()
    said = box.get_by_label("description", exact=True).first
    expect(said).to_have_accessible_description("What the class question shows. At most 400 characters.")
    said.fill(f"talk {HOSTILE}")
    page.get_by_role("button", name="Review and save").click()
    dialog = page.get_by_role("dialog")
    row = dialog.get_by_role("row", name="classes[chat].description")
    expect(row).to_contain_text("small talk")
    expect(row).to_contain_text(f"talk {HOSTILE}")
    dialog.get_by_role("button", name="Save").click()  # without a note
    assert current(conducted, "router")["version"] == before["version"]
    dialog.get_by_label("Note").fill("shorter")
    dialog.get_by_label("Note").press("Enter")
    expect(box).to_contain_text(f"Version {before['version'] + 1}")
    now = current(conducted, "router")
    assert (now["note"], now["document"]["classes"][0]["description"]) == ("shorter", f"talk {HOSTILE}")
    assert now["document"]["policies"] == before["document"]["policies"]
    box.get_by_text("Versions").click()
    box.get_by_role("button", name=f"Compare and restore {before['version']}", exact=True).click()
    expect(dialog.get_by_role("row", name="classes[chat].description")).to_contain_text(HOSTILE)
    dialog.get_by_label("Note").fill("back again")
    dialog.get_by_role("button", name="Restore").click()
    expect(box).to_contain_text("back again")
    assert current(conducted, "router")["document"] == before["document"]
    assert hits(page) is None


@pytest.mark.spec("OBS-078")
def test_refused_value_is_named_at_its_field(page: Page, faults: Faults, conducted: Server) -> None:
    faults.expect("status of 400")
    box = edited(page, conducted, "routing", "router")
    box.get_by_text("How a message's class is found.").click()
    box.get_by_role("group", name="engine").get_by_label("accept", exact=True).fill("7")
    dialog = send(page, "too much")
    expect(dialog.get_by_role("alert")).to_contain_text("classifier.engine.accept")
    page.get_by_role("button", name="Go to the key").click()
    accept = box.get_by_role("group", name="engine").get_by_label("accept", exact=True)
    expect(accept).to_have_attribute("aria-invalid", "true")
    expect(box.locator("[data-path='classifier.engine'] :focus")).to_have_count(1)
    accept.fill("seven")
    expect(box).to_contain_text("This is no number.")
    box.get_by_role("button", name="Discard").click()
    expect(box.get_by_role("status").filter(has_text="No changes")).to_be_visible()


@pytest.mark.spec("OBS-078", "API-234")
def test_somebody_else_saved_meanwhile(page: Page, faults: Faults, conducted: Server) -> None:
    faults.expect("status of 409")
    name = start(conducted, "shared")
    box = edited(page, conducted, "profiles/shared", name)
    box.get_by_label("secret_mask").select_option("shadow")
    document = current(conducted, name)["document"]
    save(conducted, name, {**document, "library": "on"})
    dialog = send(page, "mine")
    expect(dialog.get_by_role("alert")).to_contain_text("somebody else has saved")
    dialog.get_by_role("button", name="Load the newer version").click()
    expect(box).to_contain_text("Version 2")
    expect(box.get_by_label("library", exact=True)).to_have_value("on")
    expect(box.get_by_label("secret_mask")).to_have_value("shadow")
    expect(box).to_contain_text("1 change to version 2, not saved")
    send(page, "mine, after theirs")
    expect(box).to_contain_text("Version 3")
    now = current(conducted, name)["document"]
    assert (now["library"], now["secret_mask"]) == ("on", "shadow")


@pytest.mark.spec("OBS-093")
def test_profile_is_made_edited_and_defaults_stay_out_of_it(page: Page, conducted: Server) -> None:
    box = edited(page, conducted, "profiles/general", "profiles/general")
    box.get_by_text("New profile with the values").click()
    box.get_by_label("Its name").fill("nightly")
    box.get_by_role("button", name="Continue").click()
    page.get_by_role("dialog").get_by_label("Note").fill("for the night")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    box = page.get_by_role("region", name="profiles/nightly", exact=True)
    box.get_by_text("How long the model may think.").click()
    box.get_by_label("client_word").select_option("ceiling")
    box.get_by_label("New key in budgets").select_option("low")
    box.get_by_role("button", name="Add to budgets").click()
    box.get_by_label("low", exact=True).fill("512")
    box.get_by_text("Thresholds of the session tasks").click()
    notify = box.get_by_label("notify")
    notify.select_option("on")
    notify.select_option("")  # the default, which is no key of the document
    before = current(conducted, "profiles/nightly")["document"]
    send(page, "shorter thoughts")
    expect(box).to_contain_text("Version 2")
    after = current(conducted, "profiles/nightly")["document"]
    assert after["thinking"]["budgets"]["low"] == 512
    assert after["thinking"]["client_word"] == "ceiling"
    assert "notify" not in after.get("context", {})
    assert {key: value for key, value in after.items() if key not in ("thinking", "context")} == {
        key: value for key, value in before.items() if key not in ("thinking", "context")
    }


@pytest.mark.spec("OBS-093", "OBS-094")
def test_locked_profile_is_read_only(page: Page, conducted: Server) -> None:
    """What the monitor's tasks found under a profile stands beside their modes."""
    tasks = get(conducted, "/v1/conductor/schemas/profiles")["$defs"]["Tasks"]["properties"]
    assert {"D1", "E1", "C3"} < set(tasks)
    assert not {"S5", "A1"} & set(tasks)
    asked = queries(page, "/v1/conductor/overview")
    answer(page, "/v1/conductor/overview", example("conductor-overview"))
    box = edited(page, conducted, "profiles/raw", "profiles/raw")
    expect(box.get_by_role("region", name="Findings in 7 days").get_by_role("row", name="C3")).to_contain_text("3")
    assert asked == [{"profile": ["raw"]}]
    expect(box).to_contain_text("locked")
    expect(box.get_by_label("mode", exact=True)).to_be_disabled()
    expect(box.get_by_role("button", name="Review and save")).to_have_count(0)
    goto(page, conducted.base, "conductor/profiles/%3Cimg%20src%3Dx%20onerror%3D'window.hit%20%3D%201'%3E")
    expect(page.get_by_text("There is no profile <img src=x")).to_be_visible()
    assert hits(page) is None


@pytest.mark.spec("OBS-093")
def test_roles_mark_what_the_server_filled_in(page: Page, conducted: Server) -> None:
    found = current(conducted, "roles")
    del found["document"]["roles"]["tester"]["window"]  # as it was stored before the contract had this key
    next(role for role in found["contracts"] if role["name"] == "tester")["filled"] = ["window"]
    answer(page, "/v1/conductor/roles", found)
    box = edited(page, conducted, "settings", "roles")
    table = box.get_by_role("region", name="Roles as they are read")
    expect(table.get_by_role("row", name="tester")).to_contain_text("◆ idle")
    box.get_by_role("button", name="Write them into the document").click()
    box.get_by_role("button", name="Review and save").click()
    expect(page.get_by_role("dialog").get_by_role("row", name="roles.tester.window")).to_contain_text("idle")
    page.get_by_role("button", name="Back").click()
    box.get_by_role("button", name="Discard").click()
    page.unroute_all()


@pytest.mark.spec("OBS-095")
def test_packages_have_a_catalog_parts_and_counted_text(page: Page, conducted: Server) -> None:
    document = current(conducted, "packages")["document"]
    hostile = {"name": "hostile", "description": HOSTILE_IMAGE, "max_tokens": 20, "text": HOSTILE}
    save(conducted, "packages", {**document, "packages": [*document["packages"], hostile]})
    goto(page, conducted.base, "conductor/packages")
    catalog = page.get_by_role("region", name="Packages", exact=True)
    expect(catalog.get_by_role("row", name="coding general")).to_contain_text("code_edit, debug")
    catalog.get_by_role("link", name="hostile").click()
    item = page.get_by_role("region", name="hostile", exact=True)
    expect(item).to_contain_text(HOSTILE_IMAGE)
    item.get_by_text("As inserted").click()
    expect(item).to_contain_text(HOSTILE)
    box = page.get_by_role("region", name="packages", exact=True)
    expect(box).to_contain_text("its limit is 20")
    box.get_by_label("text", exact=True).fill("word " * 60)
    expect(box.get_by_text("▲ The text below has")).to_be_visible()
    box.get_by_label("max_tokens").fill("200")
    expect(box.get_by_text("its limit is 200.")).to_be_visible()
    send(page, "longer")
    expect(item).to_contain_text("of 200")
    assert current(conducted, "packages")["document"]["packages"][-1]["max_tokens"] == 200
    assert hits(page) is None


@pytest.mark.spec("OBS-081")
def test_items_are_added_moved_and_removed_by_keyboard(page: Page, conducted: Server) -> None:
    box = edited(page, conducted, "routing", "router")
    box.locator("summary", has_text="The classes of turns.").press("Enter")
    add = box.get_by_role("button", name="Add to classes")
    add.focus()
    page.keyboard.press("Enter")
    page.keyboard.type("poem")  # the new item's first field has the focus
    box.get_by_label("label", exact=True).fill("Poem")
    box.get_by_role("button", name="Up poem").press("Enter")
    assert box.locator("[data-path^='classes['] > summary strong").all_inner_texts()[-2] == "poem"
    box.locator("[data-id='writing'] > summary").press("Enter")
    box.get_by_role("button", name="Remove writing").press("Enter")
    box.get_by_role("button", name="Review and save").press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name="classes[poem]")).to_contain_text("not there")
    expect(dialog.get_by_role("row", name="classes[writing]")).to_contain_text("not there")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    box.get_by_role("button", name="Discard").press("Enter")
    expect(box).to_contain_text("No changes to version")


def test_typing_moves_nothing_and_stays_while_other_screens_are_read(page: Page, conducted: Server) -> None:
    name = start(conducted, "drafts")
    box = edited(page, conducted, "profiles/drafts", name)
    heading = box.get_by_text("Which decisions are made")
    bar = box.get_by_role("button", name="Review and save")
    before = (heading.bounding_box(), bar.bounding_box())
    box.get_by_label("secret_mask").select_option("shadow")
    expect(box).to_contain_text("1 change to version 1")
    assert (heading.bounding_box(), bar.bounding_box()) == before
    page.get_by_role("navigation", name="Conductor").get_by_role("link", name="Settings").click()
    expect(page.get_by_role("region", name="settings", exact=True)).to_be_visible()
    page.go_back()
    expect(box.get_by_label("secret_mask")).to_have_value("shadow")
    expect(box).to_contain_text("1 change to version 1")
    box.get_by_role("button", name="Discard").click()
    expect(box.get_by_label("secret_mask")).not_to_have_value("shadow")
    assert current(conducted, name)["version"] == 1


@pytest.mark.spec("OBS-081")
def test_phone_has_every_screen(open_page: OpenPage, conducted: Server) -> None:
    phone = open_page((360, 700), scheme="dark")
    for screen in ("routing", "profiles/coding", "packages", "packages/coding", "monitor", "deciders", "settings"):
        phone.goto("about:blank")  # else the screen before may still be there
        goto(phone, conducted.base, f"conductor/{screen}")
        expect(phone.get_by_text("Versions").first).to_be_visible()
        phone.evaluate("document.querySelectorAll('.form > details').forEach((section) => (section.open = true))")
        expect(phone.locator(".form > details > .section-body:empty"), screen).to_have_count(0)
        assert sideways_px(phone) <= 0, screen


REBASED = """async () => {
  const { applied, differences } = await import(new URL("js/conductor/diff.js", document.baseURI).href);
  const { Draft } = await import(new URL("js/conductor/draft.js", document.baseURI).href);
  const base = { list: [{ id: "a", n: 1 }, { id: "b", n: 1 }, { id: "c", n: 1 }], keep: { x: 1 }, plain: [1, 2] };
  const mine = { list: [{ id: "b", n: 1 }, { id: "a", n: 2 }, { id: "d", n: 1 }], keep: { x: 1, y: 2 }, plain: [2] };
  const theirs = { list: [{ id: "new", n: 9 }, { id: "a", n: 1, m: 3 }, { id: "b", n: 1 }, { id: "c", n: 1 }] };
  const draft = new Draft({ mode: "on" }, 1);
  draft.set(["thinking", "budgets", "low"], 5);
  draft.set(["thinking", "budgets", "low"], undefined);
  draft.set(["classifier", "mode"], undefined);
  const merged = applied(theirs, differences(base, mine));
  return { merged, draft: draft.value, none: differences(base, structuredClone(base)) };
}"""


@pytest.mark.spec("OBS-078")
def test_changes_fit_on_another_version(page: Page, empty: Server) -> None:
    goto(page, empty.base, "live")
    found = page.evaluate(REBASED)
    assert found["none"] == []
    assert found["draft"] == {"mode": "on"}
    merged = found["merged"]
    assert {item["id"]: item for item in merged["list"]} == {
        "new": {"id": "new", "n": 9},
        "a": {"id": "a", "n": 2, "m": 3},
        "b": {"id": "b", "n": 1},
        "d": {"id": "d", "n": 1},
    }
    ids = [item["id"] for item in merged["list"]]
    assert ids.index("b") < ids.index("a")
    assert (merged["keep"], merged["plain"]) == ({"y": 2}, [2])
