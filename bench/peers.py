"""Other engines as subjects of `tandem bench`: llama.cpp and transformers, each as fast as its defaults make it.

What is measured is what their own API gives: neither pays for HTTP, text or a stream.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tandem.bench.subject import SecondTurn
from tandem.bench.suite import Peer
from tandem.engine.checkpoints.config import ModelConfig
from tandem.engine.checkpoints.load import open_checkpoint

__all__ = ["PEERS"]

CONFIG = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
)
"""Fields that both configs call by the same name."""


def load_llama_cpp(path: Path, threads: int, window: int) -> LlamaCpp:
    """llama.cpp on the same GGUF file, in its own types."""
    import xllamacpp

    if path.suffix != ".gguf":
        raise ValueError(f"{path.name} is no GGUF file")
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.verbosity = window, 1, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    # Copies of idle conversations, which it would make between two measurements.
    params.cache_ram_mib = 0
    server = xllamacpp.Server(params)
    features = re.findall(r"(\w+) = 1", xllamacpp.get_system_info())
    return LlamaCpp(server, f"xllamacpp {xllamacpp.__version__}, built with {', '.join(features)}")


class LlamaCpp:
    """llama.cpp's server object, called in the process; times are the ones it takes itself."""

    def __init__(self, server: Any, about: str) -> None:
        self._server = server
        self._about = about

    def about(self) -> str:
        return self._about

    def prefill(self, ids: Sequence[int]) -> float:
        return self._read(self._complete(ids, 1, cached=False))

    def decode(self, ids: Sequence[int], count: int) -> float:
        return self._step(self._complete(ids, count + 1, cached=True))

    def second_turn(self, ids: Sequence[int], answer: int, more: Sequence[int], count: int) -> SecondTurn:
        first = self._complete(ids, answer, cached=True, n_probs=1)
        written = [token["id"] for token in first["choices"][0]["logprobs"]["content"]]
        second = self._complete([*ids, *written, *more], count + 1, cached=True)
        return SecondTurn(self._read(second), self._step(second))

    def rounds(self) -> None:
        """It does not speculate unless it is told to."""

    def close(self) -> None:
        self._server = None

    def _complete(self, ids: Sequence[int], count: int, *, cached: bool, **more: object) -> dict[str, Any]:
        body = {"prompt": list(ids), "n_predict": count, "cache_prompt": cached, "temperature": 0, "ignore_eos": True}
        answer: dict[str, Any] = self._server.handle_completions(body | more)
        if answer["timings"]["predicted_n"] != count:
            raise ValueError(f"llama.cpp wrote {answer['timings']['predicted_n']} of {count} tokens")
        return answer

    @staticmethod
    def _read(answer: dict[str, Any]) -> float:
        return float(answer["timings"]["prompt_ms"]) / 1e3

    @staticmethod
    def _step(answer: dict[str, Any]) -> float:
        # Its clock for writing starts when the first token is there.
        timings = answer["timings"]
        return float(timings["predicted_ms"]) / 1e3 / (int(timings["predicted_n"]) - 1)


def load_transformers(path: Path, threads: int, window: int) -> Transformers:
    """transformers in fp32, with the numbers that Tandem's reader gives."""
    from transformers import LlamaConfig, LlamaForCausalLM, __version__
    from transformers.initialization import no_init_weights

    torch.set_num_threads(threads)
    checkpoint = open_checkpoint(path)
    config, weights = checkpoint.config, checkpoint.weights
    raw: dict[str, Any] = {name: getattr(config, name) for name in CONFIG}
    with no_init_weights():
        model = LlamaForCausalLM(LlamaConfig(**raw, rope_parameters=_rope(config))).eval()
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    model.load_state_dict(
        {
            name: weights.tensor(name.removeprefix("model."), tuple(tensor.shape))
            for name, tensor in model.state_dict().items()
            if name not in tied
        },
        strict=False,
    )
    model.tie_weights()
    return Transformers(model, f"transformers {__version__}, torch {torch.__version__}, fp32")


def _rope(config: ModelConfig) -> dict[str, Any]:
    return {"rope_type": "default", **config.rope_scaling, "rope_theta": config.rope_theta}


class Transformers:
    """A greedy loop over the model's forward with its own cache; quicker than `generate`, which does more."""

    def __init__(self, model: Any, about: str) -> None:
        self._model = model
        self._about = about

    def about(self) -> str:
        return self._about

    def prefill(self, ids: Sequence[int]) -> float:
        start = time.perf_counter()
        self._forward(torch.tensor([ids]), None)
        return time.perf_counter() - start

    def decode(self, ids: Sequence[int], count: int) -> float:
        token, cache = self._forward(torch.tensor([ids]), None)
        start = time.perf_counter()
        for _ in range(count):
            token, cache = self._forward(token, cache)
        return (time.perf_counter() - start) / count

    def second_turn(self, ids: Sequence[int], answer: int, more: Sequence[int], count: int) -> None:
        """It has no cache from one call to the next."""

    def rounds(self) -> None:
        """A round is a token."""

    def close(self) -> None:
        self._model = None

    @torch.inference_mode()
    def _forward(self, ids: Any, cache: Any) -> tuple[Any, Any]:
        """The most likely next token (1, 1) and the cache with `ids` in it."""
        out = self._model(ids, cache=cache, use_cache=True, logits_to_keep=1)
        return out.logits.argmax(-1), out.cache


PEERS: dict[str, Peer] = {"llama.cpp": load_llama_cpp, "transformers": load_transformers}
