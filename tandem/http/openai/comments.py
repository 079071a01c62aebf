"""Comments of an SSE stream: signs of life that tell a person what is waited for; no client reads them."""

from __future__ import annotations

__all__ = ["PING", "comment", "prefill", "waiting"]

GIB = 1 << 30


def comment(text: str) -> bytes:
    """One comment with its blank line; without that it would run into the next event."""
    if "\n" in text or "\r" in text:
        raise ValueError("a comment is one line")
    return f": {text}\n\n".encode()


PING = comment("ping")
"""An open stream that has been silent (API-260)."""


def prefill(done: int, total: int, image: tuple[int, int] | None = None) -> bytes:
    """How far the prompt is read, in tokens, and which of its images comes next (API-141)."""
    seeing = f", image {image[0]} of {image[1]}" if image else ""
    return comment(f"prefill {done}/{total}{seeing}")


def waiting(position: int, waited_s: float, estimate: str | None = None, *, missing: int = 0) -> bytes:
    """Place in the queue (1 runs next), the wait ahead where it can be told, and the wait so far (API-142).

    Where memory is waited for there is no time to tell, but the bytes that are `missing` (SCH-032, SCH-073).
    """
    parts = [f"waiting, position {position}"]
    if missing:
        parts.append(f"memory {max(missing / GIB, 0.1):.1f} GiB short")
    if estimate is not None:
        parts.append(estimate)
    parts.append(f"{int(waited_s)} s so far")
    return comment(", ".join(parts))
