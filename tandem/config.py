"""Every setting of Tandem, declared once: attribute, flag, environment variable, type, range, default, help (ENG-018).

A setting `some_name` is the flag `--some-name` and the variable `TANDEM_SOME_NAME`; the flag wins, then the variable,
then the default (API-008). An empty variable counts as unset. The values reach the rest of the program as one frozen
`Settings`, never as globals, so two services with different settings can share a process.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from tandem.kinds import (
    Auto,
    ByClient,
    Choice,
    FilePath,
    FilePaths,
    Flag,
    Kind,
    Names,
    OnOff,
    Real,
    Source,
    Text,
    Whole,
    WordOrPath,
)

__all__ = ["ENV_PREFIX", "SECRETS", "Setting", "SettingError", "Settings", "declared"]

ENV_PREFIX = "TANDEM_"
SECRETS = ("TANDEM_ADMIN_TOKEN", "TANDEM_API_KEY", "TANDEM_METRICS_TOKEN")
"""Variables that are no settings, so that no view of settings holds one; `tandem.secrets` reads them."""
SHOWN_CHARS = 60
"""How much of a wrong value an error message repeats."""
DAY_S = 86_400.0


class SettingError(Exception):
    """A setting has a value it does not take. One line: the flag or variable, the value, and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The declaration of one setting."""

    name: str
    kind: Kind
    group: str
    help: str
    default: str
    """The default as help and documentation show it."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENV_PREFIX + self.name.upper()


def _setting(kind: Kind, default: Any, *, group: str, help: str, shown: str | None = None) -> Any:
    """A field of `Settings` with its declaration; a callable default is called for each `Settings`."""
    meta = {"kind": kind, "group": group, "help": help, "shown": shown}
    if callable(default):
        return field(default_factory=default, metadata=meta)
    return field(default=default, metadata=meta)


