"""What a request over the embedded model says of its drafts, with the drafter that a start chooses by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.process import Server
from tests.e2e.wire import Connection, health, post

COPY = "Say this again and again: " + "one two three four five six seven eight nine ten, " * 3
FAMILIES = (
    "tandem_spec_decode_num_drafts_total",
    "tandem_spec_decode_num_draft_tokens_total",
    "tandem_spec_decode_num_accepted_tokens_total",
    "tandem_draft_seconds_count",
    "tandem_spec_accept_per_block_count",
)


def complete(server: Server, **more: Any) -> Any:
    reply = post(server.port, {"prompt": COPY, "max_tokens": 32, "temperature": 0, **more}, path="/v1/completions")
    assert reply.status == 200, reply.body
    return reply


def counted(server: Server) -> dict[str, float]:
    with Connection(server.port) as client:
        page = client.ask("GET", "/metrics").body.decode()
    found = dict[str, float]()
    for line in page.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in FAMILIES:
            found[name] = found.get(name, 0.0) + float(line.rsplit(" ", 1)[1])
    return found


@pytest.mark.spec("ENG-046", "API-160", "API-059")
def test_a_copy_takes_several_tokens_a_block_and_says_so(real: Server) -> None:
    weights = health(real.port)["weights"]
    assert weights["drafter"] == "lookup"
    assert weights["drafter_why"] == "the checkpoint has no layer that drafts"
    before = counted(real)
    answer = complete(real).json
    timings, written = answer["timings"], answer["usage"]["completion_tokens"]
    assert 0 < timings["draft_n_accepted"] <= timings["draft_n"]
    assert written == timings["blocks"] + timings["draft_n_accepted"]
    assert timings["tokens_per_block"] == pytest.approx(written / timings["blocks"], abs=0.01)
    assert written / timings["blocks"] > 1.5
    after = counted(real)
    gained = {name: after[name] - before.get(name, 0.0) for name in FAMILIES}
    blocks = timings["blocks"]
    told = (blocks, timings["draft_n"], timings["draft_n_accepted"], blocks, blocks)
    assert gained == dict(zip(FAMILIES, told, strict=True))


@pytest.mark.spec("ENG-065")
def test_a_stream_of_it_is_the_same_text(real: Server) -> None:
    streamed = "".join(choice["text"] for chunk in complete(real, stream=True).chunks for choice in chunk["choices"])
    assert streamed == complete(real).json["choices"][0]["text"]
