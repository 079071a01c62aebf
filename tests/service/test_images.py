"""Images on their way through a request (HTTP API section 21), as far as no tower is needed.

The fake engine that sees has one `<|image_pad|>` a row in its prompt.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpcore2
import pytest
import trio
import trio.testing

from tandem.actors.kit import Inline
from tandem.conductor.sessions import SessionFacts, SessionView
from tandem.config import Settings
from tandem.engine.fake import FakeEngine
from tandem.engine.fake.engine import FakeSeq
from tandem.engine.fake.vocabulary import IMAGE_PAD
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt
from tandem.http.images import ImageLoader
from tandem.http.images.fetch import Fetcher
from tandem.http.openai.images import LEFT_OUT, BadImage, Geometry
from tests.http.images.pictures import data_url, encoded, image_of, png_header
from tests.http.images.server import LOCAL, Names, make_certificate, redirect, serve
from tests.service.harness import Call, Harness, chat, fake, open_harness

CHAT = "/v1/chat/completions"
LEFT_OUT_HEADER = "x-tandem-images-left-out"
SAY = fake(say="It is red.")
VGA = encoded(image_of(640, 480))
"""300 rows."""
SMALL = encoded(image_of(4, 4))
"""64 rows, the fewest."""
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["stream", "body"])


class Watched(FakeEngine):
    """Keeps the prompts it was opened with."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.prompts: list[Prompt] = []

    def open(self, prompt: Prompt) -> FakeSeq:
        self.prompts.append(prompt)
        return super().open(prompt)

    @property
    def rows(self) -> list[int]:
        """Image rows of each prompt."""
        return [prompt.ids.count(IMAGE_PAD) for prompt in self.prompts]

    @property
    def shown(self) -> str:
        """The newest prompt as text."""
        return "".join(map(self.text.name, self.prompts[-1].ids))


@dataclass
class Fetches:
    """In place of the fence: bodies by URL, after a second; what is not listed is a small image."""

    bodies: Mapping[str, Any] = field(default_factory=dict)
    takes_s: Mapping[str, float] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    now: int = 0

    async def fetch(self, url: str) -> bytes:
        self.begun.append(url)
        self.now += 1
        try:
            await trio.sleep(self.takes_s.get(url, 1))
            body = self.bodies.get(url, SMALL)
            if isinstance(body, Exception):
                raise body
            return bytes(body)
        finally:
            self.now -= 1


def loader(**settings: Any) -> ImageLoader:
    return ImageLoader.from_settings(Settings(**settings), Geometry(), Inline())


def resolving(names: Any, **settings: Any) -> ImageLoader:
    """The real fence, with a resolver of the test's own."""
    made = loader(**settings)
    assert isinstance(made.fetcher, Fetcher)
    made.fetcher = replace(made.fetcher, resolve=names)
    return made


@asynccontextmanager
async def seeing(
    fetches: Fetches | None = None, *, engine: Watched | None = None, **settings: Any
) -> AsyncIterator[tuple[Harness, Watched]]:
    """A service whose model sees; its https images come from `fetches`."""
    images = None
    if fetches is not None:
        images = loader(**settings)
        images.fetcher = fetches
    engine = engine or Watched(images=True)
    async with open_harness(engine=engine, images=images, **settings) as harness:
        yield harness, engine


def image(url: str | bytes = VGA, **more: Any) -> dict[str, Any]:
    shown = data_url(url) if isinstance(url, bytes) else url
    return {"type": "image_url", "image_url": {"url": shown, **more}}


def text(words: str = SAY) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


def asking(*parts: Any, **more: Any) -> dict[str, Any]:
    """A request with one message."""
    return {"messages": [user(*parts)], **more}


def urls(count: int, first: int = 0) -> list[str]:
    return [f"https://pictures.example/{number}" for number in range(first, first + count)]


