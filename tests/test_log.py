from __future__ import annotations

import io
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tandem.log import QUEUED_LINES, QUIET, request_line, setup_logging
from tandem.logbook import LINES_KEPT, LONGEST, LogBook, LogLine, PrintedLines
from tests.store.samples import outcome

MARKER = "the quick brown marker"
log = logging.getLogger("tandem.somewhere")


def logged(write: Callable[[], object], *, log_content: bool = False, level: int = logging.INFO) -> str:
    stream = io.StringIO()
    with setup_logging(log_content=log_content, level=level, stream=stream):
        write()
    return stream.getvalue()


@pytest.mark.spec("OBS-042")
def test_a_line_is_time_level_tag_text() -> None:
    text = logged(lambda: log.warning("[memory] %d of %d bytes", 3, 4))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} WARNING \[memory\] 3 of 4 bytes\n", text)


@pytest.mark.spec("OBS-042")
def test_lines_go_to_stdout() -> None:
    code = "import logging, tandem.log\nwith tandem.log.setup_logging():\n logging.getLogger().error('[x] y %s', '%d')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.endswith("ERROR [x] y %d\n")
    assert run.stderr == ""


def test_a_message_without_a_tag_gets_its_library_for_one() -> None:
    text = logged(lambda: logging.getLogger("hypercorn.error").warning("Running on\n%s", "here"))
    assert text.endswith("WARNING [hypercorn] Running on\\nhere\n")


def test_noise_of_libraries_is_left_out() -> None:
    def write() -> None:
        for name in QUIET:
            logging.getLogger(name).info(MARKER)
        logging.getLogger("hypercorn.access").critical(MARKER)
        logging.getLogger("aiosqlite").debug(MARKER)

    before = {name: logging.getLogger(name).level for name in QUIET}  # libraries set theirs when they are imported
    assert logged(write, level=logging.DEBUG) == ""
    assert {name: logging.getLogger(name).level for name in QUIET} == before


@pytest.mark.spec("API-206", "OBS-042")
def test_the_line_of_a_request() -> None:
    ended = outcome(
        1,
        client_kind="opencode",
        cached_tokens=8,
        reasoning_tokens=5,
        queue_ms=0.4,
        prompt_ms=120.6,
        decode_tps=31.26,
        model=MARKER,
    )
    assert request_line(ended) == (
        "[req] req-1 client=opencode status=200 finish=stop prompt_tokens=12 cached_tokens=8 completion_tokens=34 "
        "reasoning_tokens=5 queue_ms=0 prompt_ms=121 total_ms=56 decode_tps=31.3"
    )


@pytest.mark.spec("SCH-046", "OBS-042")
def test_the_line_of_a_lane_guest_tells_its_wait_and_its_holders_delay() -> None:
    guest = outcome(3, queue_ms=12.4, lane="decode", lent_ms=80.6, wait_own_ms=3.0)
    assert request_line(guest).endswith(" decode_tps=- lane=decode wait_ms=12 lent_ms=81")
    assert "lane" not in request_line(outcome(4, queue_ms=12.4))


@pytest.mark.spec("API-206")
def test_the_line_of_a_refused_request() -> None:
    refused = outcome(
        2, status=503, finish_reason="refused", error_type="queue_full", prompt_tokens=None, completion_tokens=None
    )
    assert request_line(refused) == (
        "[req] req-2 client=anon status=503 finish=refused prompt_tokens=- cached_tokens=- completion_tokens=- "
        "reasoning_tokens=- queue_ms=- prompt_ms=- total_ms=56 decode_tps=- error=queue_full"
    )


def plain() -> None:
    error = ValueError(MARKER)
    error.add_note(MARKER)
    raise error


def chained() -> None:
    try:
        plain()
    except ValueError as error:
        raise LookupError(MARKER) from error


def in_handler() -> None:
    try:
        plain()
    except ValueError:
        raise LookupError(MARKER)  # noqa: B904


