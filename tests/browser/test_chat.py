"""The Chat screen, held against a server on the fake engine."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Request, Route, expect

from tests.browser.conftest import OpenPage
from tests.browser.driving import Faults, goto, shot, sideways_px
from tests.e2e.process import Server

CASES = Path(__file__).with_name("markdown_cases.mjs")
MARKDOWN = """# Rivers of *Europe*

Three **long** ones, ~~four~~ five, with `code` and [a link](https://example.org/x), [bad](javascript:alert(1)),
![a map](https://example.org/map.png) and <script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">.

| River | km | State |
|:--|--:|:-:|
| Volga | 3,530 | `wide` |
| Danube | 2,850 | **blue** |

1. First
   - nested
2. Second

- [x] done
- [ ] open

> A quote

```python
def hello(name: str) -> str:
    return f"hello {name}, and this line is long enough that a phone has to scroll it sideways"
```

The end."""
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("weather", "clock")
]
CALL = "<tool_call>\n<function={}>\n<parameter=city>\n{}\n</parameter>\n</function>\n</tool_call>"


def fake(say: Any, words: str = "Hello", **more: Any) -> str:
    """A message whose answer is `say`."""
    return f"{words} @fake {json.dumps({'say': say, **more})}"


def write(page: Page, words: str) -> None:
    page.get_by_label("Message", exact=True).fill(words)
    page.keyboard.press("Enter")


def settle(page: Page) -> None:
    """Waits until no answer runs."""
    expect(page.locator(".chat-form .primary")).to_be_visible()


def answers(page: Page) -> Locator:
    return page.locator("article[aria-label=Answer]")


def ask(page: Page, words: str) -> Locator:
    """Sends a message; its answer, once it is complete."""
    count = answers(page).count()
    write(page, words)
    expect(answers(page)).to_have_count(count + 1)
    settle(page)
    return answers(page).last


def sent_bodies(page: Page) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """Headers and bodies of the chat requests from now on."""
    seen: list[tuple[dict[str, str], dict[str, Any]]] = []

    def note(request: Request) -> None:
        if "completions" in request.url:
            seen.append((request.headers, json.loads(request.post_data or "")))

    page.on("request", note)
    return seen


def test_markdown_is_read_in_linear_time() -> None:
    done = subprocess.run(["node", CASES], capture_output=True, text=True, timeout=20, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.spec("OBS-090", "API-069")
def test_an_answer_with_reasoning_and_markdown(page: Page, server: Server) -> None:
    seen = sent_bodies(page)
    goto(page, server.base, "chat")
    answer = ask(page, fake(f"<think>\nBig *ones*.\n</think>\n\n{MARKDOWN}", "<script>window.hacked = 3</script>"))
    assert seen[0][0]["x-tandem-client"] == "chat-app"
    reasoning = answer.locator("details.reasoning")
    expect(reasoning).not_to_have_attribute("open", "")
    reasoning.locator("summary").click()
    expect(reasoning.locator("em")).to_have_text("ones")
    said = answer.locator(".said")
    expect(said.locator("h3 em")).to_have_text("Europe")
    expect(said.locator("td").nth(1)).to_have_text("3,530")
    expect(said.locator("ol ul li")).to_have_text("nested")
    expect(said.locator("li.task input").first).to_be_checked()
    expect(said.locator(".code-head span")).to_have_text("python")
    expect(said).to_contain_text("<script>window.hacked = 1</script><img src=x")
    links = [link.get_attribute("href") for link in said.locator("a").all()]
    assert links == ["https://example.org/x", "https://example.org/map.png"]
    assert {link.get_attribute("rel") for link in said.locator("a").all()} == {"noopener noreferrer"}
    assert said.locator("img, script").count() == 0
    expect(page.locator(".turn.user .said")).to_contain_text("<script>window.hacked = 3</script>")
    assert page.evaluate("window.hacked") is None
    page.evaluate("scrollTo(0, 0)")
    shot(page, "chat-answer")


@pytest.mark.spec("OBS-090")
def test_figures_of_an_answer_are_those_of_the_server(page: Page, server: Server) -> None:
    goto(page, server.base, "chat")
    answer = ask(page, fake("One two three."))
    expect(answer.locator(".figures")).to_contain_text(re.compile(r"\d+ tokens read.*\d+ written.*first token \d"))
    answer.get_by_text("curl", exact=True).click()
    command = answer.locator(".curl pre")
    expect(command).to_contain_text(f"curl -N '{server.base}/v1/chat/completions'")
    done = subprocess.run(["bash", "-c", command.inner_text()], capture_output=True, text=True, timeout=20, check=True)
    assert '"content":"One"' in done.stdout
    assert done.stdout.rstrip().endswith("data: [DONE]")
    request = answer.get_by_role("link", name="This request in Dev").get_attribute("href")
    assert request is not None
    assert request.removeprefix("#/dev/request/") in server.log


@pytest.mark.spec("OBS-090")
def test_calls_are_cards_and_their_results_go_back(page: Page, server: Server) -> None:
    seen = sent_bodies(page)
    goto(page, server.base, "chat")
    page.get_by_label(re.compile("^Tools")).fill(json.dumps(TOOLS))
    calls = f"Let me look.\n{CALL.format('weather', 'Ulm')}\n{CALL.format('clock', 'Bonn')}"
    answer = ask(page, fake(calls, turns=[{"say": "It rains."}]))
    cards = answer.get_by_role("region", name="Tool call")
    expect(cards.locator("h3")).to_have_text(["weather", "clock"])
    expect(cards.first.locator("pre").first).to_have_text('{\n  "city": "Ulm"\n}')
    cards.nth(0).get_by_label("Result", exact=True).fill("rain")
    cards.nth(1).get_by_label("Result", exact=True).fill("noon")
    page.evaluate("scrollTo(0, 0)")
    shot(page, "chat-tools")
    answer.get_by_role("button", name="Send the results").click()
    expect(answers(page).last).to_contain_text("It rains.")
    expect(answers(page).first.get_by_label("Given result").first).to_have_text("rain")
    messages = seen[1][1]["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "tool"]
    assert [each.get("content") for each in messages[2:]] == ["rain", "noon"]
    assert [each["id"] for each in messages[1]["tool_calls"]] == [each["tool_call_id"] for each in messages[2:]]


@pytest.mark.spec("OBS-090")
def test_stop_regenerate_and_edit(page: Page, server: Server) -> None:
    seen = sent_bodies(page)
    goto(page, server.base, "chat")
    write(page, fake("again ", loop=True, token_ms=5))
    expect(answers(page).last).to_contain_text("again again")
    page.keyboard.press("Escape")
    settle(page)
    expect(answers(page).last.locator(".figures")).to_contain_text("stopped")
    answers(page).last.get_by_role("button", name="Regenerate").click()
    expect(answers(page).last).to_contain_text("again again")
    page.get_by_role("button", name="Stop").click()
    settle(page)
    assert seen[1][0]["x-tandem-regenerate"] == "1"
    assert seen[1][1]["messages"] == seen[0][1]["messages"]
    ask(page, fake("Second."))
    mine = page.get_by_role("article", name="You")
    mine.first.get_by_role("button", name="Edit").click()
    mine.first.get_by_label("Your message").fill(fake("Edited."))
    mine.first.get_by_role("button", name="Send, and drop the 3 messages after it").click()
    expect(answers(page)).to_have_count(1)
    expect(answers(page).last).to_contain_text("Edited.")
    assert len(seen[-1][1]["messages"]) == 1
    settle(page)
    mine.first.get_by_role("button", name="Edit").click()
    mine.first.get_by_label("Your message").fill(fake("Branch."))
    mine.first.get_by_role("button", name="Send in a copy of this chat").click()
    expect(answers(page).last).to_contain_text("Branch.")
    expect(page.get_by_label("Conversation").locator("option")).to_have_count(2)


@pytest.mark.spec("OBS-091")
def test_only_what_was_changed_is_sent(page: Page, server: Server) -> None:
    seen = sent_bodies(page)
    goto(page, server.base, "chat")
    expect(page.get_by_label("Reasoning effort")).to_contain_text("default: medium")
    ask(page, "Plain")
    assert seen[0][1] == {
        "model": "TandemLLM",
        "messages": [{"role": "user", "content": "Plain"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "reasoning_format": "reasoning_content",
    }
    page.get_by_label("Temperature").fill("0.5")
    page.get_by_label(re.compile("^Stop strings")).fill("END\\n\nso")
    page.get_by_label(re.compile("^Tools")).fill(json.dumps(TOOLS))
    page.get_by_label("Tool choice").select_option("clock")
    page.get_by_label("System prompt").fill("Be brief.")
    ask(page, fake("Fine."))
    body = seen[1][1]
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (body["temperature"], body["stop"], body["tools"]) == (0.5, ["END\n", "so"], TOOLS)
    assert body["tool_choice"] == {"type": "function", "function": {"name": "clock"}}
    page.get_by_label("Temperature").fill("3")
    expect(page.get_by_text("The most is 2.")).to_be_visible()
    page.get_by_label(re.compile("^Tools")).fill('{"a": 1}')
    expect(page.get_by_text("This takes a list, even of a single tool.")).to_be_visible()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    page.get_by_role("button", name="Use the server's defaults").click()
    ask(page, "Plain")
    assert seen[2][1].keys() == seen[0][1].keys()


@pytest.mark.spec("OBS-091", "OBS-114")
def test_presets_draft_and_conversation_stay_in_the_browser(page: Page, server: Server) -> None:
    goto(page, server.base, "chat")
    ask(page, fake("Kept.", "Keep this"))
    page.get_by_label("Temperature").fill("0.7")
    page.get_by_label("Name of the preset").fill("warm")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Use the server's defaults").click()
    page.get_by_label("Message", exact=True).fill("half a thou")
    page.reload()
    expect(page.get_by_label("Message", exact=True)).to_have_value("half a thou")
    expect(answers(page).last).to_contain_text("Kept.")
    page.get_by_label("Name of the preset").fill("warm")
    page.get_by_role("button", name="Use", exact=True).click()
    expect(page.get_by_label("Temperature")).to_have_value("0.7")
    files = {}
    for name in ("Export", "Export as JSON", "Export as Markdown"):
        with page.expect_download() as download:
            page.get_by_role("button", name=name, exact=True).click()
        files[name] = Path(download.value.path()).read_text("utf-8")
    assert json.loads(files["Export"]) == {"warm": {"temperature": "0.7"}}
    assert [turn["role"] for turn in json.loads(files["Export as JSON"])["turns"]] == ["user", "assistant"]
    assert "## Answer\n\nKept." in files["Export as Markdown"]
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Really delete?").click()
    expect(answers(page)).to_have_count(0)


def test_failures_are_told_and_tried_again(page: Page, server: Server, faults: Faults) -> None:
    faults.expect("503|429|ERR_INCOMPLETE_CHUNKED")
    status = 503
    error = {"error": {"message": "the queue is full; try again shortly", "type": "overloaded", "param": None}}

    def refuse(route: Route) -> None:
        route.fulfill(
            status=status, headers={"Retry-After": "5"}, content_type="application/json", body=json.dumps(error)
        )

    goto(page, server.base, "chat")
    page.route("**/v1/chat/completions", refuse)
    write(page, fake("At last."))
    fault = answers(page).last.locator(".notice")
    expect(fault).to_contain_text("Refused with 503: the queue is full; try again shortly.")
    expect(fault).to_contain_text("asks to wait 5 s")
    shot(page, "chat-refused")
    page.unroute("**/v1/chat/completions")
    fault.get_by_role("button", name="Retry").click()
    expect(answers(page).last).to_contain_text("At last.")
    settle(page)
    # The engine fails in the middle: the error ends the stream, and what came stays.
    answer = ask(page, fake("One two three four", fail_at=2))
    expect(answer.locator(".said")).to_contain_text("One")
    expect(answer.locator(".notice")).to_contain_text("the server failed on this request")
    # A connection that ends without the stream's end.
    piece = {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"content": "Half an "}}]}
    page.route(
        "**/v1/chat/completions",
        lambda route: route.fulfill(content_type="text/event-stream", body=f"data: {json.dumps(piece)}\n\n"),
    )
    answer = ask(page, "More")
    expect(answer.locator(".said")).to_have_text("Half an ")
    expect(answer.locator(".notice")).to_contain_text("The connection was lost. What had come is kept.")


def test_the_wait_is_told_and_an_answer_goes_on_behind_other_screens(page: Page, server: Server) -> None:
    goto(page, server.base, "chat")
    page.evaluate(
        """() => {
            const real = window.fetch;
            window.fetch = async (url, init) => {
                if (!String(url).includes("completions")) return real(url, init);
                const bytes = new TextEncoder();
                const start = (control) => {
                    window.feed = (text) => control.enqueue(bytes.encode(text));
                    init.signal.addEventListener("abort", () => control.error(init.signal.reason));
                };
                const body = new ReadableStream({ start });
                return new Response(body, { headers: { "content-type": "text/event-stream" } });
            };
        }"""
    )
    write(page, "Hello")
    waits = answers(page).last.locator(".waits")
    expect(waits).to_have_text("Sent …")
    for sent, told in (
        (": waiting, position 2, about 40 s, 10 s so far", "2nd in line, about 40 s, 10 s so far"),
        (": ping", "2nd in line, about 40 s, 10 s so far"),
        (": prefill 512/2048", "Reading the prompt: 512 of 2,048 tokens (25 %)"),
        (": prefill 512/2048, image 2 of 5", "Reading the prompt: 512 of 2,048 tokens (25 %), image 2 of 5"),
    ):
        page.evaluate("text => window.feed(text + '\\n\\n')", sent)
        expect(waits).to_have_text(told)
    page.evaluate("location.hash = '#/live'")
    page.wait_for_selector("[data-view=live]")
    page.evaluate("""() => window.feed('data: {"choices":[{"delta":{"content":"Written meanwhile"}}]}\\n\\n')""")
    page.evaluate("location.hash = '#/chat'")
    expect(answers(page).last).to_contain_text("Written meanwhile")
    expect(page.locator("#announcer")).to_have_text("The answer begins.")
    page.keyboard.press("Escape")
    settle(page)
    expect(page.locator("#announcer")).to_have_text("The answer was stopped.")


def test_a_long_answer_stays_fluid(page: Page, server: Server) -> None:
    goto(page, server.base, "chat")
    long = "".join(f"## Part {n}\n\nSome *text* of part {n}.\n\n```js\nlet a = {n};\n```\n\n" for n in range(3500))
    assert len(long) > 200_000
    chunks = "".join(
        f"data: {json.dumps({'choices': [{'delta': {'content': long[at : at + 100]}}]})}\n\n"
        for at in range(0, len(long), 100)
    )
    page.route(
        "**/v1/chat/completions",
        lambda route: route.fulfill(content_type="text/event-stream", body=f"{chunks}data: [DONE]\n\n"),
    )
    answer = ask(page, "Long")
    expect(answer.locator(".said > *")).to_have_count(10_500)
    key = page.evaluate("Object.keys(localStorage).find((key) => key.includes('talk'))")
    kept = json.loads(page.evaluate("(key) => localStorage.getItem(key)", key))["turns"][1]["content"]
    assert kept == long


def test_a_browser_that_keeps_nothing(page: Page, server: Server) -> None:
    refuse = "get() { throw new DOMException('no', 'SecurityError'); }"
    for name in ("localStorage", "sessionStorage"):
        page.add_init_script(f"Object.defineProperty(window, '{name}', {{ {refuse} }});")
    goto(page, server.base, "chat")
    expect(ask(page, fake("Said all the same.")).locator(".said")).to_have_text("Said all the same.")
    page.get_by_label("Name of the preset").fill("warm")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("This browser keeps nothing.")).to_be_visible()


def test_on_a_phone(open_page: OpenPage, server: Server) -> None:
    page = open_page((390, 844))
    goto(page, server.base, "chat")
    ask(page, fake(MARKDOWN))
    assert sideways_px(page) <= 0
    expect(page.get_by_label("Temperature")).to_be_hidden()
    page.get_by_role("button", name="Parameters").click()
    expect(page.get_by_label("Temperature")).to_be_visible()
    assert sideways_px(page) <= 0
