"""Caches of an engine that is loaded from a checkpoint: over restarts, and only for the model they are of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tandem.engine.caches.settings import CacheSettings
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.load import load_engine
from tandem.engine.text.checkpoint import CheckpointText
from tandem.engine.text.model import Conversation
from tandem.engine.text.tokenizer import BpeTokenizer
from tests.engine.caches.wired import ON, flush, turn
from tests.engine.decoding.engines import ids_of
from tests.tiny import TOOL_CHATML, build_llama, tiny_tokenizer

PROMPT = ids_of(75)


@contextmanager
def loaded(path: Path, caches: CacheSettings, **options: Any) -> Iterator[TorchEngine]:
    engine = load_engine(path, cpu_weights="fp32", grid=32, caches=caches, **options)
    try:
        yield engine
    finally:
        engine.leave()


@pytest.mark.spec("ENG-121", "ENG-176", "ENG-117", "ENG-132")
def test_a_restart_goes_on_where_the_drain_has_left_it(tmp_path: Path) -> None:
    path = build_llama(tmp_path / "tiny")
    caches = CacheSettings(disk=ON, disk_folder=tmp_path / "disk", spill_folder=tmp_path / "spill")
    with loaded(path, caches) as engine:
        first = turn(engine, PROMPT)
        assert flush(engine) == 3
        assert engine.spill()["resident_rows"] == len(PROMPT) + 3
        view = engine.memory()
        assert view.ceiling is not None
        assert view.peak is not None
        assert view.ceiling <= view.peak
        budgets = [stats.budget for stats in engine.caches().values() if stats.budget is not None]
        assert sum(budgets) - ON.budget < 2 << 30
    with loaded(path, caches) as engine:
        assert turn(engine, [*PROMPT, *first.ids, 3]).source == "end"
    with loaded(path, caches) as engine:
        assert turn(engine, PROMPT).source == "disk", "the spill was read once"
    with loaded(path, caches, name="another") as engine:
        assert turn(engine, PROMPT).source == "disk", "a name moves no bit"
    with loaded(path, replace(caches, spill_folder=None), end_anchor=False) as engine:
        assert turn(engine, PROMPT).source == "disk"
    (path / "config.json").touch()
    build_llama(path, seed=1)
    with loaded(path, caches) as engine:
        assert turn(engine, PROMPT).source == "", "these are other weights"
        assert flush(engine) == 3


@pytest.mark.spec("ENG-112")
def test_a_prompt_says_where_its_head_ends() -> None:
    text = CheckpointText(BpeTokenizer(tiny_tokenizer(), "0" * 64), template=TOOL_CHATML)
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}
    one = text.render(Conversation(messages=[system, user]))
    other = text.render(Conversation(messages=[system, {"role": "user", "content": "another"}]))
    assert 0 < one.head == other.head < len(one.ids)
    assert one.ids[: one.head] == other.ids[: one.head]
    assert text.render(Conversation(messages=[user])).head == 0