def group() -> None:
    errors: list[Exception] = []
    for fail in (plain, chained):
        try:
            fail()
        except Exception as error:
            errors.append(error)
    raise ExceptionGroup(MARKER, [ExceptionGroup(MARKER, errors), SyntaxError(MARKER, (MARKER, 1, 1, MARKER))])


def decode() -> None:
    MARKER.encode().decode("utf-32")


def with_traceback(fail: Callable[[], object]) -> Callable[[], None]:
    def write() -> None:
        try:
            fail()
        except Exception as error:
            log.exception("[x] failed: %s", error)
            log.error(error, exc_info=error)
            log.error("%(error)s", {"error": error})

    return write


@pytest.mark.spec("API-207", "OBS-048")
@pytest.mark.parametrize("fail", [plain, chained, in_handler, group, decode])
def test_exceptions_are_logged_by_frames_and_types(fail: Callable[[], None]) -> None:
    text = logged(with_traceback(fail))
    assert MARKER not in text
    assert MARKER.split()[-1] not in text
    assert f", in {fail.__name__}\n" in text
    assert "Traceback (most recent call last):\n" in text


@pytest.mark.spec("API-207")
@pytest.mark.parametrize("fail", [plain, chained, in_handler, group])
def test_log_content_admits_their_messages(fail: Callable[[], None]) -> None:
    assert MARKER in logged(with_traceback(fail), log_content=True)


def test_a_chain_and_a_group_are_shown_in_order() -> None:
    text = logged(with_traceback(chained))
    assert text.index("\nValueError\n") < text.index("which led to") < text.index("\nLookupError\n")
    text = logged(with_traceback(group))
    types = re.findall(r"^( *)(ExceptionGroup|ValueError|LookupError|SyntaxError)$", text, re.MULTILINE)[:6]
    assert [(len(indent), name) for indent, name in types] == [
        (0, "ExceptionGroup"),
        (4, "ExceptionGroup"),
        (8, "ValueError"),
        (8, "ValueError"),
        (8, "LookupError"),
        (4, "SyntaxError"),
    ]


def test_a_ring_of_exceptions_ends() -> None:
    first, second = ValueError(MARKER), LookupError(MARKER)
    first.__cause__, second.__cause__ = second, first
    text = logged(lambda: log.error("[x] ring", exc_info=first))
    assert text.count("which led to") == 1


def test_a_stream_that_nobody_reads_holds_nobody_up() -> None:
    class Stalled(io.StringIO):
        def __init__(self) -> None:
            super().__init__()
            self.stalled = threading.Event()
            self.goes_on = threading.Event()

        def write(self, text: str) -> int:
            self.stalled.set()
            assert self.goes_on.wait(10)
            return super().write(text)

    stream = Stalled()
    with setup_logging(stream=stream):
        log.info("[x] first")
        assert stream.stalled.wait(10)
        for number in range(QUEUED_LINES + 7):
            log.info("[x] %d", number)
        stream.goes_on.set()
        while "[x] 100\n" not in stream.getvalue():
            time.sleep(0.001)
        log.info("[x] last")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1 + QUEUED_LINES + 2
    assert lines[-2].endswith("[x] last")
    assert lines[-1] == "... 7 lines before this one were lost: stdout is not read"


def noted(write: Callable[[], object]) -> list[LogLine]:
    with setup_logging(stream=io.StringIO()) as book:
        write()
    return book.after(0, LINES_KEPT)[0]


@pytest.mark.spec("OBS-046")
def test_the_book_has_every_line_with_its_parts() -> None:
    def write() -> None:
        log.warning("[memory] %d of %d bytes", 3, 4)
        log.info("[req] chatcmpl-0123456789abcdef01234567 client=curl")
        log.info("[images] left out", extra={"request_id": "cmpl-1"})
        logging.getLogger("hypercorn.error").error("no tag\nof ours")
        log.debug("[x] not shown")

    before = time.time()
    lines = noted(write)
    assert [(line.seq, line.level, line.source, line.msg, line.request_id) for line in lines] == [
        (1, "WARNING", "memory", "3 of 4 bytes", None),
        (
            2,
            "INFO",
            "req",
            "chatcmpl-0123456789abcdef01234567 client=curl",
            "chatcmpl-0123456789abcdef01234567",
        ),
        (3, "INFO", "images", "left out", "cmpl-1"),
        (4, "ERROR", "hypercorn", "no tag\\nof ours", None),
    ]
    assert all(before - 0.001 <= line.ts <= time.time() for line in lines)


