"""The shipped texts and what of a package or skill is inserted."""

from __future__ import annotations

import re

import pytest

from tandem.conductor.documents import Package
from tandem.conductor.packages.text import CHARS_PER_TOKEN, inserted_text, parse_skill
from tests.conductor.documents.samples import documents
from tests.embedded import embedded_checkpoint

SHIPPED = documents().packages.packages
SKILL = (
    "---\nname: maps\ndescription: 'Draw maps'\nextra:\n  nested: 1\n---\n\n# Maps\n\nDraw.\n\n## Reference\n\nMore.\n"
)


@pytest.mark.spec("PKG-001")
@pytest.mark.parametrize("package", SHIPPED, ids=lambda package: package.name)
def test_a_shipped_text_is_whole_within_its_limit(package: Package) -> None:
    assert package.text is not None
    assert len(package.text.strip()) <= package.max_tokens * CHARS_PER_TOKEN
    assert inserted_text(package) == package.text.strip()
    assert len(package.text) > 600, "a placeholder"


@pytest.mark.spec("PKG-001")
def test_a_real_tokenizer_agrees_with_the_limits() -> None:
    encode = embedded_checkpoint().text.encode
    assert {one.name for one in SHIPPED if len(encode(inserted_text(one))) > one.max_tokens} == set()


@pytest.mark.parametrize("package", SHIPPED, ids=lambda package: package.name)
def test_a_shipped_text_is_plain(package: Package) -> None:
    text = inserted_text(package)
    assert text.startswith("# ")
    assert "tandem" not in text.lower(), "a text of a new install needs no server and no tool of ours"
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    assert not re.search(r"[^\x20-\x7e\n]", text)


@pytest.mark.parametrize("name", ["coding", "coding-answer", "research-report", "source-check", "maths-steps"])
def test_texts_say_what_never_to_claim(name: str) -> None:
    package = documents().package(name)
    assert package is not None
    assert re.search(r"\b[Nn]ever (?:say|claim|invent|present)|invent nothing", inserted_text(package))


@pytest.mark.spec("PKG-001")
def test_a_text_is_cut_at_three_and_a_half_characters_a_token() -> None:
    package = Package(name="a", description="a", max_tokens=3, text="0123456789abcdef")
    assert inserted_text(package) == "0123456789"


def test_the_servers_address_is_filled_in_behind_the_cut() -> None:
    package = Package(name="a", description="a", max_tokens=4, text="{tandem_url}!!!!")
    assert inserted_text(package, url="http://here") == "http://here!!"


@pytest.mark.spec("PKG-001")
def test_a_skill_gives_its_body_alone() -> None:
    package = Package(name="a", description="a", max_tokens=100, source="skill:maps")
    assert inserted_text(package, {"maps": SKILL}) == "# Maps\n\nDraw."
    assert inserted_text(package) == ""


def test_the_parts_of_a_skill() -> None:
    skill = parse_skill(SKILL)
    assert skill.fields == {"name": "maps", "description": "Draw maps", "extra": ""}
    assert skill.reference == "More."
    assert parse_skill("Draw.").body == "Draw."
    assert parse_skill("---\nnever closed").body == "---\nnever closed"
    assert parse_skill("").body == ""
