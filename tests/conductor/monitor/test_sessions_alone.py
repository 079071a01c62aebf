"""Sessions where no router is: the beginning of the prompt tells them apart (MON-138 to MON-141)."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.conductor.monitor.monitor import Monitor
from tandem.conductor.sessions.prefixes import Prefixes
from tandem.engine.text.model import Conversation
from tandem.engine.text.prompt import Prompt
from tests.conductor.monitor.scripted import TEXT, policy_with


def prompt(*texts: str, **kwargs: Any) -> Prompt:
    """A user's text, an answer, and so on."""
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    return TEXT.render(Conversation(messages=messages, template_kwargs=kwargs))


def key(prefixes: Prefixes, asked: Prompt, now: float = 0.0, client: str = "me", **facts: Any) -> str:
    return prefixes.key(asked, client, now, **{"tokens": 1024, "window_s": 3600, **facts})


@pytest.mark.spec("MON-138", "MON-139")
def test_a_conversation_goes_on_where_it_ended() -> None:
    prefixes = Prefixes()
    first = key(prefixes, prompt("hello"))
    assert first.startswith("p:")
    assert key(prefixes, prompt("hello", "hi", "more"), 10) == first
    assert key(prefixes, prompt("hello", "hi", "more", "so", "on"), 20) == first
    assert key(prefixes, prompt("hello", "hi", "else"), 20) != first, "another branch of it"
    assert key(prefixes, prompt("hello", "hi", "more", "so", "on"), 20, client="you") != first
    assert key(prefixes, prompt("other"), 20) != first


@pytest.mark.spec("MON-139")
def test_only_the_beginning_counts_and_only_for_a_while() -> None:
    prefixes = Prefixes()
    long = "word " * 100
    first = key(prefixes, prompt(long + "a"), tokens=64)
    assert key(prefixes, prompt(long + "b"), tokens=64, now=3600) == first
    late = key(prefixes, prompt(long + "b"), tokens=64, now=3600 + 3601)
    assert late == first, "it is begun anew, under what is the same name"
    assert key(Prefixes(kept=1), prompt("hello")) != first


@pytest.mark.spec("MON-139", "MON-140")
def test_a_compaction_is_its_senders_newest_and_so_is_what_comes_behind_it() -> None:
    prefixes = Prefixes()
    old = key(prefixes, prompt("old"))
    mine = key(prefixes, prompt("hello"), 1)
    key(prefixes, prompt("stranger"), 2, client="you")
    assert key(prefixes, prompt("Summarise: hello"), 3, is_compaction=True) == mine
    assert key(prefixes, prompt("A summary of it.", "ok", "go on"), 4) == mine
    assert key(prefixes, prompt("A summary of it.", "ok", "go on", "x", "y"), 5) == mine
    assert key(prefixes, prompt("Please summarise this"), 6) not in (mine, old), "words alone are no compaction"
    alone = Prefixes()
    assert key(alone, prompt("Summarise: a"), is_compaction=True).startswith("p:"), "there is none to compact"


@pytest.mark.spec("MON-139", "MON-141")
def test_the_policy_says_how_much_counts_and_a_thousand_are_kept() -> None:
    monitor = Monitor("on", policy_with(sessions={"lineage_tokens": 8, "join_window_s": 5}), TEXT)
    long = "word " * 30
    first = monitor.session_key(prompt(long + "a"), "me", 0.0)
    assert monitor.session_key(prompt(long + "b"), "me", 1.0) == first
    prefixes = Prefixes(kept=2)
    keys = [key(prefixes, prompt(f"text {at}")) for at in range(3)]
    assert len(set(keys)) == 3
    assert len(prefixes._seen) == 2