@pytest.mark.spec("OBS-046", "OBS-048", "API-207")
def test_a_traceback_is_part_of_its_line_and_quotes_nothing() -> None:
    lines = noted(with_traceback(chained))
    assert lines[0].source == "x"
    assert lines[0].msg.startswith("failed: LookupError\nTraceback (most recent call last):\n")
    assert lines[0].msg.endswith("\nLookupError")
    assert not any(MARKER in line.msg for line in lines)


@pytest.mark.spec("OBS-046")
def test_what_others_print_is_noted_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def write() -> None:
        print("one", 2)
        print("\x1b[31mred\x1b[0m", file=sys.stderr)
        sys.stdout.write("10 %\r50 %\r")
        sys.stdout.write("100 %\r\n\n")
        sys.stdout.writelines(["a\nb", "c\n"])
        print("not ended", end="")
        assert sys.stdout.encoding
        assert not sys.stderr.isatty()

    streams = sys.stdout, sys.stderr
    lines = noted(write)
    assert (sys.stdout, sys.stderr) == streams
    assert [(line.level, line.source, line.msg) for line in lines] == [
        ("INFO", "stdout", "one 2"),
        ("WARNING", "stderr", "red"),
        ("INFO", "stdout", "100 %"),
        ("INFO", "stdout", "a"),
        ("INFO", "stdout", "bc"),
        ("INFO", "stdout", "not ended"),
    ]
    out, err = capsys.readouterr()
    assert out == "one 2\n10 %\r50 %\r100 %\r\n\na\nbc\nnot ended"
    assert err == "\x1b[31mred\x1b[0m\n"


@pytest.mark.spec("OBS-046")
def test_a_line_of_the_log_is_noted_once(capsys: pytest.CaptureFixture[str]) -> None:
    with setup_logging() as book:
        log.info("[x] hello")
    assert capsys.readouterr().out.endswith("INFO [x] hello\n")
    assert [(line.source, line.msg) for line in book.after(0, 9)[0]] == [("x", "hello")]


@pytest.mark.spec("OBS-046")
def test_the_book_keeps_the_newest_lines() -> None:
    book = LogBook(3)
    assert (book.newest, book.after(0, 9)) == (0, ([], 0))
    for number in range(5):
        book.note(0.0, "INFO", "x", str(number))
    assert book.newest == 5
    lines, lost = book.after(0, 9)
    assert ([line.seq for line in lines], lost) == ([3, 4, 5], 2)
    lines, lost = book.after(3, 1)
    assert ([line.seq for line in lines], lost) == ([4], 0)
    assert book.after(5, 9) == ([], 0)
    assert LINES_KEPT == 5000


def test_a_very_long_line_keeps_its_ends() -> None:
    book = LogBook()
    book.note(0.0, "INFO", "x", "a" * 50_000 + "b" * 50_000)
    [line], _ = book.after(0, 1)
    assert len(line.msg) < LONGEST + 100
    assert re.fullmatch(r"a+\n… 91808 characters left out …\nb+", line.msg)
    printed = PrintedLines()
    assert [len(each) for each in printed.feed("x" * 20_000)] == [20_000]


@pytest.mark.spec("OBS-046")
def test_many_threads_lose_no_line() -> None:
    def write() -> None:
        def work() -> None:
            for number in range(200):
                log.info("[x] %d", number)
                print("printed", number)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    lines = noted(write)
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
    assert sum(line.source == "x" for line in lines) == 800
    # Threads mix the pieces of their lines, as they would on a terminal.
    printed = "".join(line.msg.replace(" ", "") for line in lines if line.source == "stdout")
    assert sorted(printed) == sorted("".join(f"printed{number}" for number in range(200)) * 4)
