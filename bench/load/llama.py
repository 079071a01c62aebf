"""llama.cpp's parallel slots: so many completions at once in one process, timed. Read from stdin, written to stdout.

echo '{"path": …, "threads": 2, "streams": 2, "prompts": […], "count": 96}' | python -m bench.load.llama
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["measure"]

ROWS_EACH = 2048
"""Its window is shared out among its slots."""


def measure(path: str, threads: int, streams: int, prompts: list[str], count: int) -> dict[str, Any]:
    """Tokens a second of all streams together after a first round that warms it up, and seconds of the whole."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx, params.n_parallel, params.verbosity = ROWS_EACH * streams, streams, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = 0
    server = xllamacpp.Server(params)

    def complete(prompt: str) -> dict[str, Any]:
        body = {"prompt": prompt, "n_predict": count, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        answer: dict[str, Any] = server.handle_completions(body)
        return answer

    with ThreadPoolExecutor(streams) as pool:
        list(pool.map(complete, prompts[:streams]))
        started = time.perf_counter()
        answers = list(pool.map(complete, prompts[:streams]))
        took = time.perf_counter() - started
    written = sum(answer["timings"]["predicted_n"] for answer in answers)
    rates = [float(answer["timings"]["predicted_per_second"]) for answer in answers]
    return {"seconds": took, "tokens": written, "rates": rates, "version": xllamacpp.__version__}


if __name__ == "__main__":
    print(json.dumps(measure(**json.load(sys.stdin))))
