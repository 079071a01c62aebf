"""One tiny checkpoint with a tower, its oracle, and what cuts its images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tandem.engine.checkpoints.config import VisionConfig
from tandem.engine.checkpoints.hf_vision import read_vision
from tandem.engine.models.vision.preprocess import Cutter
from tandem.engine.tiny.qwen3_5 import build_qwen3_5
from tests.engine.models.vision.seeing import oracle_of


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_qwen3_5(tmp_path_factory.mktemp("seeing") / "tiny", seed=3, vision=True)


@pytest.fixture(scope="session")
def config(checkpoint: Path) -> VisionConfig:
    vision = read_vision(checkpoint)
    assert vision is not None
    return vision


@pytest.fixture(scope="session")
def cutter(config: VisionConfig) -> Cutter:
    return Cutter(config)


@pytest.fixture(scope="session")
def oracle(checkpoint: Path) -> Any:
    return oracle_of(checkpoint)
