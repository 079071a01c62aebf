"""Which files of a repository a pull takes. Decides from the list of files alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from tandem.engine.checkpoints.gguf import BLOCK_TYPES
from tandem.engine.checkpoints.pulled import CONFIG, ModelName
from tandem.engine.checkpoints.safetensors import INDEX, SINGLE
from tandem.engine.errors import CheckpointError

__all__ = ["RepoFile", "directory_files", "gguf_to_pull", "is_of_directory"]

_TOKENIZER = "tokenizer.json"
_CARDS = (
    CONFIG,
    "generation_config.json",
    _TOKENIZER,
    "tokenizer_config.json",
    "chat_template.jinja",
    "preprocessor_config.json",
)

_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_TYPE = re.compile(r"(?:^|[-._])((?:I?Q\d|TQ\d|MXFP4|NVFP4)\w*|B?F16|F32)(?=[-.]|$)", re.IGNORECASE)
_OTHER_WEIGHTS = (".bin", ".pth", ".pt", ".h5", ".msgpack", ".onnx", ".npz")


@dataclass(frozen=True, slots=True)
class RepoFile:
    """A file of a repository: its path, size in bytes and digest in hex.

    A digest of 64 digits is the content's SHA-256, one of 40 the SHA-1 of the git blob.
    """

    name: str
    size: int
    digest: str


def gguf_to_pull(name: ModelName, files: Mapping[str, RepoFile]) -> RepoFile | None:
    """The GGUF file that `name` means, None where it means a directory of safetensors.

    `CheckpointError` where it is neither, or may be several files.
    """
    found = sorted(file for file in files if file.endswith(".gguf"))
    if name.file is not None:
        if name.file not in files:
            raise CheckpointError(f"{name.repo} has no file {name.file}; GGUF files in it: {_joined(found)}")
        if _SPLIT.search(name.file):
            raise CheckpointError(f"{name} is one part of a split GGUF file, which is not served; one file is needed")
        return files[name.file]
    if CONFIG in files and (INDEX in files or SINGLE in files):
        return None
    servable = [file for file in found if _may_be_served(file)]
    if len(servable) == 1:
        return files[servable[0]]
    if servable:
        raise CheckpointError(
            f"{name} has several GGUF files; name one: {_joined(f'{name}:{each}' for each in servable)}"
        )
    raise CheckpointError(f"{name} {_nothing_to_serve(files, found)}")


def directory_files(name: ModelName, files: Mapping[str, RepoFile], shards: Iterable[str] | None) -> list[RepoFile]:
    """What serving a directory of safetensors needs; `shards` are the files that its index names, None without one."""
    if _TOKENIZER not in files:
        raise CheckpointError(f"{name} has no {_TOKENIZER}, which is needed; other tokenizer files are not read")
    weights = [SINGLE] if shards is None else [INDEX, *shards]
    if absent := [file for file in weights if file not in files]:
        raise CheckpointError(f"{name}: {INDEX} names {absent[0]}, which the repository does not have")
    return [files[file] for file in (*_CARDS, *weights) if file in files]


def is_of_directory(file: str) -> bool:
    """Whether a file at the top of a directory is of the kinds that `directory_files` takes."""
    return file in _CARDS or file == INDEX or file.endswith(".safetensors")


def _may_be_served(file: str) -> bool:
    """By its name: whole, no vision projector, and of a block type that is served or is not told."""
    kind = _named_type(file)
    return not (
        _SPLIT.search(file)
        or PurePosixPath(file).name.lower().startswith("mmproj")
        or (kind is not None and kind not in BLOCK_TYPES)
    )


def _named_type(file: str) -> str | None:
    """The block type in a file's name, by llama.cpp's habit: `NAME-Q4_K_M.gguf`."""
    types = _TYPE.findall(PurePosixPath(file).stem)
    return types[-1].upper() if types else None


def _nothing_to_serve(files: Mapping[str, RepoFile], found: list[str]) -> str:
    needed = f"needed is {CONFIG} with {SINGLE} or {INDEX}, or a .gguf file of {', '.join(BLOCK_TYPES)}"
    if found:
        return f"has no GGUF file that is served: {_joined(found)}; served are single files of {', '.join(BLOCK_TYPES)}"
    if "adapter_config.json" in files:
        return f"is an adapter and no model of its own; {needed}"
    if other := sorted(file for file in files if file.endswith(_OTHER_WEIGHTS)):
        return f"has its weights as {other[0]}, which is not served; {needed}"
    return f"has no weights that are served; {needed}"


def _joined(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
