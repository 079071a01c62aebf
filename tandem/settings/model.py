"""What is served and how it computes: the checkpoint, its weights, its drafters, its memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from tandem.kinds import Choice, FilePath, FilePaths, Flag, OnOff, Real, Source, Whole, WordOrPath
from tandem.settings.group import Group, setting

__all__ = ["ModelSettings"]


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ModelSettings(Group):
    """What is served and how it computes: the checkpoint, its weights, its drafters, its memory."""

    __slots__ = ()
    heading: ClassVar = "Model"

    model: str | None = setting(
        Source(),
        None,
        shown="the embedded SmolLM2-135M-Instruct",
        help="Checkpoint to serve: a Hugging Face directory, a Llama decoder as a GGUF file, or a pulled model.",
    )
    device: Literal["auto", "cpu", "cuda"] = setting(
        Choice(("auto", "cpu", "cuda")),
        "auto",
        help="Where the model runs; auto takes CUDA where that is to be had and the model has kernels for it.",
    )
    max_len: int | None = setting(
        Whole(16, 4_194_304),
        None,
        shown="the model's context",
        help="Window of a sequence in tokens, prompt and answer together.",
    )
    prefix_chunk: int | None = setting(
        Whole(1, 65_536),
        None,
        shown="the model's own grid",
        help="Tokens a step of reading a prompt takes; prompts are cut at its multiples.",
    )
    cpu_weights: Literal["fp32", "bf16", "int8", "int4"] | None = setting(
        Choice(("fp32", "bf16", "int8", "int4")),
        None,
        shown="int4 for a file of 4-bit blocks, else int8",
        help="What weights become on the CPU; fp32 is the reference, the default the fastest that keeps its quality.",
    )
    nvfp4: tuple[Path, ...] = setting(
        FilePaths(),
        (),
        help="Safetensors files with projections in NVFP4 that are laid over the checkpoint, one a group of them.",
    )
    fp8_head: Path | Literal["build"] | None = setting(  # noqa: RUF009  (a dataclass field)
        WordOrPath("build"),
        None,
        shown="the checkpoint's own head",
        help="Head in 8-bit floats: a safetensors file that holds it, or build to make it from the checkpoint's.",
    )
    drafter: Literal["auto", "none", "lookup", "mtp", "mtp+lookup"] = setting(
        Choice(("auto", "none", "lookup", "mtp", "mtp+lookup")),
        "auto",
        help="What guesses tokens, for steps that commit several: earlier text, the checkpoint's prediction layer, or "
        "both; auto is lookup. No answer depends on it.",
    )
    draft_hot: int = setting(
        Whole(0, 4_194_304),
        32_768,
        help="Tokens among which the prediction layer guesses: the most frequent and the vocabulary's marks; 0 is all. "
        "A vocabulary of less than twice as many is read whole.",
    )
    block_drafter: Path | None = setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        shown="none",
        help="Directory of a drafter that guesses a block of tokens at once, made for the model; it guesses beside "
        "what --drafter names.",
    )
    sampled_tree: Literal["chain", "det"] = setting(
        Choice(("chain", "det")),
        "chain",
        help="How the prediction layer guesses for an answer that is drawn without a seed: chain draws its guesses, "
        "det takes the likeliest. The answer is distributed the same.",
    )
    len_fixed: Literal["8", "16"] | None = setting(
        Choice(("8", "16")),
        None,
        shown="what each request's first steps show",
        help="Rows of a step that the prediction layer guesses for; unset decides it once a request.",
    )
    deep: int = setting(
        Whole(0, 32),
        32,
        help="Rows of the one long guess that a lookup makes while an answer copies; 0 turns it off.",
    )
    deep_after: int = setting(
        Whole(1, 1000),
        2,
        help="Steps in a row that must have taken all that was guessed before a lookup makes that long guess.",
    )
    lookup_corpus: Path | None = setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        shown="no corpus",
        help="Text that a lookup guesses from beside the request's own: a file made by tandem corpus build.",
    )
    suffix_store: Path | None = setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        shown="no store",
        help="Directory, relative to STATE, where a lookup keeps the tokens of requests and answers to guess from.",
    )
    suffix_store_mb: int = setting(
        Whole(1, 1_048_576, "MB"), 192, help="Size of the suffix store; beyond it the oldest half goes."
    )
    suffix_store_scope: Literal["all", "outputs"] = setting(
        Choice(("all", "outputs")), "all", help="What the suffix store keeps; outputs is answers alone."
    )
    suffix_store_readonly: bool = setting(
        OnOff(), False, help="Read the suffix store and write nothing to it, as benchmarks should."
    )
    threads: int | None = setting(
        Whole(1, 1024),
        None,
        shown="the cores the process may use",
        help="Threads the engine computes with on the CPU.",
    )
    load_margin_gib: float | None = setting(
        Real(0, 4096, "GIB"),
        None,
        shown="5 % of the memory, at least 1; 6 where a GPU shares it",
        help="Memory that must stay free beside what is loaded or reserved; a start that cannot leave it is refused.",
    )
    resident_gb: float | None = setting(
        Real(0, 4096, "GB"),
        None,
        shown="1 on the CPU, 4 on a GPU",
        help="Memory for recurrent states of the last prompt, at which the next one resumes; Llama models need none.",
    )
    end_anchor: bool = setting(
        OnOff(), True, help="Let a prompt resume where the last answer ended, not at grid lines alone."
    )
    fake: bool = setting(
        Flag(),
        False,
        help="Serve a scripted engine without a model, for tests of clients. STATE is a temporary directory then, "
        "unless one is named.",
    )
