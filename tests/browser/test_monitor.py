"""The monitor in a browser: what it found and did with the text that only the model read, its policy, and its badge."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import Faults, answer, example, feed, fill_viewport, goto, shot, sideways_px
from tests.browser.past import HOSTILE, get, hits
from tests.browser.test_conductor_documents import current, edited, send
from tests.e2e.process import Server
from tests.e2e.wire import until

NUDGE = "Your turn ended without an answer."


@pytest.fixture(scope="module")
def monitored(conducted: Server) -> Server:
    """The server with a conductor, whose monitor has acted."""
    script = {"say": "", "then": ["Here it is."]}
    body = {"model": "M", "messages": [{"role": "user", "content": f"@fake {json.dumps(script)}"}]}
    request = urllib.request.Request(
        f"{conducted.base}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        assert response.status == 200
    until(lambda: get(conducted, "/v1/conductor/events", kind="monitor", task="E1")["events"], every_s=0.05)
    return conducted


@pytest.mark.spec("OBS-096", "OBS-112")
def test_what_it_did_is_there_with_the_text_that_only_the_model_read(page: Page, monitored: Server) -> None:
    goto(page, monitored.base, "conductor/monitor")
    row = page.get_by_role("region", name="Monitor", exact=True).get_by_role("row", name="E1")
    for words in ("SP2", "continue hidden", "● acted"):
        expect(row).to_contain_text(words)
    row.get_by_text("what the model read at token").click()
    expect(row.locator("pre")).to_contain_text(NUDGE)
    counts = page.get_by_role("region", name="Findings by task")
    expect(counts.get_by_role("row", name="E1")).to_contain_text("1")
    expect(counts.get_by_role("row", name="request")).to_have_count(0)
    page.get_by_label("Mode").select_option("shadow")
    expect(page.get_by_text("It has found nothing.")).to_be_visible()
    page.get_by_label("Mode").select_option("")
    expect(row).to_be_visible()
    shot(page, "conductor-monitor")
    assert fill_viewport(page, [(360, 700), (2560, 1200)]) == {}
    row.get_by_role("link").first.click()
    journal = page.get_by_role("region", name="Journal", exact=True)
    expect(journal.get_by_role("region", name="Monitor").get_by_role("row", name="E1")).to_contain_text("● acted")


@pytest.mark.spec("OBS-096", "OBS-078")
def test_policy_is_a_form_of_its_tasks(page: Page, faults: Faults, monitored: Server) -> None:
    faults.expect("status of 400")
    before = current(monitored, "monitor")["document"]
    [at] = [at for at, task in enumerate(before["tasks"]) if task["id"] == "E1"]
    box = edited(page, monitored, "monitor", "monitor")
    box.get_by_text("In the order of evaluation").click()
    task = box.locator(f"details[data-path='tasks[{at}]']")
    expect(task.locator("summary")).to_contain_text("E1 empty_finish, act:")
    task.locator("summary").click()
    task.get_by_label("mode", exact=True).select_option("shadow")
    tries = task.get_by_label("tries", exact=True)
    expect(tries).to_have_value(str(before["tasks"][at]["tries"]))
    tries.fill("1")
    box.get_by_text("What it says where a task has no text").click()
    close = box.get_by_label("vendor_close", exact=True)
    close.fill("x")
    close.fill("")  # null once more, which is no change
    nudge = box.get_by_label("nudge", exact=True)
    nudge.fill(f"Go on, {{nobody}}. {HOSTILE}")
    dialog = send(page, "shorter")
    expect(dialog.get_by_role("alert")).to_contain_text("{nobody} is no placeholder here")
    page.get_by_role("button", name="Go to the key").click()
    expect(nudge).to_have_attribute("aria-invalid", "true")
    nudge.fill(f"Go on. {HOSTILE}")
    page.get_by_role("button", name="Review and save").click()
    expect(dialog.get_by_role("row", name="tasks[E1].mode")).to_contain_text("shadow")
    expect(dialog.get_by_role("row", name="texts.vendor_close")).to_have_count(0)
    dialog.get_by_label("Note").fill("shorter")
    dialog.get_by_role("button", name="Save").click()
    expect(box).to_contain_text("Version 1")
    after = current(monitored, "monitor")["document"]
    before["tasks"][at] |= {"mode": "shadow", "tries": 1}
    before["texts"]["nudge"] = f"Go on. {HOSTILE}"
    assert after == before
    assert hits(page) is None


@pytest.mark.spec("OBS-096")
def test_task_is_added_with_the_defaults_of_its_rule(page: Page, monitored: Server) -> None:
    box = edited(page, monitored, "monitor", "monitor")
    box.get_by_text("In the order of evaluation").click()
    box.get_by_label("rule of a new one").select_option("answer_loop")
    box.get_by_role("button", name="Add to tasks").click()
    many = len(current(monitored, "monitor")["document"]["tasks"])
    task = box.locator(f"details[data-path='tasks[{many}]']")
    expect(task.locator("summary")).to_contain_text("no name yet")
    expect(task.get_by_label("first", exact=True)).to_have_value("1024")
    expect(task.get_by_label("tier")).to_have_value("0")
    expect(task.get_by_role("group", name="form").get_by_label("copies")).to_have_value("6")
    box.get_by_role("button", name="Discard").click()


@pytest.mark.spec("MON-132", "OBS-096")
def test_watch_tells_how_sessions_stand(page: Page, faults: Faults, monitored: Server) -> None:
    page.clock.install()
    answer(page, "/v1/conductor/watch", example("conductor-watch"))
    goto(page, monitored.base, "conductor/monitor")
    watch = page.get_by_role("region", name="Watched sessions")
    row = watch.get_by_role("row", name="c:7f3e opencode")
    for words in ("page-check fails, 3 running, 2 open (best 2) noted", "unit passes", "no state file read in 3 calls"):
        expect(row).to_contain_text(words)
    for words in ("wrote 6 m 53 s ago", "a turn runs", "yes"):
        expect(row).to_contain_text(words)
    expect(watch.get_by_role("row", name="h:0c1d2e3f4a5b6c7d")).to_contain_text("idle, last turn ended 25 m 30 s ago")
    gone = example("conductor-watch")
    gone["sessions"][1]["client"]["gone"] = True
    answer(page, "/v1/conductor/watch", gone)
    page.clock.run_for(5_000)
    expect(watch).to_contain_text("▲ gone")
    faults.expect("Failed to load resource")
    answer(page, "/v1/conductor/watch", status=500)
    page.clock.run_for(5_000)
    expect(page.get_by_text("Not refreshed: the store is on fire")).to_be_visible()
    expect(watch).to_contain_text("▲ gone")


@pytest.mark.spec("OBS-067", "OBS-080", "OBS-084")
def test_act_shows_on_its_request_while_it_happens(page: Page, monitored: Server) -> None:
    live = feed(page)
    goto(page, monitored.base, "live")
    row = page.locator(".request:not([data-free])").first
    act = row.locator(".request-act")
    expect(act).to_have_text("◆ monitor: C3 had a call written anew, 2 acts, 62 hidden tokens")
    place = row.bounding_box()

    def now(document: Any) -> None:
        document["requests"][0]["activity"]["conductor"] |= {"supervising": True, "label": HOSTILE}

    live.push(now)
    expect(act).to_have_text(f"▶ {HOSTILE}")
    live.push(lambda document: document["requests"][0]["activity"].pop("conductor"))
    expect(act).to_have_text("")
    assert row.bounding_box() == place
    assert hits(page) is None


@pytest.mark.spec("OBS-096")
def test_follow_up_verdicts_and_one_session(open_page: OpenPage, monitored: Server) -> None:
    page = open_page((360, 700), scheme="dark")
    body = example("conductor-events")
    label = {
        "task": "E2",
        "decision": "LABEL",
        "reason": "claim_outcome(ran_no_fix)",
        "action": None,
        "text_hash": None,
    }
    detail = {"verdict": "no_run_after_last_write", "sent": True, "call_count": 8, "claimed": True}
    body["events"] = [{**body["events"][0], **label, "detail": detail}]
    answer(page, "/v1/conductor/events", body)
    goto(page, monitored.base, "conductor/monitor/c%3A7f3e")
    row = page.get_by_role("region", name="Follow-up verdicts").get_by_role("row", name="no run after last write")
    for words in ("● to the model", "ran no fix", "8", "▲ yes", "c:7f3e"):
        expect(row).to_contain_text(words)
    expect(page.get_by_role("region", name="What it found")).to_contain_text("Of session c:7f3e")
    expect(page.get_by_role("region", name="Monitor", exact=True)).to_contain_text("· noted")
    assert sideways_px(page) <= 0
