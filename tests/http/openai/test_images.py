"""Images of a chat without I/O: parts, data: URLs, rows, and which of them are left out."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.config import Settings
from tandem.http.openai.errors import ApiError
from tandem.http.openai.image_plan import ImagePlan, first_over, leaving
from tandem.http.openai.images import (
    LEFT_OUT,
    BadImage,
    Geometry,
    ImageLimits,
    ImageParts,
    ImageRef,
    Sight,
    data_url_bytes,
    grid,
    place_images,
    rows_of,
    sight_of,
)
from tandem.http.openai.messages import read_messages

URL = "https://pictures.example/secret-name.png"
LIMITS = ImageLimits()
QWEN = Geometry()


def image(url: Any = URL, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


def refused(messages: list[Any], sight: Sight = "sees") -> ApiError:
    with pytest.raises(ApiError) as refusal:
        read_messages(messages, ImageParts(sight))
    assert refusal.value.status == 400
    assert URL not in refusal.value.message
    return refusal.value


# Parts


@pytest.mark.spec("API-039", "API-182")
@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_a_message_with_images_keeps_its_parts(role: str) -> None:
    parts = ImageParts("sees")
    data = "DATA:image/png;base64,AAAA"
    messages = read_messages([user(text("a"), image(detail="high"), text("b"), image(data), role=role)], parts)
    assert messages[0]["content"] == [
        text("a"),
        {"type": "image", "index": 0},
        text("b"),
        {"type": "image", "index": 1},
    ]
    assert parts.refs == (ImageRef(0, 1, URL), ImageRef(0, 3, data))
    assert [ref.path for ref in parts.refs] == ["messages[0].content[1].image_url", "messages[0].content[3].image_url"]


@pytest.mark.spec("API-194")
@pytest.mark.parametrize("sight", ["sees", "off", "blind"])
def test_messages_without_images_are_the_same_in_every_case(sight: Sight) -> None:
    sent = [{"role": "system", "content": "s"}, user(text("a"), text("b")), {"role": "assistant", "content": None}]
    assert read_messages(sent, ImageParts(sight)) == read_messages(sent)
    assert read_messages(sent)[1]["content"] == "ab"


@pytest.mark.spec("API-182")
@pytest.mark.parametrize(
    ("sight", "words"),
    [("off", "--vision off"), ("blind", "this model takes no images"), ("sees", "https: or a data:")],
)
def test_why_an_image_is_refused(sight: Sight, words: str) -> None:
    error = refused([user(text("x")), user(text("x"), image("http://169.254.169.254/"))], sight)
    assert error.param == "messages[1].content[1].image_url"
    assert error.message.startswith(error.param)
    assert words in error.message


@pytest.mark.spec("API-182", "API-184")
@pytest.mark.parametrize(
    ("message", "param"),
    [
        (user(image(), role="system"), "messages[0].content[0].image_url"),
        (user(image(), role="developer"), "messages[0].content[0].image_url"),
        (user(text("x"), {"type": "video_url", "video_url": {"url": URL}}), "messages[0].content[1]"),
        (user({"type": "video", "video": [URL]}), "messages[0].content[0]"),
        (user({"type": "input_audio", "input_audio": {"data": "AA"}}), "messages[0].content[0]"),
        (user({"type": "file", "file": {}}), "messages[0].content[0]"),
        (user({"type": "image", "image": URL}), "messages[0].content[0]"),
        (user({"type": "image_url"}), "messages[0].content[0].image_url"),
        (user({"type": "image_url", "image_url": URL}), "messages[0].content[0].image_url"),
        (user(image(None)), "messages[0].content[0].image_url"),
        (user(image(5)), "messages[0].content[0].image_url.url"),
        (user(image("")), "messages[0].content[0].image_url"),
        (user(image("http://public.example/x.png")), "messages[0].content[0].image_url"),
        (user(image("file:///etc/passwd")), "messages[0].content[0].image_url"),
        (user(image(" https://public.example/x.png")), "messages[0].content[0].image_url"),
    ],
)
def test_bad_parts_are_named(message: Any, param: str) -> None:
    assert refused([message]).param == param


@pytest.mark.spec("API-207")
def test_no_url_shows_in_a_log() -> None:
    assert URL not in repr(ImageRef(0, 1, URL))


def test_vision_off_comes_before_a_blind_model() -> None:
    assert [sight_of(sees, vision) for sees in (True, False) for vision in (True, False)] == [
        "sees",
        "off",
        "blind",
        "off",
    ]


# data: URLs


@pytest.mark.spec("API-182")
@pytest.mark.parametrize("head", ["data:image/png;base64", "DATA:Image/PNG;BASE64", "data:image/x;a=b;base64"])
def test_data_urls(head: str) -> None:
    assert data_url_bytes(f"{head},{base64.b64encode(b'abcde').decode()}", 5) == b"abcde"


@pytest.mark.spec("API-184")
@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64",
        "data:image/png,AAAA",
        "data:image/png;base64;x,AAAA",
        "data:text/html;base64,AAAA",
        "data:,AAAA",
        "data:image/png;base64,AAA",
        "data:image/png;base64,AA==AAAA",
        "data:image/png;base64,AA==\n",
        "data:image/png;base64,AA A",
        "data:image/png;base64,_-AA",
        "data:image/png;base64,%41AAA",
        "data:image/png;base64,AAA\u00e4",
        "data:image/png;base64,====",
    ],
)
def test_broken_data_urls(url: str) -> None:
    with pytest.raises(BadImage):
        data_url_bytes(url, 1000)


@pytest.mark.spec("API-184")
@given(st.binary(max_size=40), st.integers(0, 40))
def test_size_is_checked_before_decoding(data: bytes, limit: int) -> None:
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    if len(data) <= limit:
        assert data_url_bytes(url, limit) == data
    else:
        with pytest.raises(BadImage, match="larger than"):
            data_url_bytes(url, limit)


# Rows


@pytest.mark.spec("API-183")
@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [(640, 480, (20, 15)), (1, 1, (8, 8)), (4096, 4096, (128, 128)), (8000, 8000, (128, 128)), (1000, 700, (31, 22))],
)
def test_a_row_for_each_merged_patch(width: int, height: int, expected: tuple[int, int]) -> None:
    assert grid(width, height, QWEN) == expected
    assert rows_of(width, height, LIMITS, QWEN) == expected[0] * expected[1]


@pytest.mark.spec("API-183")
@given(st.integers(1, 200_000), st.integers(1, 200_000))
def test_grids_stay_in_bounds(width: int, height: int) -> None:
    try:
        rows = rows_of(width, height, ImageLimits(max_pixels=10**12), QWEN)
    except BadImage:
        assert max(width, height) > 200 * min(width, height)
        return
    assert 64 <= rows <= QWEN.most_rows
    assert rows == rows_of(height, width, ImageLimits(max_pixels=10**12), QWEN)


@pytest.mark.parametrize(("width", "height"), [(201, 1), (1, 201), (60_000, 2), (0, 5), (5, 0)])
def test_shapes_that_are_not_read(width: int, height: int) -> None:
    with pytest.raises(BadImage):
        rows_of(width, height, LIMITS, QWEN)


@pytest.mark.spec("API-184")
def test_pixels_by_the_header() -> None:
    assert rows_of(8000, 8000, LIMITS, QWEN) == 16_384
    with pytest.raises(BadImage, match="64,000,000"):
        rows_of(8000, 8001, LIMITS, QWEN)


@pytest.mark.spec("API-185")
def test_memory_of_the_encoding() -> None:
    need = 16_384 * QWEN.row_bytes
    assert rows_of(4096, 4096, ImageLimits(act_bytes=need), QWEN) == 16_384
    with pytest.raises(BadImage, match="--image-act-gb"):
        rows_of(4096, 4096, ImageLimits(act_bytes=need - 1), QWEN)


@pytest.mark.spec("API-184", "API-185", "API-186")
def test_defaults_of_the_limits_are_those_of_the_settings() -> None:
    assert ImageLimits.from_settings(Settings()) == ImageLimits()


# Left out


@pytest.mark.spec("API-188")
@pytest.mark.parametrize(
    ("images", "left_out"), [(0, 0), (16, 0), (17, 8), (20, 8), (24, 8), (25, 16), (32, 16), (33, 24)]
)
def test_images_leave_in_steps_of_half_the_cap(images: int, left_out: int) -> None:
    assert leaving([None] * images, 0, LIMITS) == left_out
    assert leaving([1] * images, 1 if images else 0, LIMITS) == left_out


@pytest.mark.spec("API-189")
@pytest.mark.parametrize(
    ("rows", "newest", "left_out"),
    [
        ([40] * 20, 0, 10),  # the 11th from the end goes over, which is the 10th: two steps of 5
        ([40] * 20, 4, 10),
        ([30] * 10, 0, 0),
        ([100, 40, 40, 300], 1, 3),  # all earlier ones, as a step is 5
        ([100, 40, 40, 300], 3, 1),
        ([10, 100, 10, 10, 10, 10, 10, 380], 1, 5),  # the second goes over, the step is filled
        ([10, 10, 400], 1, 2),
        ([1, 400], 1, 1),
        ([10, 10, 390, 30], 2, 2),  # the newest message alone is over: nothing here keeps it
    ],
)
def test_rows_count_from_the_newest_back(rows: list[int], newest: int, left_out: int) -> None:
    assert leaving(rows, newest, ImageLimits(max_images=10, max_rows=400)) == left_out


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_small_caps(cap: int) -> None:
    assert leaving([None] * (cap + 1), 1, ImageLimits(max_images=cap)) == 1


ROWS = st.lists(st.integers(1, 120), max_size=40)
SMALL = ImageLimits(max_images=10, max_rows=400)


@pytest.mark.spec("API-187", "API-188", "API-189")
@given(ROWS, st.integers(0, 10))
def test_what_stays_fits(rows: list[int], newest: int) -> None:
    newest = min(newest, len(rows))
    count = leaving(rows, newest, SMALL)
    assert count <= len(rows) - newest
    assert count % 5 == 0 or count == len(rows) - newest
    kept = rows[count:]
    if first_over(rows[len(rows) - newest :], SMALL) is None:
        assert len(kept) <= 10
        assert sum(kept) <= 400
    if count:  # and no whole step less would do
        fuller = rows[max(0, count - 5) :]
        assert len(fuller) > 10 or sum(fuller) > 400


@pytest.mark.spec("API-188")
@given(st.integers(1, 16))
def test_the_head_stays_for_several_turns(start: int) -> None:
    heads = [leaving([1] * images, 1, LIMITS) for images in range(start, start + 60)]
    assert heads == sorted(heads)
    assert len(set(heads)) <= 2 + 60 // 8


def refs_of(*counts: int) -> tuple[list[ImageRef], int]:
    """Images of as many messages, so many in each; the last message is the newest."""
    refs = [ImageRef(i, part, URL) for i, count in enumerate(counts) for part in range(count)]
    return refs, len(counts)


@pytest.mark.spec("API-186")
def test_the_newest_message_alone_over_the_count() -> None:
    refs, n = refs_of(3, 17)
    with pytest.raises(ApiError, match="16 images") as refusal:
        ImagePlan(refs, n, LIMITS, QWEN)
    assert refusal.value.param == "messages[1].content[16].image_url"


@pytest.mark.spec("API-186", "API-187")
def test_seventeen_images_over_the_conversation_go_on() -> None:
    refs, n = refs_of(*[1] * 17)
    assert ImagePlan(refs, n, LIMITS, QWEN).left_out == 8
    assert ImagePlan(*refs_of(10, 0, 16), LIMITS, QWEN).left_out == 10
    assert ImagePlan(*refs_of(17, 0), LIMITS, QWEN).left_out == 8  # they are history now


@pytest.mark.spec("API-186")
def test_the_newest_message_alone_over_the_rows() -> None:
    refs, n = refs_of(1, 3)
    plan = ImagePlan(refs, n, ImageLimits(max_rows=500), QWEN)
    plan.loaded(1, 300)
    plan.loaded(3, 300)  # not in order: which image is the first over is not known yet
    with pytest.raises(ApiError, match="500 rows") as refusal:
        plan.loaded(2, 300)
    assert refusal.value.param == "messages[1].content[1].image_url"


@pytest.mark.spec("API-190")
def test_nothing_is_begun_that_may_be_left_out() -> None:
    limits = ImageLimits(max_rows=400)
    refs, n = refs_of(1, 1, 1, 1, 2)
    plan = ImagePlan(refs, n, limits, Geometry(max_pixels=100 * 32 * 32))
    assert list(plan.ready()) == [4, 5, 3, 2]  # four of at most 100 rows fit, whatever they are
    assert list(plan.ready()) == []
    plan.loaded(3, 100)
    plan.loaded(5, 100)
    assert list(plan.ready()) == []
    plan.loaded(4, 80)
    assert list(plan.ready()) == [1]
    plan.loaded(2, 30)
    assert list(plan.ready()) == []
    plan.loaded(1, 60)
    assert plan.left_out == 0
    assert list(plan.ready()) == [0]  # nothing is pending, so it is looked at
    plan.loaded(0, 31)
    assert plan.left_out == 4  # over by a row; a step is filled


@pytest.mark.spec("API-190")
def test_a_full_cap_needs_no_further_image() -> None:
    refs, n = refs_of(1, 1)
    plan = ImagePlan(refs, n, ImageLimits(max_rows=300), QWEN)
    assert list(plan.ready()) == [1]
    plan.loaded(1, 300)
    assert list(plan.ready()) == []
    assert (plan.left_out, plan.rows) == (1, (300,))


@pytest.mark.spec("API-188", "API-190")
@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.data())
def test_the_message_list_alone_decides(counts: list[int], data: st.DataObject) -> None:
    """Whatever order the images arrive in, the same ones leave, and those were asked for that the rule needs."""
    refs, n = refs_of(*counts)
    rows = data.draw(st.lists(st.integers(1, 90), min_size=len(refs), max_size=len(refs)))
    plan = ImagePlan(refs, n, SMALL, Geometry(max_pixels=90 * 32 * 32))
    pending: list[int] = []
    begun: set[int] = set()
    while True:
        pending += plan.ready()
        begun |= set(pending)
        if not pending:
            break
        index = pending.pop(data.draw(st.integers(0, len(pending) - 1)))
        plan.loaded(index, rows[index])
    expected = leaving(rows, counts[-1], SMALL)
    assert plan.left_out == expected
    assert plan.rows == tuple(rows[expected:])
    step_start = expected - 5 if expected % 5 == 0 else 0
    assert all(index >= min(expected, max(step_start, 0)) for index in begun)


# The rendered messages


@pytest.mark.spec("API-190", "API-249")
def test_a_text_stands_where_an_image_was() -> None:
    parts = ImageParts("sees")
    sent = [user(text("a"), image()), {"role": "user", "content": "plain"}, user(image(), text("b"), image())]
    messages = read_messages(sent, parts)
    before = repr(messages)
    assert place_images(messages, 0) == messages
    placed = place_images(messages, 2)
    assert placed[0]["content"] == "a" + LEFT_OUT
    assert placed[1] is messages[1]
    assert placed[2]["content"] == [text(LEFT_OUT), text("b"), {"type": "image", "index": 2}]
    assert repr(messages) == before
