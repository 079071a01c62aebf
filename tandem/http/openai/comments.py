"""Comments of an SSE stream: signs of life that tell a person what is waited for; no client reads them."""

from __future__ import annotations

__all__ = ["PING", "about", "comment", "prefill", "waiting"]


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


def waiting(position: int, waited_s: float, estimate_s: float | None = None, *, own_work: bool = False) -> bytes:
    """Place in the queue (1 runs next), the wait ahead where it can be told, and the wait so far (API-142)."""
    parts = [f"waiting, position {position}"]
    if estimate_s is not None:
        parts.append(f"about {about(estimate_s, own_work=own_work)}")
    parts.append(f"{int(waited_s)} s so far")
    return comment(", ".join(parts))


def about(seconds: float, *, own_work: bool = False) -> str:
    """A coarse time (API-143, SCH-030): steps of 10 s below two minutes, whole minutes from there.

    Behind the server's own work, up to 10 s are told in seconds.
    """
    if own_work and seconds <= 10:
        return f"{max(1, round(seconds))} s"
    steps = max(1, int(seconds / 10 + 0.5)) * 10
    return f"{steps} s" if steps < 120 else f"{max(2, int(seconds / 60 + 0.5))} min"
