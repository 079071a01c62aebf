"""Pulling from a stand-in hub: what is fetched, what is refused, what an interrupt leaves."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from huggingface_hub import HfApi, ModelInfo

from tandem.engine.checkpoints import embedded
from tandem.engine.checkpoints import hub as hub_module
from tandem.engine.checkpoints.hub import pull
from tandem.engine.checkpoints.load import resolve_model
from tandem.engine.checkpoints.pulled import LOCK, ModelName, Pulled, list_pulled, staging_dir
from tandem.engine.errors import CheckpointError
from tandem.engine.load import load_engine
from tests.engine.decoding.engines import read, rounds
from tests.hub import Hub, running_hub
from tests.tiny import build_llama
from tests.tiny_gguf import build_gguf

Fetch = Callable[..., Path]
Refusal = Callable[..., str]

LLAMA, SHARDED, GGUF = "org/tiny-llama", "org/tiny-sharded", "org/Tiny-GGUF"
SERVED = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hub")
    build_llama(root / LLAMA)
    (root / LLAMA / "README.md").write_text("# Tiny\n")
    (root / LLAMA / "pytorch_model.bin").write_bytes(bytes(1000))
    build_llama(root / SHARDED, shards=3)
    (root / SHARDED / "consolidated.safetensors").write_bytes(bytes(1000))
    (root / GGUF).mkdir()
    build_gguf(root / GGUF / "tiny-Q8_0.gguf", kind=GGMLQuantizationType.Q8_0)
    (root / GGUF / "tiny-Q4_K_M.gguf").write_bytes(b"GGUF")
    (root / GGUF / "mmproj-F16.gguf").write_bytes(b"GGUF")
    return root


@pytest.fixture
def hub(models: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    with running_hub() as running:
        running.repos = {repo: models / repo for repo in (LLAMA, SHARDED, GGUF)}
        yield running


@pytest.fixture
def fetch(hub: Hub, tmp_path: Path) -> Fetch:
    def run(name: str, **options: Any) -> Path:
        parsed = ModelName.parse(name)
        assert parsed is not None
        given: dict[str, Any] = {"progress": lambda done, total: None, "retry_s": 0, "endpoint": hub.url}
        return pull(parsed, tmp_path, **given | options)

    return run


@pytest.fixture
def refusal(fetch: Fetch) -> Refusal:
    def run(name: str, **options: Any) -> str:
        with pytest.raises(CheckpointError) as caught:
            fetch(name, **options)
        message = str(caught.value)
        assert "\n" not in message
        return message

    return run


def names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def writes(path: Path) -> bool:
    """Whether the engine of a pulled model writes a few tokens."""
    engine = load_engine(path)
    return len(rounds(engine, read(engine, engine.text.encode("the quick brown fox")), 4)) == 4


def test_a_directory_is_pulled_and_served(fetch: Fetch, hub: Hub, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = fetch(LLAMA, progress=lambda done, total: seen.append((done, total)))
    assert path == tmp_path / "models" / LLAMA
    assert names(path) == SERVED
    total = sum(file.stat().st_size for file in path.iterdir())
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)
    assert names(staging_dir(tmp_path, LLAMA)) == {LOCK}
    assert resolve_model(LLAMA, tmp_path) == path
    assert writes(path)


def test_what_is_there_is_not_fetched_again_unless_it_is_damaged(fetch: Fetch, hub: Hub) -> None:
    path = fetch(LLAMA)
    hub.requests.clear()
    assert fetch(LLAMA) == path
    assert hub.requests == []
    whole = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(whole[:-1] + b"!")
    (path / "config.json").unlink()
    fetch(LLAMA)
    assert sorted(name for name, _ in hub.requests) == ["config.json", "model.safetensors"]
    assert (path / "model.safetensors").read_bytes() == whole


@pytest.mark.spec("ENG-020")
def test_the_shards_are_those_that_the_index_names(fetch: Fetch) -> None:
    path = fetch(SHARDED)
    shards = {f"model-0000{part}-of-00003.safetensors" for part in (1, 2, 3)}
    assert names(path) == SERVED - {"model.safetensors"} | shards | {"model.safetensors.index.json"}
    assert writes(path)


def test_the_one_gguf_file_that_is_served_is_taken(fetch: Fetch, hub: Hub, tmp_path: Path) -> None:
    path = fetch(GGUF)
    assert path == tmp_path / "models" / GGUF / "tiny-Q8_0.gguf"
    assert names(path.parent) == {"tiny-Q8_0.gguf"}
    assert resolve_model(GGUF, tmp_path) == resolve_model(f"{GGUF}:tiny-Q8_0.gguf", tmp_path) == path
    assert writes(path)
    hub.requests.clear()
    assert fetch(f"{GGUF}:tiny-Q8_0.gguf") == path
    assert hub.requests == []


def test_several_gguf_files_are_listed(hub: Hub, fetch: Fetch, refusal: Refusal, tmp_path: Path) -> None:
    root = tmp_path / "hub"
    (root / "sub").mkdir(parents=True)
    build_gguf(root / "one-F32.gguf")
    build_gguf(root / "sub/two.bf16.gguf", kind=GGMLQuantizationType.BF16)
    (root / "one-Q6_K.gguf").touch()
    (root / "one-F16-00001-of-00002.gguf").touch()
    hub.repos["org/many"] = root
    listed = "org/many has several GGUF files; name one: org/many:one-F32.gguf, org/many:sub/two.bf16.gguf"
    assert refusal("org/many") == listed
    assert fetch("org/many:sub/two.bf16.gguf").read_bytes() == (root / "sub/two.bf16.gguf").read_bytes()
    assert resolve_model("org/many", tmp_path) == tmp_path / "models/org/many/sub/two.bf16.gguf"
    fetch("org/many:one-F32.gguf")
    with pytest.raises(CheckpointError, match=r"has several files; name one: org/many:one-F32\.gguf, "):
        resolve_model("org/many", tmp_path)
    assert "org/many has no file three.gguf; GGUF files in it: one-F16-0" in refusal("org/many:three.gguf")
    assert "is one part of a split GGUF file" in refusal("org/many:one-F16-00001-of-00002.gguf")


@pytest.mark.spec("ENG-025")
def test_block_types_that_are_not_served_are_refused_by_the_header(
    hub: Hub, refusal: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "HEADER_BYTES", 4096)
    root = tmp_path / "hub"
    root.mkdir()
    blocks = np.zeros((400, 210), dtype=np.uint8)
    raw = {"output.weight": (GGMLQuantizationType.Q6_K, blocks)}
    build_gguf(root / "tiny-Q8_0.gguf", tied=False, kind=GGMLQuantizationType.Q8_0, raw=raw)
    hub.repos["org/mixed"] = root
    message = refusal("org/mixed")
    assert message.startswith(
        "org/mixed: tiny-Q8_0.gguf: tensor output.weight is Q6_K; served are F32, F16, BF16, Q4_0"
    )
    assert message.endswith("its weights were not fetched")
    size = (root / "tiny-Q8_0.gguf").stat().st_size
    assert 4096 < hub.sent["tiny-Q8_0.gguf"] < size / 2
    assert names(tmp_path / "models") == {f".pull/org/mixed/{LOCK}"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "architecture MambaForCausalLM is not served; served are: llama"),
        ({"quantization_config": {"quant_method": "gptq"}}, "weights quantised as gptq are not served"),
        ({"hidden_act": "gelu"}, "hidden_act gelu is not served"),
    ],
)
def test_a_config_that_is_not_served_is_refused_before_the_weights(
    hub: Hub, refusal: Refusal, tmp_path: Path, overrides: dict[str, Any], message: str
) -> None:
    hub.repos["org/other"] = build_llama(tmp_path / "hub", **overrides)
    assert refusal("org/other").startswith(f"org/other: config.json: {message}")
    assert [name for name, _ in hub.requests] == ["config.json"]
    assert names(tmp_path / "models") == {f".pull/org/other/{LOCK}"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            ["config.json", "pytorch_model.bin"],
            "org/odd has its weights as pytorch_model.bin, which is not served; needed",
        ),
        (["adapter_config.json", "adapter_model.safetensors"], "org/odd is an adapter and no model of its own"),
        (["a-Q4_K_M.gguf", "a-IQ2_XS.gguf"], "org/odd has no GGUF file that is served: a-IQ2_XS.gguf, a-Q4_K_M.gguf; "),
        (["README.md"], "org/odd has no weights that are served; needed is config.json with model.safetensors or"),
    ],
)
def test_a_repository_without_a_model_says_what_is_needed(
    hub: Hub, refusal: Refusal, tmp_path: Path, files: list[str], message: str
) -> None:
    hub.repos["org/odd"] = tmp_path / "hub"
    (tmp_path / "hub").mkdir()
    for file in files:
        (tmp_path / "hub" / file).write_bytes(b"x")
    assert refusal("org/odd").startswith(message)
    assert hub.requests == []


def test_a_directory_that_is_not_whole_is_refused(hub: Hub, refusal: Refusal, models: Path, tmp_path: Path) -> None:
    root = hub.repos["org/part"] = tmp_path / "hub"
    shutil.copytree(models / SHARDED, root)
    (root / "model-00002-of-00003.safetensors").unlink()
    assert "index.json names model-00002-of-00003.safetensors, which the rep" in refusal("org/part")
    (root / "model.safetensors.index.json").write_text("{}")
    assert refusal("org/part") == "org/part: model.safetensors.index.json has no weight_map"
    (root / "model.safetensors.index.json").write_text("{")
    assert "model.safetensors.index.json has no weight_map" in refusal("org/part")
    (root / "tokenizer.json").unlink()
    (root / "model.safetensors.index.json").unlink()
    shutil.copy(root / "model-00001-of-00003.safetensors", root / "model.safetensors")
    assert "org/part has no tokenizer.json, which is needed" in refusal("org/part")
    hub.elements["org/part"] = {"U32": 900, "F16": 100}
    assert (
        refusal("org/part") == "org/part: weights are U32, which is not served; needed is F32, F16, BF16, F8_E4M3, U8"
    )


def test_an_interrupted_pull_is_no_model_and_the_next_continues_it(fetch: Fetch, hub: Hub, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done > total - 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(LLAMA, progress=interrupt)
    with pytest.raises(CheckpointError, match=f"fetch it with: tandem pull {LLAMA}$"):
        resolve_model(LLAMA, tmp_path)
    assert [(each.name, each.format) for each in list_pulled(tmp_path)] == [(LLAMA, "unfinished")]
    (part,) = staging_dir(tmp_path, LLAMA).glob("*.part")
    had = part.stat().st_size
    assert had > 100_000
    hub.requests.clear()
    seen: list[int] = []
    assert writes(fetch(LLAMA, progress=lambda done, total: seen.append(done)))
    size = (tmp_path / "models" / LLAMA / "model.safetensors").stat().st_size
    assert hub.requests == [("model.safetensors", f"bytes={had}-{size - 1}")]
    assert seen[0] > had


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_connection_is_taken_up_again(fetch: Fetch, hub: Hub, ranges: bool) -> None:
    hub.cut_after, hub.cuts, hub.ranges = 30_000, 4, ranges
    seen: list[tuple[int, int]] = []
    path = fetch(LLAMA, progress=lambda done, total: seen.append((done, total)))
    assert writes(path)
    assert seen[-1][0] == seen[-1][1] == sum(file.stat().st_size for file in path.iterdir())


def test_a_network_that_stays_away_is_one_line_and_keeps_what_came(
    fetch: Fetch, hub: Hub, refusal: Refusal, tmp_path: Path
) -> None:
    def lose_it(done: int, total: int) -> None:
        if done > total - 100_000:
            hub.cut_after = 0

    hub.cut_after = 50_000
    message = refusal(LLAMA, progress=lose_it)
    assert message.startswith(f"{hub.url} cannot be reached (")
    assert message.endswith(f"; with a network, tandem pull {LLAMA} continues it")
    assert list(staging_dir(tmp_path, LLAMA).glob("*.part"))
    hub.cut_after = None
    fetch(LLAMA)


def test_damage_is_found(fetch: Fetch, hub: Hub, refusal: Refusal, tmp_path: Path) -> None:
    hub.damage = "model.safetensors"
    assert refusal(LLAMA) == f"{LLAMA}: model.safetensors came damaged; run again: tandem pull {LLAMA}"
    assert not (tmp_path / "models" / LLAMA / "config.json").exists()
    hub.damage = ""
    assert writes(fetch(LLAMA))


def test_another_revision_replaces_the_files(
    hub: Hub, fetch: Fetch, refusal: Refusal, models: Path, tmp_path: Path
) -> None:
    path = fetch(SHARDED)
    other = "b" * 40
    hub.revisions[SHARDED] = {other: build_llama(tmp_path / "other", seed=3)}
    assert fetch(SHARDED, revision=other) == path
    assert names(path) == SERVED
    assert (path / "model.safetensors").read_bytes() == (tmp_path / "other/model.safetensors").read_bytes()
    assert fetch(SHARDED) == path
    assert "model.safetensors" not in names(path)
    assert "org/tiny-sharded has no revision v9; --revision takes" in refusal(SHARDED, revision="v9")


def test_the_disk_must_have_room(hub: Hub, refusal: Refusal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = SimpleNamespace(free=100_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    message = refusal(LLAMA)
    assert re.match(r"org/tiny-llama needs \d\d\d\.\d kB more, and 100\.0 kB are free at ", message)
    assert "model.safetensors" not in [name for name, _ in hub.requests]


def test_a_full_disk_is_one_line(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, file: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hub_module, "matches", full)
    assert refusal(LLAMA).startswith(f"the disk is full; what came of {LLAMA} is kept: make room, and tandem pull")


def test_a_gated_model_needs_a_token(hub: Hub, fetch: Fetch, refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.gated = {LLAMA}
    assert refusal(LLAMA) == (
        f"{LLAMA} is gated: accept its terms at {hub.url}/{LLAMA} and set HF_TOKEN to a token of the account that did"
    )
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert "does not accept the token; set HF_TOKEN to a valid one, or unset it" in refusal(LLAMA)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert fetch(LLAMA).is_dir()


def test_a_name_that_is_not_there(hub: Hub, refusal: Refusal) -> None:
    assert refusal("org/tiny") == (
        f"org/tiny is not found at {hub.url}; did you mean {LLAMA} or {SHARDED} or {GGUF}? "
        "A private one needs HF_TOKEN with a token that may read it"
    )
    assert "names are ORG/NAME, as on the model's page; a private one needs HF_TOKEN" in refusal("org/nothing")


@pytest.mark.parametrize(
    ("status", "message"),
    [(403, "refuses org/tiny-llama to this account; set HF_TOKEN"), (500, "answered 500 for org")],
)
def test_other_answers_are_one_line(hub: Hub, refusal: Refusal, status: int, message: str) -> None:
    hub.status = status
    assert message in refusal(LLAMA)


def test_no_network_is_one_line(refusal: Refusal) -> None:
    message = refusal(LLAMA, endpoint="http://127.0.0.1:9", revision="v1")
    assert message.startswith("http://127.0.0.1:9 cannot be reached (")
    assert message.endswith("with a network, tandem pull org/tiny-llama --revision v1 continues it")


def test_paths_that_leave_the_directory_are_not_taken(
    hub: Hub, refusal: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = HfApi.model_info

    def twisted(self: HfApi, *args: Any, **options: Any) -> ModelInfo:
        found = info(self, *args, **options)
        for each in found.siblings or ():
            if each.rfilename == "config.json":
                each.rfilename = "../config.json"
            elif each.rfilename == "model.safetensors":
                each.blob_id, each.lfs = "../../escaped", None
        return found

    monkeypatch.setattr(HfApi, "model_info", twisted)
    assert refusal(LLAMA).startswith(f"{LLAMA} has its weights as pytorch_model.bin")
    assert hub.requests == []


def test_one_process_pulls_a_model_at_a_time(fetch: Fetch, refusal: Refusal) -> None:
    messages: list[str] = []

    def meanwhile(done: int, total: int) -> None:
        if not messages:
            messages.append(refusal(LLAMA))

    fetch(LLAMA, progress=meanwhile)
    assert messages == [f"another process pulls {LLAMA}; wait for it to end"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("org/name", ModelName("org/name")),
        ("org/Name-1.5_b:sub/f-Q8_0.gguf", ModelName("org/Name-1.5_b", "sub/f-Q8_0.gguf")),
        ("name", None),
        ("a/b/c", None),
        ("/org/name", None),
        ("../name", None),
        (".pull/name", None),
        ("org/..", None),
        ("org/name:", None),
        ("org/name:model.bin", None),
        ("org/name:../f.gguf", None),
        ("org/name:/f.gguf", None),
        ("org/na\nme", None),
        ("o/" + "n" * 95, None),
    ],
)
def test_names(text: str, name: ModelName | None) -> None:
    assert ModelName.parse(text) == name
    assert name is None or str(name) == text


def test_a_name_that_is_not_pulled_names_the_command(tmp_path: Path) -> None:
    for name in (LLAMA, f"{GGUF}:a.gguf"):
        with pytest.raises(CheckpointError) as caught:
            resolve_model(name, tmp_path)
        assert str(caught.value) == (
            f"--model {name} is neither on this machine nor pulled; fetch it with: tandem pull {name}"
        )


def test_the_list(fetch: Fetch, tmp_path: Path) -> None:
    assert list_pulled(tmp_path) == []
    stored = embedded.stored_path(tmp_path)
    stored.parent.mkdir()
    stored.write_bytes(b"GGUF")
    directory, file = fetch(LLAMA), fetch(GGUF)
    assert list_pulled(tmp_path) == [
        Pulled(f"{GGUF}:tiny-Q8_0.gguf", "GGUF", file.stat().st_size),
        Pulled(LLAMA, "safetensors", sum(each.stat().st_size for each in directory.iterdir())),
        Pulled("smollm2-135m", "GGUF", 4),
    ]
