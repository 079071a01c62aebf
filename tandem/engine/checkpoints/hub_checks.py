"""What a pull asks of a model before it fetches the weights: the checks of loading, on the little that is there yet."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tandem.engine.checkpoints.gguf import GgufFile, GgufWeights
from tandem.engine.checkpoints.gguf_vocabulary import gguf_text
from tandem.engine.checkpoints.hf_config import read_config
from tandem.engine.checkpoints.pulled import CONFIG
from tandem.engine.checkpoints.safetensors import CODE_BYTES, ELEMENT_BYTES, INDEX
from tandem.engine.errors import CheckpointError

__all__ = ["check_config", "check_elements", "header_is_served", "shards_of"]

_HEADER_LIMIT = 128 << 20


def check_config(content: bytes, name: str) -> None:
    """`CheckpointError` where this `config.json` is of a model that is not served; it calls the model `name`."""
    with tempfile.TemporaryDirectory(prefix="tandem-config-") as scratch, _called(name, Path(scratch)):
        (Path(scratch) / CONFIG).write_bytes(content)
        read_config(Path(scratch))


def check_elements(name: str, elements: Mapping[str, int]) -> None:
    """Refuse packed weights that no config tells of, by the type of most elements; masks and buffers are few."""
    most = max(elements, key=elements.__getitem__, default=None)
    served = {**ELEMENT_BYTES, **CODE_BYTES}
    if most is not None and most not in served:
        raise CheckpointError(f"{name}: weights are {most}, which is not served; needed is {', '.join(served)}")


def shards_of(content: bytes, name: str) -> list[str]:
    """The files that this index names."""
    try:
        return sorted(set(json.loads(content)["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{name}: {INDEX} has no weight_map") from None


def header_is_served(head: Path, have: int, size: int, name: str) -> bool:
    """Check the header of a GGUF file of `size` bytes, of which the first `have` are at `head`.

    False where the header goes on behind them. `CheckpointError` where the file is not served; it calls it `name`.
    The gguf package maps whole files, so the bytes are put at the start of a sparse file of the full size.
    """
    with tempfile.TemporaryDirectory(prefix="header-", dir=head.parent) as scratch:
        sparse = Path(scratch) / "header.gguf"
        with head.open("rb") as source, sparse.open("wb") as copy:
            copy.write(source.read(have))
            copy.truncate(size)
        with _called(name, sparse):
            try:
                opened = GgufFile(sparse)
            except CheckpointError:
                if have >= min(size, _HEADER_LIMIT):
                    raise
                return False
            if have < min(opened.data_offset, size):
                return False
            config = opened.config()
            GgufWeights(opened, config)
            gguf_text(opened, config)
    return True


@contextmanager
def _called(name: str, path: Path) -> Iterator[None]:
    """A `CheckpointError` about `path`, which is a temporary one, names the file as the hub does."""
    try:
        yield
    except CheckpointError as error:
        message = str(error).replace(f"{path}{os.sep}", f"{name}: ").replace(str(path), name)
        raise CheckpointError(f"{message}; its weights were not fetched") from None
