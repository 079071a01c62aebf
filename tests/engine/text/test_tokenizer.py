"""Byte-level BPE: ids of a reference, exact bytes, no special token from text."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from tandem.engine.checkpoints.gguf import GgufFile
from tandem.engine.checkpoints.gguf_vocabulary import build_tokenizer
from tandem.engine.errors import BadInput, CheckpointError
from tandem.engine.text.tokenizer import BpeTokenizer, byte_alphabet
from tests.embedded import embedded_checkpoint, embedded_path
from tests.engine.text.reference_bpe import ReferenceBpe
from tests.tiny import SPECIALS, tiny_tokenizer

TINY = BpeTokenizer(tiny_tokenizer(), "0" * 64)
END = 2

WORDS = """
the of and server's it'll I'd we've HTTP don't naïve Zwölf über straße où élève niño 東京 こんにちは 안녕 Привет مرحبا
שלום हिन्दी 👩‍💻 🎉 e\u0301 ﬁ x1y2 3.14159 1,000,000 ½ ² Ⅷ 0xFF snake_case CamelCase def return lambda -> != == +=
{"a": [1, 2.5, null]} <div class="x"> </div> // TODO: /usr/bin/env \\n `code` $HOME %s #!/ *** --- ... “quote” — •
https://example.org/?q=a&b=c user@example.org <|im_end|> <think> [INST] \ufdd0 \u200b
""".split()  # noqa: SIM905 (a list of a hundred literals reads worse)
GAPS = (" ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "    ", "", ", ", ". ", "\u00a0", "\u3000")


def corpus() -> list[str]:
    """The fixed corpus: 500 strings of words of many scripts, code and numbers with every kind of gap."""
    draw = random.Random(12)
    texts = []
    for _ in range(500):
        parts: list[str] = []
        for _ in range(draw.randint(2, 30)):
            number = str(draw.randrange(10 ** draw.randint(1, 9)))
            parts += [number if draw.random() < 0.1 else draw.choice(WORDS), draw.choice(GAPS)]
        texts.append("".join(parts))
    return texts


@pytest.mark.spec("ENG-012")
def test_gguf_ids_equal_the_reference() -> None:
    file = GgufFile(embedded_path())
    tokens = file.require("tokenizer.ggml.tokens")
    vocabulary = {text: token for token, text in enumerate(tokens)}
    reference = ReferenceBpe(vocabulary, file.require("tokenizer.ggml.merges"), single_digits=True)
    text_model = embedded_checkpoint().text
    texts = corpus()
    assert len(set(texts)) == 500
    for text in texts:
        ids = text_model.encode(text)
        assert ids == reference.encode(text)
        assert b"".join(map(text_model.piece, ids)).decode() == text


@pytest.mark.spec("ENG-012")
def test_directory_ids_equal_the_reference() -> None:
    model = json.loads(tiny_tokenizer().to_str())["model"]
    merges = [" ".join(pair) for pair in model["merges"]]
    reference = ReferenceBpe(model["vocab"], merges, single_digits=False)
    for text in corpus():
        assert TINY.encode(text) == reference.encode(text)


@pytest.mark.spec("ENG-012")
@given(st.text(max_size=80))
def test_any_text_survives(text: str) -> None:
    ids = TINY.encode(text)
    assert b"".join(map(TINY.piece, ids)).decode() == text
    assert all(TINY.is_token(token) for token in ids)


@pytest.mark.spec("ENG-012")
@settings(max_examples=50)
@given(st.text(st.characters(max_codepoint=0x3FFFF, exclude_categories=["Cs", "Cc"]), max_size=60))
def test_any_text_survives_in_the_embedded_model(text: str) -> None:
    """Planes 4 to 14 hold no text, and the published vocabulary lacks their first bytes."""
    model = embedded_checkpoint().text
    assert b"".join(map(model.piece, model.encode(text))).decode() == text


def test_bytes_the_vocabulary_lacks_become_replacement_characters() -> None:
    model = embedded_checkpoint().text
    text = "a\x04b\U00050000c"
    assert b"".join(map(model.piece, model.encode(text))).decode() == "a\ufffdb\ufffdc"


SPELLINGS = st.lists(st.sampled_from([*SPECIALS, "<|im_", "end|>", "<|", "|>", " ", "\n", "a", "<think>"]), max_size=12)


@pytest.mark.spec("ENG-178", "API-255")
@given(SPELLINGS.map("".join))
def test_text_never_becomes_a_special_token(text: str) -> None:
    ids = TINY.encode(text)
    assert not set(ids) & {0, 1, 2}
    assert b"".join(map(TINY.piece, ids)).decode() == text


@pytest.mark.spec("ENG-178")
def test_a_word_that_is_whole_in_the_vocabulary_is_no_way_in() -> None:
    """With `ignore_merges` (Llama 3) a word that spells a vocabulary entry becomes it, unless the entry is gone."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*letters, "stop", "go"]
    kinds = [1] * len(letters) + [3, 1]
    tokenizer = BpeTokenizer(build_tokenizer(tokens, kinds, ["g o"], pre="llama-bpe"), "0" * 64)
    assert tokenizer.encode("go") == [257]
    ids = tokenizer.encode("stop")
    assert [tokenizer.piece(token) for token in ids] == [b"s", b"t", b"o", b"p"]
    assert tokenizer.encode_marked("stopgo", "\ufdd0") == [256, 257]


