"""The images of one request, from their parts to pixels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tandem.actors.kit import Inline, Threads
from tandem.config import Settings
from tandem.engine.text.images import LoadedImages
from tandem.http.images import ImageLoader
from tandem.http.images.addresses import is_public, is_unicast
from tandem.http.images.fetch import Fetcher
from tandem.http.openai.errors import ApiError, memory
from tandem.http.openai.images import BadImage, Geometry, ImageLimits, ImageRef
from tests.http.images.pictures import data_url, encoded, image_of, png_header

HUNDRED = Geometry(min_pixels=1, max_pixels=100 * 32 * 32)
PNG = encoded()
SIXTY = encoded(image_of(320, 192))
"""60 rows."""


@dataclass
class Fetches:
    """In place of the fence: bodies by URL; says how many were under way at once."""

    bodies: dict[str, Any] = field(default_factory=dict)
    takes_s: Mapping[str, float] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    now: int = 0
    most: int = 0

    async def fetch(self, url: str) -> bytes:
        self.begun.append(url)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await trio.sleep(self.takes_s.get(url, 1))
            body = self.bodies.get(url, PNG)
            if body is None:
                await trio.sleep_forever()
            if isinstance(body, Exception):
                raise body
            self.ended.append(url)
            return bytes(body)
        finally:
            self.now -= 1


def loader(fetches: Fetches | None = None, geometry: Geometry = HUNDRED, **limits: Any) -> ImageLoader:
    return ImageLoader(ImageLimits(**limits), geometry, fetches, Inline())


def refs_of(*messages: Sequence[str]) -> tuple[list[ImageRef], int]:
    return [ImageRef(i, part, url) for i, urls in enumerate(messages) for part, url in enumerate(urls)], len(messages)


def urls(count: int, first: int = 0) -> list[str]:
    return [f"https://pictures.example/{number}" for number in range(first, first + count)]


async def refusal(loader: ImageLoader, refs: Sequence[ImageRef], n_messages: int) -> ApiError:
    with pytest.raises(ApiError) as refused:
        await loader.load(refs, n_messages)
    error = refused.value
    assert error.status == 400
    assert error.param is not None
    assert error.message.startswith(error.param)
    assert "pictures.example" not in error.message
    return error


async def test_no_image_is_no_work() -> None:
    assert await loader().load([], 3) == LoadedImages()


@pytest.mark.spec("API-183")
async def test_a_data_url_becomes_pixels_and_rows() -> None:
    red = encoded(image_of(64, 32, "red"))
    blue = encoded(image_of(32, 32, "blue"), "GIF")
    found = await loader().load(*refs_of([data_url(red)], [], [data_url(blue)]))
    assert (found.left_out, found.rows) == (0, (2, 1))
    assert [(picture.width, picture.height, picture.rgb[:3]) for picture in found.pictures] == [
        (64, 32, b"\xff\0\0"),
        (32, 32, b"\0\0\xff"),
    ]


@pytest.mark.spec("API-003")
async def test_the_work_runs_in_threads_under_its_purpose() -> None:
    threads = Threads.with_limits({"image": 1})
    busy = ImageLoader(ImageLimits(), HUNDRED, None, threads)
    found = await busy.load(*refs_of([data_url(PNG)] * 3))
    assert len(found.pictures) == 3


@pytest.mark.spec("API-184")
@pytest.mark.parametrize(
    ("url", "words"),
    [
        (data_url(b"GIF87a nothing"), "broken|not a PNG"),
        (data_url(b""), "not a PNG"),
        (data_url(PNG[:-30]), "cannot be decoded"),
        ("data:image/png;base64,AAA", "base64"),
        ("data:text/plain;base64,AAAA", "of the form"),
        (data_url(bytes(2001)), "larger than 2,000 bytes"),
        (data_url(png_header(30_000, 30_000)), "pixels"),
    ],
)
async def test_bad_images_are_named(url: str, words: str) -> None:
    error = await refusal(loader(max_bytes=2000), *refs_of([data_url(PNG)], [data_url(PNG), url]))
    assert error.param == "messages[1].content[1].image_url"
    assert re.search(words, error.message)


@pytest.mark.spec("API-184", "API-207")
async def test_a_failed_download_is_named(autojump_clock: trio.testing.MockClock) -> None:
    fetches = Fetches(bodies={urls(3)[1]: BadImage("was not fetched"), urls(3)[2]: None})
    error = await refusal(loader(fetches), *refs_of(urls(3)))
    assert error.message == "messages[0].content[1].image_url was not fetched"
    assert fetches.now == 0  # the failure has ended the one behind it


@pytest.mark.spec("API-184")
@given(st.data())
def test_of_several_bad_images_the_first_is_named_in_whatever_order_they_arrive(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    names = urls(sum(counts))
    bad = data.draw(st.sets(st.sampled_from(names), min_size=1)) if names else set()
    at = iter(names)
    refs = refs_of(*[[next(at) for _ in range(count)] for count in counts])
    bodies = dict.fromkeys(bad, BadImage("is bad"))
    max_rows = data.draw(st.sampled_from([150, 1000, 60_000]))

    async def found() -> str | None:
        takes_s = {name: data.draw(st.integers(0, 9)) for name in names}
        fetches = Fetches(bodies={**dict.fromkeys(names, SIXTY), **bodies}, takes_s=takes_s)
        try:
            await loader(fetches, max_rows=max_rows).load(*refs)
        except ApiError as error:
            assert fetches.now == 0
            return error.param
        return None

    first, second = (trio.run(found, clock=trio.testing.MockClock(autojump_threshold=0)) for _ in range(2))
    assert first == second
    if bad and max_rows > 100 * len(names):
        assert first == min((ref for ref in refs[0] if ref.url in bad), key=lambda ref: (ref.message, ref.part)).path


async def test_what_stands_before_a_failure_is_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    first, second, third = names = urls(3)
    bodies = dict.fromkeys(names, BadImage("is bad"))
    fetches = Fetches(bodies=bodies, takes_s={first: 9, second: 5, third: 1})
    assert (await refusal(loader(fetches), *refs_of([first], [second, third]))).param == (
        "messages[0].content[0].image_url"
    )


@pytest.mark.spec("API-184")
async def test_a_fetched_body_that_is_no_image(autojump_clock: trio.testing.MockClock) -> None:
    error = await refusal(loader(Fetches(bodies={urls(1)[0]: b"<html>"})), *refs_of(urls(1)))
    assert "is not a PNG" in error.message


@pytest.mark.spec("API-194")
async def test_https_off_leaves_data_urls() -> None:
    assert "--image-https off" in (await refusal(loader(None), *refs_of(urls(1)))).message
    assert len((await loader(None).load(*refs_of([data_url(PNG)]))).pictures) == 1


@pytest.mark.spec("API-194")
def test_settings_of_the_fence() -> None:
    def of(**options: Any) -> Any:
        return ImageLoader.from_settings(Settings(**options), Geometry(), Inline()).fetcher

    fetcher = of(image_fetch_timeout=7.0, image_max_mb=2)
    assert isinstance(fetcher, Fetcher)
    assert (fetcher.max_bytes, fetcher.timeout, fetcher.is_allowed) == (2 * 2**20, 7.0, is_public)
    assert of(image_https_private=True).is_allowed is is_unicast
    assert of(image_https=False) is None


async def test_images_load_four_at_a_time(autojump_clock: trio.testing.MockClock) -> None:
    fetches = Fetches()
    await loader(fetches).load(*refs_of(urls(10)))
    assert fetches.most == 4
    assert trio.current_time() == pytest.approx(3)


@pytest.mark.spec("API-187", "API-188", "API-190")
async def test_left_out_images_are_neither_fetched_nor_decoded(autojump_clock: trio.testing.MockClock) -> None:
    """The oldest eight of seventeen would fail in every way there is."""
    oldest = ["data:image/png;base64,!", "https://user@x.example/", *[data_url(b"")] * 2, *urls(4, 100)]
    fetches = Fetches()
    found = await loader(fetches).load(*refs_of(*[[url] for url in [*oldest, *urls(9)]]))
    assert (found.left_out, len(found.pictures)) == (8, 9)
    assert sorted(fetches.begun) == urls(9)


@pytest.mark.spec("API-189", "API-190")
async def test_the_row_cap_ends_the_loading(autojump_clock: trio.testing.MockClock) -> None:
    """Of 60 rows each, the second of the earlier images goes over; those before it are not even asked for."""
    fetches = Fetches(bodies=dict.fromkeys(urls(5), SIXTY))
    found = await loader(fetches, max_rows=150, max_images=2).load(*refs_of(*[[url] for url in urls(2)]))
    assert (found.left_out, found.rows) == (0, (60, 60))
    fetches.begun.clear()
    found = await loader(fetches, max_rows=150, max_images=5).load(*refs_of(*[[url] for url in urls(5)]))
    assert (found.left_out, found.rows) == (4, (60,))  # a step is two: of three that must leave it makes four
    assert sorted(fetches.begun) == urls(5)[2:]


@pytest.mark.spec("API-186")
async def test_the_newest_message_alone_over_a_cap(autojump_clock: trio.testing.MockClock) -> None:
    fetches = Fetches(bodies=dict.fromkeys(urls(3), SIXTY))
    error = await refusal(loader(fetches, max_images=2), *refs_of([], urls(3)))
    assert error.param == "messages[1].content[2].image_url"
    assert fetches.begun == []
    error = await refusal(loader(fetches, max_rows=150), *refs_of([], urls(3)))
    assert error.param == "messages[1].content[2].image_url"


async def test_the_server_may_have_no_room_for_the_bytes() -> None:
    def take(size: int) -> None:
        assert size == len(PNG)
        raise memory()

    with pytest.raises(ApiError) as refused:
        await loader().load(*refs_of([data_url(PNG)]), take)
    assert refused.value.status == 503


@pytest.mark.spec("API-207")
async def test_what_fails_on_our_side_shows_no_url(autojump_clock: trio.testing.MockClock) -> None:
    fetches = Fetches(bodies={urls(1)[0]: RuntimeError("a fault")})
    with pytest.raises(BaseExceptionGroup) as failed:
        await loader(fetches).load(*refs_of(urls(1)))
    assert "pictures.example" not in repr(failed.value)
