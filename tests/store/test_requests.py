"""Pages of the ledger's rows, and their two forms as a file."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from tandem.store.requests import NAMES, Page, Wanted, csv_page, json_page, page_query
from tests.store.ledgers import ask, new_ledger
from tests.store.samples import outcome


def numbers(page: Page) -> list[int]:
    return [row[0] for row in page.rows]


@pytest.mark.spec("API-243")
def test_pages_go_back_without_a_gap() -> None:
    ledger = new_ledger(*(outcome(number) for number in range(1, 8)))
    pages, before = [], None
    while True:
        page = ask(ledger, page_query(Wanted(before=before), 3))
        pages.append(numbers(page))
        before = page.next_before
        if before is None:
            break
    assert pages == [[7, 6, 5], [4, 3, 2], [1]]
    assert ask(ledger, page_query(Wanted(), 7)).next_before is None


@pytest.mark.spec("API-243")
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"model": "a"}, [4, 3, 1]),
        ({"client": "k:1"}, [4, 2, 1]),
        ({"finish": "error"}, [4, 2]),
        ({"model": "a", "client": "k:1"}, [4, 1]),
        ({"model": "a", "client": "k:1", "finish": "error"}, [4]),
        ({"client": "k:1", "before": 4}, [2, 1]),
        ({"request_id": "req-3"}, [3]),
        ({"request_id": "req-3", "model": "b"}, []),
        ({"model": "A"}, []),
    ],
)
def test_filters(wanted: dict[str, Any], found: list[int]) -> None:
    rows = [
        outcome(1, model="a", client_id="k:1"),
        outcome(2, model="b", client_id="k:1", finish_reason="error"),
        outcome(3, model="a", client_id="k:2"),
        outcome(4, model="a", client_id="k:1", finish_reason="error"),
    ]
    assert numbers(ask(new_ledger(*rows), page_query(Wanted(**wanted), 10))) == found


def test_a_row_has_its_columns_by_name() -> None:
    ledger = new_ledger(outcome(5, stream=False, conductor_acted=True, decode_tps=40.5))
    (row,) = ask(ledger, page_query(Wanted(), 1)).named
    assert set(row) == set(NAMES)
    assert (row["id"], row["request_id"], row["decode_tps"]) == (1, "req-5", 40.5)
    assert (row["stream"], row["conductor_acted"]) == (False, True)
    assert row["lane"] is None


@pytest.mark.spec("OBS-113")
def test_the_pages_of_an_export_make_one_file() -> None:
    rows = [outcome(number, model='say "hi",\nplease') for number in range(1, 6)]
    ledger = new_ledger(*rows)
    pages = [ask(ledger, page_query(Wanted(before=before), 2)) for before in (None, 4, 2)]
    table = b"".join(csv_page(page, first=number == 0) for number, page in enumerate(pages)).decode()
    head, *lines = csv.reader(io.StringIO(table, newline=""))
    assert head == list(NAMES)
    assert [dict(zip(head, line, strict=True))["request_id"] for line in lines] == [f"req-{n}" for n in (5, 4, 3, 2, 1)]
    assert lines[0][head.index("model")] == 'say "hi",\nplease'
    assert lines[0][head.index("lane")] == ""
    array = json.loads(b"[" + b"".join(json_page(page, first=n == 0) for n, page in enumerate(pages)) + b"]")
    assert [row["id"] for row in array] == [5, 4, 3, 2, 1]
    assert list(array[0]) == list(NAMES)


@pytest.mark.spec("OBS-113")
@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(start: str) -> None:
    ledger = new_ledger(outcome(1, model=f"{start}HYPERLINK(1)", total_ms=-1.5))
    (_, line) = csv.reader(io.StringIO(csv_page(ask(ledger, page_query(Wanted(), 1)), first=True).decode(), newline=""))
    assert line[NAMES.index("model")] == f"'{start}HYPERLINK(1)"
    assert line[NAMES.index("total_ms")] == "-1.5"  # a number is no text


def test_an_export_of_nothing() -> None:
    page = ask(new_ledger(), page_query(Wanted(), 5))
    assert csv_page(page, first=True).decode().strip() == ",".join(NAMES)
    assert json_page(page, first=True) == b""