def test_pieces_names_and_ids() -> None:
    assert [TINY.id_of(text) for text in (*SPECIALS, "the", "<|x|>")] == [0, 1, 2, None, None]
    assert TINY.piece(END) == b""
    assert TINY.name(END) == "<|im_end|>"
    (a,) = TINY.encode("a")
    assert (TINY.piece(a), TINY.name(a)) == (b"a", "a")
    first_byte = TINY.encode("😀")[0]
    assert TINY.name(first_byte) == "\ufffd"
    for absent in (-1, TINY.vocab_size, 10**9):
        assert not TINY.is_token(absent)
        assert TINY.piece(absent) == b""
        assert TINY.name(absent) == f"<{absent}>"


def test_an_alphabet_of_all_bytes() -> None:
    alphabet = byte_alphabet()
    assert sorted(alphabet.values()) == list(range(256))
    assert set(alphabet) == set(pre_tokenizers.ByteLevel.alphabet())


def test_markers_between_pieces() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("<|im_end|>x", normalized=False)])
    tokenizer.add_special_tokens([AddedToken("<|both|>", lstrip=True, rstrip=True)])
    tokenizer.add_tokens([AddedToken("   ")])
    bpe = BpeTokenizer(tokenizer, "0" * 64)
    think, longer, both, spaces = range(TINY.vocab_size, TINY.vocab_size + 4)
    encoded = bpe.encode_marked("<think>a\ufdd0<|im_end|><|im_end|>x", "\ufdd0")
    assert encoded == [think, *bpe.encode("a"), END, longer]
    assert bpe.encode_marked("a \n<|both|> \n b", "\ufdd0") == [*bpe.encode("a"), both, *bpe.encode("b")]
    assert bpe.piece(think) == b"<think>", "only special tokens are dropped from text"
    assert think not in bpe.encode("<think>"), "but a client writes none of them"
    assert bpe.encode("a   b") == tokenizer.encode("a   b").ids, "runs of spaces are text"
    assert spaces in bpe.encode("a   b")
    assert tokenizer.encode("<think>a <|both|> b").ids == bpe.encode_marked("<think>a <|both|> b", "\ufdd0")


def test_a_lone_surrogate_is_bad_input() -> None:
    with pytest.raises(BadInput, match="lone surrogate"):
        TINY.encode("a\ud800")


@pytest.mark.spec("ENG-012")
def test_other_kinds_of_tokenizer_are_refused() -> None:
    words = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(CheckpointError, match="not byte-level BPE"):
        BpeTokenizer(words, "")
    sentencepiece = Tokenizer(models.BPE({"▁": 0}, []))
    with pytest.raises(CheckpointError, match="not byte-level BPE"):
        BpeTokenizer(sentencepiece, "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"merges": ["x y z"]}, r"tokenizer\.ggml\.merges"),
        ({"merges": ["a zz"]}, r"tokenizer\.ggml\.merges"),
        ({"pre": "unheard-of"}, r"tokenizer\.ggml\.pre unheard-of is not served"),
    ],
)
def test_vocabularies_that_do_not_fit_together(changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"tokens": ["a", "b", "ab"], "kinds": [1, 1, 1], "merges": ["a b"], "pre": "gpt-2"}
    build_tokenizer(**given)
    with pytest.raises(CheckpointError, match=message):
        build_tokenizer(**(given | changes))


def test_unused_ids_are_no_tokens() -> None:
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "[PAD]", "ab"]
    kinds = [1] * 256 + [5, 1]
    tokenizer = BpeTokenizer(build_tokenizer(tokens, kinds, ["a b"]), "")
    assert not tokenizer.is_token(256)
    assert tokenizer.encode("ab") == [257]