SERVER, ACCESS, MODEL, ANSWERS = "Server", "Access", "Model", "Answers"
IMAGES, CACHES = "Images", "Caches"
LIMITS, STATE, LOGS, LIVE = "Limits and waiting", "State and ledger", "Logs", "Live view"
CONDUCTOR = "Conductor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one service. Built by hand in tests, by `from_sources` everywhere else."""

    host: str = _setting(
        Text("ADDRESS"), "127.0.0.1", group=SERVER, help="Address to listen on. Other machines reach it with 0.0.0.0."
    )
    port: int = _setting(Whole(0, 65_535), 8000, group=SERVER, help="Port to listen on; 0 takes any free one.")

    url: str | None = _setting(
        Text("URL"),
        None,
        group=ACCESS,
        shown="the request's own address",
        help="Address under which clients reach the server; its host is one of the hosts that are answered.",
    )
    allowed_hosts: tuple[str, ...] = _setting(
        Names("HOST,…"),
        (),
        group=ACCESS,
        help="Further names under which clients may reach the server; a request to any other name gets a 421.",
    )
    cors_origins: tuple[str, ...] = _setting(
        Names("ORIGIN,…"),
        (),
        group=ACCESS,
        help="Origins whose pages may use chat, completions and models from a browser; * takes every one.",
    )
    api_key_loopback: bool = _setting(
        OnOff(),
        True,
        group=ACCESS,
        help="Ask callers on this machine for the API key too, where TANDEM_API_KEY is set.",
    )
    dashboard_login: bool = _setting(
        OnOff(), False, group=ACCESS, help="Ask for the password before the dashboard is read, where one is set."
    )
    session_s: float = _setting(
        Real(1, 4000 * DAY_S), 400 * DAY_S, group=ACCESS, help="How long a sign-in of the dashboard lasts."
    )

    model: str | None = _setting(
        Source(),
        None,
        group=MODEL,
        shown="the embedded SmolLM2-135M-Instruct",
        help="Checkpoint to serve: a Hugging Face directory, a Llama decoder as a GGUF file, or a pulled model.",
    )
    device: Literal["auto", "cpu", "cuda"] = _setting(
        Choice(("auto", "cpu", "cuda")),
        "auto",
        group=MODEL,
        help="Where the model runs; auto takes CUDA where that is to be had and the model has kernels for it.",
    )
    max_len: int | None = _setting(
        Whole(16, 4_194_304),
        None,
        group=MODEL,
        shown="the model's context",
        help="Window of a sequence in tokens, prompt and answer together.",
    )
    prefix_chunk: int | None = _setting(
        Whole(1, 65_536),
        None,
        group=MODEL,
        shown="the model's own grid",
        help="Tokens a step of reading a prompt takes; prompts are cut at its multiples.",
    )
    cpu_weights: Literal["fp32", "bf16", "int8", "int4"] | None = _setting(
        Choice(("fp32", "bf16", "int8", "int4")),
        None,
        group=MODEL,
        shown="int4 for a file of 4-bit blocks, else int8",
        help="What weights become on the CPU; fp32 is the reference, the default the fastest that keeps its quality.",
    )
    nvfp4: tuple[Path, ...] = _setting(
        FilePaths(),
        (),
        group=MODEL,
        help="Safetensors files with projections in NVFP4 that are laid over the checkpoint, one a group of them.",
    )
    fp8_head: Path | Literal["build"] | None = _setting(  # noqa: RUF009  (a dataclass field)
        WordOrPath("build"),
        None,
        group=MODEL,
        shown="the checkpoint's own head",
        help="Head in 8-bit floats: a safetensors file that holds it, or build to make it from the checkpoint's.",
    )
    drafter: Literal["auto", "none", "lookup", "mtp", "mtp+lookup"] = _setting(
        Choice(("auto", "none", "lookup", "mtp", "mtp+lookup")),
        "auto",
        group=MODEL,
        help="What guesses tokens, for steps that commit several: earlier text, the checkpoint's prediction layer, or "
        "both; auto is lookup. No answer depends on it.",
    )
    draft_hot: int = _setting(
        Whole(0, 4_194_304),
        32_768,
        group=MODEL,
        help="Tokens among which the prediction layer guesses: the most frequent and the vocabulary's marks; 0 is all. "
        "A vocabulary of less than twice as many is read whole.",
    )
    block_drafter: Path | None = _setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        group=MODEL,
        shown="none",
        help="Directory of a drafter that guesses a block of tokens at once, made for the model; it guesses beside "
        "what --drafter names.",
    )
    sampled_tree: Literal["chain", "det"] = _setting(
        Choice(("chain", "det")),
        "chain",
        group=MODEL,
        help="How the prediction layer guesses for an answer that is drawn without a seed: chain draws its guesses, "
        "det takes the likeliest. The answer is distributed the same.",
    )
    len_fixed: Literal["8", "16"] | None = _setting(
        Choice(("8", "16")),
        None,
        group=MODEL,
        shown="what each request's first steps show",
        help="Rows of a step that the prediction layer guesses for; unset decides it once a request.",
    )
    deep: int = _setting(
        Whole(0, 32),
        32,
        group=MODEL,
        help="Rows of the one long guess that a lookup makes while an answer copies; 0 turns it off.",
    )
    deep_after: int = _setting(
        Whole(1, 1000),
        2,
        group=MODEL,
        help="Steps in a row that must have taken all that was guessed before a lookup makes that long guess.",
    )
    lookup_corpus: Path | None = _setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        group=MODEL,
        shown="no corpus",
        help="Text that a lookup guesses from beside the request's own: a file made by tandem corpus build.",
    )
    suffix_store: Path | None = _setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        group=MODEL,
        shown="no store",
        help="Directory, relative to STATE, where a lookup keeps the tokens of requests and answers to guess from.",
    )
    suffix_store_mb: int = _setting(
        Whole(1, 1_048_576, "MB"), 192, group=MODEL, help="Size of the suffix store; beyond it the oldest half goes."
    )
    suffix_store_scope: Literal["all", "outputs"] = _setting(
        Choice(("all", "outputs")), "all", group=MODEL, help="What the suffix store keeps; outputs is answers alone."
    )
    suffix_store_readonly: bool = _setting(
        OnOff(), False, group=MODEL, help="Read the suffix store and write nothing to it, as benchmarks should."
    )
    threads: int | None = _setting(
        Whole(1, 1024),
        None,
        group=MODEL,
        shown="the cores the process may use",
        help="Threads the engine computes with on the CPU.",
    )
    load_margin_gib: float | None = _setting(
        Real(0, 4096, "GIB"),
        None,
        group=MODEL,
        shown="5 % of the memory, at least 1; 6 where a GPU shares it",
        help="Memory that must stay free beside what is loaded or reserved; a start that cannot leave it is refused.",
    )
    resident_gb: float | None = _setting(
        Real(0, 4096, "GB"),
        None,
        group=MODEL,
        shown="1 on the CPU, 4 on a GPU",
        help="Memory for recurrent states of the last prompt, at which the next one resumes; Llama models need none.",
    )
    end_anchor: bool = _setting(
        OnOff(), True, group=MODEL, help="Let a prompt resume where the last answer ended, not at grid lines alone."
    )
    fake: bool = _setting(
        Flag(),
        False,
        group=MODEL,
        help="Serve a scripted engine without a model, for tests of clients. STATE is a temporary directory then, "
        "unless one is named.",
    )

    served_model: str = _setting(
        Text("NAME"), "TandemLLM", group=ANSWERS, help="Name of the model on the wire (/v1/models)."
    )
    model_name: str | None = _setting(
        Text("NAME"),
        None,
        group=ANSWERS,
        shown="the checkpoint's own name",
        help="Name of the checkpoint, shown as base_model.",
    )
    default_max_tokens: int = _setting(
        Whole(1, 4_194_304),
        32_768,
        group=ANSWERS,
        help="Limit of an answer in tokens where the request names none; cut to what fits the window.",
    )
    reasoning_format: Literal["tags", "reasoning_content", "both"] = _setting(
        Choice(("tags", "reasoning_content", "both")),
        "tags",
        group=ANSWERS,
        help="Where reasoning goes if a request does not say; any value but tags holds for every client.",
    )
    reasoning_alias: bool = _setting(
        OnOff(), True, group=ANSWERS, help="Send reasoning_content under the name reasoning as well."
    )
    reasoning_effort: Literal["none", "off", "minimal", "low", "medium", "high", "xhigh", "max"] = _setting(
        Choice(("none", "off", "minimal", "low", "medium", "high", "xhigh", "max")),
        "medium",
        group=ANSWERS,
        help="Effort of a request that says nothing about thinking; none or off has it answer without.",
    )
    answer_reserve: int | None = _setting(
        Auto(0, 4_194_304),
        None,
        group=ANSWERS,
        shown="auto",
        help="Tokens of the limit that a thinking budget leaves to the answer; auto is a quarter, at most 2,048.",
    )
    tool_format: Literal["xml", "pythonic"] = _setting(
        Choice(("xml", "pythonic")), "xml", group=ANSWERS, help="Syntax in which the model writes its tool calls."
    )
    usage_default: bool = _setting(
        OnOff(), True, group=ANSWERS, help="Send usage and timings on a stream that did not ask for them."
    )
    no_repeat_ngram: int = _setting(
        Whole(0, 1024),
        0,
        group=ANSWERS,
        help="no_repeat_ngram_size of requests that send none, also where a plan drops a client's; 0 is none.",
    )
    regenerate: bool = _setting(
        OnOff(), True, group=ANSWERS, help="Sample a turn that is asked for again, so that its answer is another one."
    )
    regenerate_temperature: float = _setting(
        Real(0, 2, "T"), 0.7, group=ANSWERS, help="Temperature of such a turn, where its client sends no sampling."
    )
    regenerate_top_p: float = _setting(
        Real(0.01, 1, "P"), 0.95, group=ANSWERS, help="Its top_p: the share of probability that is drawn from."
    )
    regenerate_top_k: int = _setting(
        Whole(0, 4_194_304), 20, group=ANSWERS, help="Its top_k: how many tokens are drawn from; 0 is all."
    )
    prefill_heartbeat_s: float = _setting(
        Real(0, DAY_S),
        5.0,
        group=ANSWERS,
        help="A stream gets progress comments once its prompt has been read for this long; 0 turns them off.",
    )

    vision: bool = _setting(
        OnOff(), True, group=IMAGES, help="Take images, where the model can see; off refuses every one."
    )
    max_images: int = _setting(
        Whole(1, 10_000), 16, group=IMAGES, help="Images a prompt may hold; the oldest are left out beyond it."
    )
    max_image_rows: int = _setting(
        Whole(1, 4_194_304), 65_536, group=IMAGES, help="Prompt rows that images may take together."
    )
    image_max_mb: int = _setting(Whole(1, 1024, "MB"), 20, group=IMAGES, help="Largest image, as sent or fetched.")
    image_max_decode_pixels: int = _setting(
        Whole(1, 10**9), 64_000_000, group=IMAGES, help="Most pixels an image may have by its header."
    )
    image_act_gb: float = _setting(
        Real(0.01, 1024, "GB"), 6.0, group=IMAGES, help="Most memory that encoding one image may take."
    )
    image_cache_mb: int = _setting(
        Whole(0, 1_048_576, "MB"),
        512,
        group=IMAGES,
        help="Memory for images that were read, so that one sent again is not read again; 0 keeps none.",
    )
    image_https: bool = _setting(
        OnOff(), True, group=IMAGES, help="Fetch images from https addresses; off leaves data: URLs alone."
    )
    image_https_private: bool = _setting(
        OnOff(), False, group=IMAGES, help="Let image addresses lead into private networks."
    )
    image_fetch_timeout: float = _setting(
        Real(0.01, 3600), 15.0, group=IMAGES, help="Longest fetch of one image, redirects included."
    )

    resident_guest_max: int = _setting(
        Whole(0, 4_194_304),
        8192,
        group=CACHES,
        help="Longest prompt that is a guest: a title, say, after which the conversation goes on where it was.",
    )
    resident_stash_gb: float | None = _setting(
        Real(0, 4096, "GB"),
        None,
        group=CACHES,
        shown="0.125 on the CPU, 2 on a GPU",
        help="Memory for the rows of the conversation that a guest overwrites; 0 lets it overwrite them.",
    )
    park_gb: float | None = _setting(
        Real(0, 4096, "GB"),
        None,
        group=CACHES,
        shown="0.5 on the CPU, 4 on a GPU",
        help="Memory for a conversation that another has replaced, so that two can alternate; 0 parks none.",
    )
    cache_budget_gb: float | None = _setting(
        Real(0, 4096, "GB"),
        None,
        group=CACHES,
        shown="0.5 on the CPU, 8 on a GPU",
        help="Memory for states of conversations that are neither in place nor parked; 0 keeps none.",
    )
    no_session_cache: bool = _setting(
        Flag(), False, group=CACHES, help="Keep no states of prompt ends among them, where a session goes on."
    )
    no_prefix_cache: bool = _setting(
        Flag(), False, group=CACHES, help="Keep no states of grid lines among them, where prompts begin alike."
    )
    disk_cache: Literal["off", "read", "on"] = _setting(
        Choice(("off", "read", "on")),
        "off",
        group=CACHES,
        help="Keep what prompts have in common on the disk under STATE, for after a restart; read writes nothing.",
    )
    disk_cache_gb: float = _setting(
        Real(0, 1_048_576, "GB"), 100.0, group=CACHES, help="Size of the disk cache; the longest unused goes first."
    )
    disk_cache_ttl_days: float = _setting(
        Real(0, 36_500, "DAYS"), 14.0, group=CACHES, help="Days that an entry of the disk cache stays unused."
    )
    disk_cache_admit_after: int = _setting(
        Whole(1, 1000), 2, group=CACHES, help="Prompts that must have held a chunk before it goes to the disk."
    )
    disk_cache_min_free_gb: float = _setting(
        Real(0, 1_048_576, "GB"), 50.0, group=CACHES, help="What the disk cache leaves free on its disk."
    )
    spill: bool = _setting(
        OnOff(),
        True,
        group=CACHES,
        help="Write the conversation to STATE when the server stops, and read it back when it starts.",
    )
    response_cache: bool = _setting(
        OnOff(),
        False,
        group=CACHES,
        help="Answer an identical request at temperature 0 from memory. A request with Cache-Control: no-cache is "
        "computed, one with no-store leaves nothing there.",
    )
    response_cache_mb: int = _setting(
        Whole(1, 1_048_576, "MB"), 64, group=CACHES, help="Memory for such answers; the longest unused goes first."
    )
    response_cache_ttl: float = _setting(
        Real(0.01, 365 * DAY_S), 3600.0, group=CACHES, help="Seconds that such an answer stays."
    )
    summary_ahead: bool = _setting(
        Flag(),
        False,
        group=CACHES,
        help="Write summaries that the conductor foresees ahead, while no request runs.",
    )
    mem_ceiling_gib: float | None = _setting(
        Real(0.01, 4096, "GIB"),
        None,
        group=CACHES,
        shown="what the load takes, and all caches",
        help="Memory that the engine comes back under between two requests, giving up caches where it must.",
    )
    mem_peak_gib: float | None = _setting(
        Real(0.01, 4096, "GIB"),
        None,
        group=CACHES,
        shown="what the machine allows on the CPU; on a GPU the ceiling, and reading the longest prompt",
        help="Memory that the engine never takes more of; a prompt that would is refused with a 503.",
    )

    max_queue: int = _setting(
        Whole(1, 10_000), 8, group=LIMITS, help="Requests that may wait; the next one gets a 503."
    )
    queue_timeout: float = _setting(
        Real(0.01, DAY_S), 240.0, group=LIMITS, help="Longest wait of a request without a stream; then it gets a 429."
    )
    request_timeout: float = _setting(
        Real(0.01, 7 * DAY_S), 3600.0, group=LIMITS, help="Longest generation, and longest wait of a streamed request."
    )
    max_body_mb: int = _setting(
        Whole(1, 1024, "MB"), 64, group=LIMITS, help="Largest request body; a larger one gets a 413."
    )
    client_stall_s: float = _setting(
        Real(0.01, DAY_S),
        60.0,
        group=LIMITS,
        help="A client that has taken nothing of its stream for this long counts as gone.",
    )
    parallel: int = _setting(
        Whole(1, 16),
        1,
        group=LIMITS,
        help="Requests that are answered at once: one with the whole window, each further one in a side slot.",
    )
    side_max_len: int = _setting(
        Whole(2, 2**24, "TOKENS"),
        65_536,
        group=LIMITS,
        help="Window of a side slot; a request that does not fit it waits for the whole one.",
    )
    parallel_floor_gb: float | None = _setting(
        Real(0, 2**20, "GIB"),
        None,
        group=LIMITS,
        shown="15 where a CUDA board shares the memory, else 5 % of it, at least 1",
        help="GiB of memory that a side slot, or one more request beside others, must leave free.",
    )
    side_lane: Literal["on", "decode", "off"] = _setting(
        Choice(("on", "decode", "off")),
        "on",
        group=LIMITS,
        help="Serve short requests between the steps of a running one; decode leaves its prefill alone.",
    )
    side_lane_prompt_max: int = _setting(
        Whole(1, 2**24, "TOKENS"), 2_048, group=LIMITS, help="Longest prompt of a request that is served so."
    )
    side_lane_new_max: int = _setting(
        Whole(1, 2**24, "TOKENS"), 64, group=LIMITS, help="Most output of a request that is served so."
    )
    turn_quantum_ms: float = _setting(
        Real(1, 60_000, "MS"),
        50.0,
        group=LIMITS,
        help="GPU time by which a waiting slot must be behind before the turn changes hands.",
    )
    batch_timeout_ms: float = _setting(
        Real(0, 60_000, "MS"),
        2.0,
        group=LIMITS,
        help="How long a round of several requests waits for one that is late, with the GPU unused.",
    )
    parallel_settle: bool = _setting(
        OnOff(),
        True,
        group=LIMITS,
        help="Let the device finish before another slot's turn, so that each is measured by its own work alone.",
    )
    parallel_timing: bool = _setting(
        Flag(), False, group=LIMITS, help="Measure what rounds take by how many requests share them; /health shows it."
    )
    stuck_s: float = _setting(
        Real(0.01, DAY_S),
        120.0,
        group=LIMITS,
        help="A slot without a safe point for this long is reported as stuck in the log and in /health.",
    )
    conductor_watch_s: float = _setting(Real(0.01, DAY_S), 30.0, group=LIMITS, help="How often the watchdog looks.")

    state_dir: Path = _setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        lambda: Path(os.path.expanduser("~/.tandem")),
        group=STATE,
        shown="~/.tandem",
        help="STATE, the directory of everything that outlives the process; one process at a time.",
    )
    usage_ledger: Path | None = _setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        group=STATE,
        shown="no ledger",
        help="SQLite file with one row a request, relative to STATE.",
    )

    usage_retention_days: int = _setting(
        Whole(400, 36_500),
        400,
        group=STATE,
        help="Days that ledger rows are kept; the view of a year needs at least 400.",
    )

    live_activity: bool = _setting(
        OnOff(), True, group=LIVE, help="Show what each request does; off leaves counters and rates alone."
    )
    live_hz: Literal["0", "1", "2", "4"] = _setting(
        Choice(("0", "1", "2", "4")),
        "4",
        group=LIVE,
        help="Live events a second while a request runs and somebody watches; 0 is as --live-activity off.",
    )
    live_max_readers: int = _setting(
        Whole(1, 10_000), 64, group=LIVE, help="Readers of the live view at once; the next one gets a 429."
    )

    conductor_config: Path | None = _setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        group=CONDUCTOR,
        shown="no conductor",
        help="Directory of the conductor's documents, relative to STATE; /v1/conductor/* answers only with it.",
    )

    conductor: Literal["raw", "shadow", "on", "off"] | None = _setting(
        Choice(("raw", "shadow", "on", "off")),
        None,
        group=CONDUCTOR,
        shown="on with --conductor-config, else raw",
        help="The highest mode of the session monitor: on acts, shadow only journals, raw (off) has none.",
    )
    conductor_policy: Path | None = _setting(  # noqa: RUF009  (a dataclass field)
        FilePath(),
        None,
        group=CONDUCTOR,
        shown="the policy that ships",
        help="The monitor's policy, a YAML file; tandem policy check says what is wrong with one.",
    )
    notify_url: str | None = _setting(
        Text("URL"),
        None,
        group=CONDUCTOR,
        shown="nowhere",
        help="Where the watch pushes to, once the policy or a profile has it push, and the policy names no address.",
    )
    argloop: Literal["on", "log", "off"] = _setting(
        Choice(("on", "log", "off")),
        "on",
        group=CONDUCTOR,
        help="Stop calls whose arguments repeat themselves, where the monitor is on; log only says so, off also leaves "
        "the history as it is.",
    )
    client_cwd: Literal["note", "off"] = _setting(
        Choice(("note", "off")),
        "note",
        group=CONDUCTOR,
        help="Under a plan, move the working directory out of tools' descriptions into the turn, so that a cd leaves "
        "what is cached in place; off renders tools as sent.",
    )
    tool_fit: Literal["on", "shadow", "off"] = _setting(
        Choice(("on", "shadow", "off")),
        "on",
        group=CONDUCTOR,
        help="Leave out packages that the request's tools cannot carry out; shadow only journals, off keeps them. The "
        "router document may ask for less.",
    )
    client_reasoning: tuple[tuple[str, str], ...] = _setting(
        ByClient(("tags", "reasoning_content", "both")),
        (("*", "reasoning_content"), ("hermes", "tags")),
        group=CONDUCTOR,
        shown="*=reasoning_content,hermes=tags",
        help="Under a plan, where the reasoning goes by kind of client, while --reasoning-format is tags; an empty "
        "value means tags for all.",
    )
    status_clients: tuple[str, ...] = _setting(
        Names(),
        ("open-webui",),
        group=CONDUCTOR,
        shown="open-webui",
        help="Kinds of client that get state lines as status events until the first token; an empty value means none.",
    )
    note_dedup: Literal["parts", "block"] = _setting(
        Choice(("parts", "block")),
        "parts",
        group=CONDUCTOR,
        help="A later turn's note has what no earlier note says, or the whole block again when a part has changed.",
    )
    session_generations: bool = _setting(
        OnOff(),
        True,
        group=CONDUCTOR,
        help="Keep conversations without an id apart that begin with the same words; off has one session for each.",
    )
    conductor_fit: str = _setting(
        Text("FIT"),
        "model",
        group=CONDUCTOR,
        help="How the conductor fits the model: model as its adapter declares, off as the documents are written, or "
        "key=value,… over the declaration (effort_note, rules, questions, packages, lean, no_package_classes, "
        "max_package_tokens).",
    )

    log_content: bool = _setting(
        Flag(), False, group=LOGS, help="Let exception texts that may quote a request into the log."
    )
    log_request_keys: bool = _setting(
        Flag(), False, group=LOGS, help="Log the parameter names and scalar values of requests, never messages."
    )

    named: frozenset[str] = frozenset()
    """The settings that a flag or a variable gave, as against their defaults."""
    unknown: tuple[str, ...] = ()
    """Variables that start with TANDEM_ and name no setting: worth a warning, since they change nothing."""

    @property
    def ledger_path(self) -> Path | None:
        """Where the ledger is; a relative `usage_ledger` is below STATE."""
        return None if self.usage_ledger is None else self.state_dir / self.usage_ledger

    @property
    def disk_tier(self) -> dict[str, Any]:
        """The disk tier by the keys of the settings document's `memory.disk_cache`, whose absent keys these are."""
        return {
            "mode": self.disk_cache,
            "budget_gb": self.disk_cache_gb,
            "ttl_days": self.disk_cache_ttl_days,
            "admit_after": self.disk_cache_admit_after,
            "min_free_gb": self.disk_cache_min_free_gb,
        }

    @property
    def conductor_dir(self) -> Path | None:
        """Where the conductor's documents are; a relative `conductor_config` is below STATE."""
        return None if self.conductor_config is None else self.state_dir / self.conductor_config

    @property
    def monitor_mode(self) -> Literal["raw", "shadow", "on"]:
        """`conductor` with its default (MON-001)."""
        if self.conductor is None:
            return "raw" if self.conductor_config is None else "on"
        return "raw" if self.conductor == "off" else self.conductor

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the port. A host name other than `localhost` counts as not."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @classmethod
    def from_sources(cls, flags: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
        """Settings from flags by attribute name (None: not given) and the environment; raises `SettingError`.

        For plain Hypercorn: `Settings.from_sources({}, os.environ)`.
        """
        settings = declared()
        if extra := sorted(flags.keys() - settings.keys()):
            raise SettingError(f"--{extra[0].replace('_', '-')}: there is no such setting; see tandem serve --help")
        values: dict[str, Any] = {}
        for name, setting in settings.items():
            if (given := flags.get(name)) is not None:
                values[name] = _read(setting, setting.flag, str(given))
            elif text := environ.get(setting.variable):
                values[name] = _read(setting, setting.variable, text)
        known = {*SECRETS, *(setting.variable for setting in settings.values())}
        unknown = sorted(key for key in environ if key.startswith(ENV_PREFIX) and key not in known)
        return cls(**values, named=frozenset(values), unknown=tuple(unknown))


def _read(setting: Setting, source: str, text: str) -> Any:
    try:
        return setting.kind.read(text)
    except ValueError:
        shown = text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"
        raise SettingError(f"{source}: {shown!r} is not allowed; it takes {setting.kind.allowed}") from None


def declared() -> dict[str, Setting]:
    """All settings by name, in the order of their declaration."""
    return {each.name: _declaration(each) for each in fields(Settings) if each.metadata}


def _declaration(each: Field[Any]) -> Setting:
    meta = each.metadata
    shown = meta["shown"]
    if shown is None:
        default = each.default
        assert default is not MISSING, f"{each.name} computes its default and so must say how it is shown"
        shown = _shown(default)
    return Setting(name=each.name, kind=meta["kind"], group=meta["group"], help=meta["help"], default=shown)


def _shown(default: object) -> str:
    match default:
        case bool():
            return "on" if default else "off"
        case float():
            return f"{default:.10g}"
        case ():
            return "none"
        case _:
            return str(default)
