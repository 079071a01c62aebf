"""`tandem corpus build`: what it writes, what it says, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tandem.cli.app import main
from tandem.engine.checkpoints.load import open_checkpoint
from tandem.engine.drafting.corpus import BORDER, Corpus
from tandem.engine.tiny.kinds import make_tiny


def run(*args: object) -> Result:
    return CliRunner().invoke(main, ["corpus", "build", *map(str, args)], prog_name="tandem")


@pytest.mark.spec("ENG-050")
def test_a_corpus_is_built_with_the_models_tokenizer(tmp_path: Path) -> None:
    model = make_tiny("llama", tmp_path / "tiny")
    texts = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for text in texts:
        text.write_text(f"the text of {text.name} <|im_end|>", encoding="utf-8")
    out = tmp_path / "x.ids"
    result = run("--model", model, "--out", out, *texts)
    assert result.exit_code == 0, result.output
    tokenizer = open_checkpoint(model).text
    ids = [tokenizer.encode(text.read_text()) for text in texts]
    assert result.output == f"{out}: {sum(map(len, ids))} tokens of 2 documents\n"
    assert Corpus(out, tokenizer.sha256).ids.tolist() == [*ids[0], BORDER, *ids[1], BORDER]
    assert b"the text" not in out.read_bytes()


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    model, text = make_tiny("llama", tmp_path / "tiny"), tmp_path / "x.txt"
    text.write_bytes(b"ab\xff")
    result = run("--model", model, "--out", tmp_path / "x.ids", text)
    assert (result.exit_code, result.output) == (1, f"Error: {text}: is no UTF-8 text (byte 2)\n")
    text.write_text("a")
    result = run("--model", tmp_path / "none", "--out", tmp_path / "x.ids", text)
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)
    result = run("--model", model, "--out", tmp_path / "no/x.ids", text)
    assert (result.exit_code, result.output) == (1, f"Error: {tmp_path}/no/x.ids.partial: No such file or directory\n")
