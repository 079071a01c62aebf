"""Upper bounds of the histograms' buckets, in the unit of their series (OBS-039)."""

from __future__ import annotations

__all__ = [
    "ACCEPTED",
    "DECODE_RATE",
    "FIRST_TOKEN_S",
    "PER_TOKEN_S",
    "PREFILL_RATE",
    "QUEUE_S",
    "REQUEST_S",
    "STEP_S",
    "TOKENS",
]

QUEUE_S = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 600.0, 1800.0, 3600.0)
"""The longest wait without a stream is 240 s by default, that of a stream an hour."""
FIRST_TOKEN_S = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0)
"""From a replay to a prompt that fills a long window."""
REQUEST_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0)
PER_TOKEN_S = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
STEP_S = PER_TOKEN_S
"""One draft or verify pass."""
DECODE_RATE = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0, 125.0, 150.0, 200.0, 300.0, 400.0, 500.0)
PREFILL_RATE = (10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16000.0, 32000.0)
TOKENS = (1.0, 8.0, 32.0, 128.0, 512.0, 2048.0, 8192.0, 16384.0, 32768.0, 65536.0, 131072.0, 262144.0)
ACCEPTED = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0)
