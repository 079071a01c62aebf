"""The embedded model, and `transformers` on the same dequantised weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tandem.engine.checkpoints import embedded
from tandem.engine.decoding.torch_engine import TorchEngine
from tandem.engine.errors import CheckpointError
from tandem.engine.load import load_engine
from tests.embedded import embedded_checkpoint
from tests.engine.models.memory import oracle_of, quiet

WINDOW = 512


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small products gain little from a second thread and wait long for it on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def embedded_path() -> Path:
    """The embedded model's file, fetched into the usual place where it is missing."""
    try:
        return embedded.ensure(Path.home() / ".tandem", quiet)
    except CheckpointError as error:
        pytest.skip(f"the embedded model is not there and cannot be fetched: {error}")


@pytest.fixture(scope="session")
def embedded_engine(embedded_path: Path) -> TorchEngine:
    return load_engine(embedded_path, max_len=WINDOW, cpu_weights="fp32")


@pytest.fixture(scope="session")
def embedded_oracle(embedded_path: Path) -> Any:
    """`LlamaForCausalLM` in fp32, built from what our reader gives."""
    checkpoint = embedded_checkpoint()
    config, weights = checkpoint.config, checkpoint.weights
    inner, hidden = config.intermediate_size, config.hidden_size
    queries, keys = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
    shapes = {
        "embed_tokens": (config.vocab_size, hidden),
        "q_proj": (queries, hidden),
        "k_proj": (keys, hidden),
        "v_proj": (keys, hidden),
        "o_proj": (hidden, queries),
        "gate_proj": (inner, hidden),
        "up_proj": (inner, hidden),
        "down_proj": (hidden, inner),
    }
    raw = {
        "vocab_size": config.vocab_size,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.tie_word_embeddings,
    }
    return oracle_of(
        raw,
        {f"model.{name}": weights.tensor(name, shapes.get(name.split(".")[-2], (hidden,))) for name in weights.names()},
    )