def turns(images: Sequence[str | bytes], **more: Any) -> dict[str, Any]:
    """A conversation with one image a turn, the newest last."""
    answer = {"role": "assistant", "content": "Red."}
    messages: list[Any] = [{"role": "system", "content": "Be brief."}]
    for number, url in enumerate(images):
        messages += [user(image(url), text(f"turn {number} {SAY}")), answer]
    return {"messages": messages[:-1], **more}


def refused(call: Call, param: str | None = "messages[0].content[0].image_url", status: int = 400) -> str:
    """The message of a refusal that names `param`."""
    assert call.status == status, call.body
    error = call.json["error"]
    assert error["param"] == param
    message: str = error["message"]
    if param is not None:
        assert message.startswith(param)
    return message


async def busy(harness: Harness) -> Call:
    """A request that has the slot for a long time."""
    call = harness.client.start(CHAT, chat({"say": "a", "loop": True, "token_ms": 1000}, max_tokens=500, stream=True))
    await call.wait_for_piece(2)
    return call


# Rows


@STREAMED
@pytest.mark.spec("API-182", "API-183")
@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
async def test_an_image_is_a_prompt_token_for_each_of_its_rows(
    autojump_clock: trio.testing.MockClock, role: str, stream: bool
) -> None:
    async def tokens(*parts: Any) -> int:
        messages = [user(text()), user(text("Look:"), *parts, text("Well?"), role=role)]
        call = await harness.client.send(CHAT, {"messages": messages, "stream": stream})
        assert LEFT_OUT_HEADER not in call.headers
        usage = call.chunks[-1]["usage"] if stream else call.json["usage"]
        assert isinstance(usage["prompt_tokens"], int)
        return usage["prompt_tokens"]

    async with seeing(usage_default=True) as (harness, engine):
        plain = await tokens()
        assert await tokens(image(detail="low")) == plain + 300
        assert await tokens(image(SMALL), image(VGA)) == plain + 364
        assert engine.rows == [0, 300, 364]
        assert re.search(r"Look:(<\|image_pad\|>){364}Well\?", engine.shown)


async def test_the_script_stands_in_the_text_beside_an_image(autojump_clock: trio.testing.MockClock) -> None:
    async with seeing() as (harness, _):
        assert (await harness.client.send(CHAT, asking(image(), text()))).text == "It is red."


async def test_the_text_model_gets_the_pixels(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with seeing(Fetches(dict.fromkeys(urls(20), VGA))) as (harness, engine):
        given: list[Conversation] = []
        render = engine.text.render

        def watched(conversation: Conversation) -> Prompt:
            given.append(conversation)
            return render(conversation)

        monkeypatch.setattr(engine.text, "render", watched)
        await harness.client.send(CHAT, turns([*urls(17), encoded(image_of(32, 32, "blue"))]))
        images = given[0].images
        assert (images.left_out, images.rows) == (8, (300,) * 9 + (64,))
        assert [(picture.width, picture.height) for picture in images.pictures] == [(640, 480)] * 9 + [(32, 32)]
        assert images.pictures[-1].rgb == b"\0\0\xff" * 32 * 32


@pytest.mark.spec("API-183", "API-184", "API-027", "SCH-008")
async def test_images_are_there_before_the_request_queues(autojump_clock: trio.testing.MockClock) -> None:
    fetches = Fetches(bodies={urls(1)[0]: b"no image"})
    async with seeing(fetches) as (harness, engine):
        await busy(harness)
        assert "is not a PNG" in refused(await harness.client.send(CHAT, asking(image(urls(1)[0]))))
        assert trio.current_time() == pytest.approx(3, abs=1.5)
        harness.client.start(CHAT, asking(image(urls(2)[1])))
        await trio.sleep(5)
        assert fetches.begun == urls(2)
        assert fetches.now == 0
        assert len(engine.prompts) == 1  # it waits


# Refusals


@pytest.mark.spec("API-182", "API-184")
@pytest.mark.parametrize(
    ("part", "words"),
    [
        (image("http://public.example/x.png"), "https: or a data:"),
        (image("file:///etc/passwd"), "https: or a data:"),
        (image("data:image/png;base64,AAA"), "base64"),
        (image("data:text/html;base64,AAAA"), "data:image"),
        (image(b"<html>"), "is not a PNG"),
        (image(VGA[:-30]), "cannot be decoded"),
        (image(bytes(2**20 + 1)), "--image-max-mb"),
        (image(png_header(8001, 8000)), "--image-max-decode-pixels"),
    ],
)
async def test_a_bad_image_is_named(autojump_clock: trio.testing.MockClock, part: Any, words: str) -> None:
    async with seeing(image_max_mb=1) as (harness, engine):
        call = await harness.client.send(CHAT, {"messages": [user(text()), user(text(), image(SMALL), part)]})
        message = refused(call, "messages[1].content[2].image_url")
        assert words in message
        assert engine.prompts == []
        await harness.look()
        assert [(row.status, row.finish_reason, row.prompt_tokens) for row in harness.outcomes] == [
            (400, "refused", None)
        ]


@pytest.mark.spec("API-184")
@pytest.mark.parametrize("slow", [0, 1, 2])
async def test_of_several_bad_images_the_first_is_named(autojump_clock: trio.testing.MockClock, slow: int) -> None:
    names = urls(3)
    fetches = Fetches(dict.fromkeys(names[1:], BadImage("is bad")), takes_s={names[slow]: 9})
    async with seeing(fetches) as (harness, _):
        call = await harness.client.send(CHAT, asking(*map(image, names)))
        assert refused(call, "messages[0].content[1].image_url").endswith("is bad")


@pytest.mark.spec("API-182")
@pytest.mark.parametrize("part", [{"type": "video_url", "video_url": {"url": "https://a.example/"}}, image()])
async def test_no_video_and_nothing_in_a_system_message(autojump_clock: trio.testing.MockClock, part: Any) -> None:
    is_video = part["type"] == "video_url"
    message = user(part, role="user" if is_video else "system")
    async with seeing() as (harness, _):
        call = await harness.client.send(CHAT, {"messages": [message, user(text())]})
        assert call.json["error"]["param"] == "messages[0].content[0]" + ("" if is_video else ".image_url")


@pytest.mark.spec("API-185")
async def test_memory_of_the_encoding_is_known_before_the_queue(autojump_clock: trio.testing.MockClock) -> None:
    async with seeing(image_act_gb=0.06) as (harness, _):
        await busy(harness)
        at = trio.current_time()
        assert "--image-act-gb" in refused(await harness.client.send(CHAT, asking(image())))
        assert trio.current_time() == at
        harness.client.start(CHAT, asking(image(SMALL)))
        assert (await harness.look()).waiting == 1


@pytest.mark.spec("API-186")
async def test_the_newest_message_alone_over_a_cap(autojump_clock: trio.testing.MockClock) -> None:
    fetches = Fetches()
    async with seeing(fetches, max_image_rows=1200) as (harness, _):
        call = await harness.client.send(CHAT, asking(*map(image, urls(17))))
        assert "16 images" in refused(call, "messages[0].content[16].image_url")
        assert fetches.begun == []
        messages = [user(image(), text()), user(*[image()] * 5)]
        call = await harness.client.send(CHAT, {"messages": messages})
        assert "1,200 rows" in refused(call, "messages[1].content[4].image_url")
        assert LEFT_OUT_HEADER not in call.headers
        assert (await harness.client.send(CHAT, asking(*[image()] * 4, text()))).status == 200


@pytest.mark.spec("API-004")
async def test_fetched_bytes_count_with_the_bodies(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = encoded(image_of(64, 64)) + bytes(3000)
    fetches = Fetches(dict.fromkeys(urls(4), body))
    async with seeing(fetches) as (harness, _):
        bodies = harness.service.context.bodies
        monkeypatch.setattr(bodies, "_limit", 10_000)
        call = await harness.client.send(CHAT, asking(*map(image, urls(4)), text()))
        refused(call, None, 503)
        assert call.json["error"]["code"] == "memory"
        assert bodies._held == 0
        assert (await harness.client.send(CHAT, asking(*map(image, urls(3)), text()))).status == 200
        assert bodies._held == 0


async def test_a_client_that_leaves_ends_its_fetch(autojump_clock: trio.testing.MockClock) -> None:
    fetches = Fetches(takes_s={urls(1)[0]: 1000})
    async with seeing(fetches) as (harness, engine):
        call = harness.client.start(CHAT, asking(image(urls(1)[0])))
        await trio.sleep(5)
        assert fetches.now == 1
        call.leave()
        await call.finished.wait()
        await harness.look()
        assert fetches.now == 0
        assert engine.prompts == []
        assert [row.finish_reason for row in harness.outcomes] == ["abandoned"]


# Left out


@STREAMED
@pytest.mark.spec("API-187", "API-188", "API-190", "OBS-043")
@pytest.mark.parametrize(("images", "left_out"), [(16, 0), (17, 8), (24, 8), (25, 16)])
async def test_the_oldest_images_leave_and_the_request_goes_on(
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    images: int,
    left_out: int,
    stream: bool,
) -> None:
    caplog.set_level("INFO")
    fetches = Fetches()
    async with seeing(fetches) as (harness, engine):
        call = await harness.client.send(CHAT, turns(urls(images), stream=stream))
        assert (call.status, call.text) == (200, "It is red.")
        assert call.headers.get(LEFT_OUT_HEADER) == (str(left_out) if left_out else None)
        assert sorted(fetches.begun) == sorted(urls(images - left_out, left_out))
        assert engine.rows == [(images - left_out) * 64]
        assert engine.shown.count(LEFT_OUT) == left_out
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("[images]")]
    request = call.headers["x-request-id"]
    assert lines == ([f"[images] {request} left_out={left_out} of={images}"] if left_out else [])


@pytest.mark.spec("API-190")
async def test_a_refusal_after_the_images_says_what_was_left_out(autojump_clock: trio.testing.MockClock) -> None:
    async with seeing(engine=Watched(images=True, max_len=2000)) as (harness, _):
        call = await harness.client.send(CHAT, turns([VGA] * 17))
        assert call.status == 400
        assert call.json["error"]["code"] == "context_length_exceeded"
        assert call.headers[LEFT_OUT_HEADER] == "8"


@pytest.mark.spec("API-188")
async def test_the_head_of_the_prompt_stays_for_several_turns(autojump_clock: trio.testing.MockClock) -> None:
    async with seeing() as (harness, engine):
        for images in range(17, 26):
            await harness.client.send(CHAT, turns([SMALL] * images))
        heads = [prompt.ids[: prompt.insertion] for prompt in engine.prompts]
        for earlier, later in pairwise(heads[:8]):
            assert later[: len(earlier)] == earlier
        assert heads[8][: len(heads[7])] != heads[7]


@pytest.mark.spec("API-188", "API-189")
async def test_one_history_gives_one_prompt_whatever_arrives_first(autojump_clock: trio.testing.MockClock) -> None:
    """The newest message's 300 rows count first, then three of the five before it; of six a step is three."""
    names = urls(6)
    prompts: list[Prompt] = []
    for slow in names:
        fetches = Fetches(dict.fromkeys(names, VGA), takes_s={slow: 9})
        async with seeing(fetches, max_images=6, max_image_rows=1200) as (harness, engine):
            call = await harness.client.send(CHAT, turns(names))
            assert call.headers[LEFT_OUT_HEADER] == "3"
            assert engine.rows == [900]
            prompts += engine.prompts
    assert {prompt.ids for prompt in prompts} == {prompts[0].ids}


# What else reads the messages


@pytest.mark.spec("API-249", "API-070")
async def test_sessions_are_told_by_the_clients_own_messages(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with seeing(Fetches()) as (harness, _):
        sessions = harness.service.context.sessions
        keys: list[str] = []
        opened = sessions.open

        def watched(facts: SessionFacts) -> SessionView:
            keys.append(facts.key)
            return opened(facts)

        monkeypatch.setattr(sessions, "open", watched)
        for images in (1, 2, 17, 25):
            await harness.client.send(CHAT, turns(urls(images)))
        await harness.client.send(CHAT, turns([*urls(1, 99), *urls(24, 1)]))
        await harness.client.send(CHAT, turns([SMALL]))
        assert len(set(keys[:4])) == 1
        assert len(set(keys)) == 3
        assert all(re.fullmatch("h:[0-9a-f]{16}", key) for key in keys)


@pytest.mark.spec("API-069", "API-249")
async def test_the_clients_kind_is_found_beside_images(autojump_clock: trio.testing.MockClock) -> None:
    body = turns([SMALL] * 17)
    body["messages"][0]["content"] = "You are Hermes Agent."
    async with seeing() as (harness, _):
        await harness.client.send(CHAT, body)
        await harness.client.send(CHAT, asking(text("### Task: Generate a concise title"), image(SMALL)))
        await harness.look()
        assert [row.client_kind for row in harness.outcomes] == ["hermes", "anon"]


@pytest.mark.spec("API-206", "API-207", "OBS-048")
async def test_no_url_shows_anywhere(autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    marked = [f"https://MARKED.example/MARKED{number}?MARKED" for number in range(17)]
    bodies: dict[str, Any] = {marked[1]: BadImage("was not fetched"), marked[2]: b"MARKED", marked[3]: RuntimeError()}
    sent = [asking(image(url), text()) for url in (*marked[:4], "data:MARKED", "data:image/png;base64,MARKED!")]
    async with seeing(Fetches(bodies), log_request_keys=True) as (harness, _):
        for body in (*sent, turns([marked[0]] * 17)):
            call = await harness.client.send(CHAT, body)
            assert b"MARKED" not in call.body
            assert "MARKED" not in repr(call.headers)
        await harness.look()
        assert [row.status for row in harness.outcomes] == [200, 400, 400, 500, 400, 400, 200]
        for sink in (caplog.text, repr(harness.outcomes)):
            assert "MARKED" not in sink


# Off


@pytest.mark.spec("API-194", "API-182")
async def test_without_an_image_vision_changes_no_token(autojump_clock: trio.testing.MockClock) -> None:
    bodies = [
        chat({"say": "a b"}),
        {"messages": [{"role": "system", "content": "s"}, user(text("a"), text(SAY)), user(text("c"), role="tool")]},
    ]
    found = []
    for sees, vision in ((True, True), (True, False), (False, True)):
        engine = Watched(images=sees)
        async with open_harness(engine=engine, vision=vision) as harness:
            calls = [await harness.client.send(CHAT, body) for body in bodies]
            found.append([(prompt.ids, call.text) for prompt, call in zip(engine.prompts, calls, strict=True)])
            is_there = harness.service.context.images is not None
            assert is_there == (sees and vision)
            if not is_there:
                words = "--vision off" if not vision else "this model takes no images"
                assert words in refused(await harness.client.send(CHAT, asking(image(), text())))
    assert found[0] == found[1] == found[2]


@pytest.mark.spec("API-182")
async def test_a_text_only_model_says_so(autojump_clock: trio.testing.MockClock) -> None:
    """S-04: never silently dropped."""
    async with open_harness() as harness:
        for part in (image(), image("https://public.example/a.png"), image("http://127.0.0.1/")):
            call = await harness.client.send(CHAT, {"messages": [user(text()), user(text(), part, role="tool")]})
            assert "takes no images" in refused(call, "messages[1].content[1].image_url")


def test_a_server_that_sees_nothing_loads_nothing_for_it() -> None:
    loaded = "import sys, tandem.serve; print([name for name in ('PIL', 'httpcore2') if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


# The fence


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hosts that were connected to, each in vain."""
    found: list[str] = []

    async def connect(_: object, host: str, port: int, **more: Any) -> Any:
        found.append(host)
        raise httpcore2.ConnectError

    monkeypatch.setattr(httpcore2.TrioBackend, "connect_tcp", connect)
    return found


METADATA = "169.254.169.254"


@pytest.mark.spec("API-182", "API-184", "API-191")
@pytest.mark.parametrize(
    "url",
    [
        f"http://{METADATA}/latest/meta-data",
        f"https://{METADATA}/latest/meta-data",
        "http://[::ffff:127.0.0.1]/",
        "https://[::ffff:127.0.0.1]/",
        "http://2130706433/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://127.0.0.1:8000/",
        "https://local.example/",
        "https://mixed.example/",
        "https://user:password@public.example/",
    ],
)
async def test_nothing_leaves_for_an_address_inside(
    autojump_clock: trio.testing.MockClock, connections: list[str], url: str
) -> None:
    """S-01"""
    names = Names({"local.example": [[LOCAL]], "mixed.example": [["8.8.8.8", "10.0.0.1"]]})
    async with open_harness(engine=Watched(images=True), images=resolving(names)) as harness:
        call = await harness.client.send(CHAT, asking(image(url), text()))
        assert call.status == 400
        assert call.json["error"]["param"].startswith("messages[0].content[0].image_url")
        for shown in (METADATA, "example", "127"):
            assert shown not in call.json["error"]["message"]
        assert connections == []


@pytest.mark.spec("API-192")
async def test_the_connection_goes_to_what_was_checked(
    autojump_clock: trio.testing.MockClock, connections: list[str]
) -> None:
    """S-02: a name that is public when it is checked and private afterwards."""
    names = Names({"rebound.example": [["8.8.8.8"], [LOCAL]]})
    async with open_harness(engine=Watched(images=True), images=resolving(names)) as harness:
        call = await harness.client.send(CHAT, asking(image("https://rebound.example/"), text()))
        assert "connection" in refused(call)
        assert connections == ["8.8.8.8"]
        assert names.asked == ["rebound.example"]


@pytest.mark.spec("API-192", "API-191")
@pytest.mark.parametrize(
    ("location", "is_refused"),
    [
        ("/b.png", False),
        (f"http://{METADATA}/", True),
        (f"https://{METADATA}/", True),
        ("https://inside.example/", True),
    ],
)
async def test_each_hop_is_checked(tmp_path: Path, nursery: trio.Nursery, location: str, is_refused: bool) -> None:
    """S-01, S-02: a public host that redirects inside; the server on this machine stands for the public one."""
    certificate = make_certificate(tmp_path)
    server = await serve(certificate, nursery)
    server.answers["/a.png"] = redirect(location)
    server.answers["/b.png"] = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(VGA) + VGA
    names = Names()
    names.answers["inside.example"] = [["10.0.0.1"]]
    images = resolving(names)
    assert isinstance(images.fetcher, Fetcher)
    images.fetcher = replace(images.fetcher, is_allowed=lambda address: address == LOCAL, tls=certificate.client())
    engine = Watched(images=True)
    async with open_harness(engine=engine, images=images) as harness:
        call = await harness.client.send(CHAT, asking(image(server.url("/a.png")), text()))
        if is_refused:
            refused(call)
            assert engine.prompts == []
        else:
            assert engine.rows == [300]
        assert server.connections == (1 if is_refused else 2)


@pytest.mark.spec("API-193")
async def test_the_setting_bounds_the_whole_download(
    autojump_clock: trio.testing.MockClock, connections: list[str]
) -> None:
    async def never(host: str, port: int) -> Sequence[str]:
        await trio.sleep_forever()

    images = resolving(never, image_fetch_timeout=3)
    async with open_harness(engine=Watched(images=True), images=images) as harness:
        assert "within 3 s" in refused(await harness.client.send(CHAT, asking(image("https://slow.example/"), text())))
        assert trio.current_time() == pytest.approx(3)


@pytest.mark.spec("API-194")
async def test_https_off_leaves_data_urls(autojump_clock: trio.testing.MockClock, connections: list[str]) -> None:
    async with seeing(image_https=False) as (harness, engine):
        assert "--image-https off" in refused(await harness.client.send(CHAT, asking(image(urls(1)[0]))))
        assert (await harness.client.send(CHAT, asking(image(), text()))).text == "It is red."
        assert engine.rows == [300]
        assert connections == []
