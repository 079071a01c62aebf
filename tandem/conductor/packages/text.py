"""What a package puts into a prompt: its own text, or a skill's body, cut to its limit (PKG-001, LIB-001)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tandem.conductor.documents.packages import SKILL, Package, Packages

__all__ = [
    "CHARS_PER_TOKEN",
    "NO_SKILLS",
    "SKILL_FILE",
    "URL",
    "Skill",
    "inserted_text",
    "parse_skill",
    "skill_folders",
    "source_text",
]

CHARS_PER_TOKEN = 3.5
"""How many characters a token is taken for wherever no tokenizer is used."""
URL = "{tandem_url}"
"""The server's address in a package's text (CFG-014)."""
SKILL_FILE = "SKILL.md"
REFERENCE = "## Reference"
FENCE = "---"

NO_SKILLS: Mapping[str, str] = {}
"""Where no skill file was read: packages from skills have no text."""


@dataclass(frozen=True, slots=True)
class Skill:
    """The three parts of a SKILL.md. Only `body` ever enters a prompt."""

    frontmatter: str
    fields: Mapping[str, str]
    """`name`, `description` and further plain lines of the frontmatter."""
    body: str
    reference: str


def parse_skill(text: str) -> Skill:
    """The parts of a SKILL.md; a file without frontmatter or reference has them empty."""
    lines = text.splitlines()
    frontmatter: list[str] = []
    if lines and lines[0].strip() == FENCE and FENCE in (line.strip() for line in lines[1:]):
        end = next(at for at, line in enumerate(lines) if at and line.strip() == FENCE)
        frontmatter, lines = lines[1:end], lines[end + 1 :]
    cut = next((at for at, line in enumerate(lines) if line.strip() == REFERENCE), len(lines))
    pairs = (line.partition(":") for line in frontmatter if line and not line[0].isspace())
    return Skill(
        frontmatter="\n".join(frontmatter),
        fields={key.strip(): value.strip().strip("\"'") for key, colon, value in pairs if colon},
        body="\n".join(lines[:cut]).strip(),
        reference="\n".join(lines[cut + 1 :]).strip(),
    )


def skill_folders(packages: Packages) -> dict[str, tuple[str, ...]]:
    """Where the file of each skill that is a source may lie, first match wins."""
    named = {one.source.removeprefix(SKILL) for one in packages.packages if one.source is not None}
    return {name: tuple(f"{folder}/{name}" for folder in packages.skill_dirs) for name in sorted(named)}


def source_text(package: Package, skills: Mapping[str, str] = NO_SKILLS) -> str | None:
    """The text before the cut. `skills` are the read SKILL.md files by name; None: the package's is not among them."""
    if package.text is not None:
        return package.text.strip()
    text = skills.get((package.source or "").removeprefix(SKILL))
    return None if text is None else parse_skill(text).body


def inserted_text(package: Package, skills: Mapping[str, str] = NO_SKILLS, url: str = "") -> str:
    """What the model reads; empty where the package has no text. `url` takes the place of {tandem_url}."""
    text = source_text(package, skills) or ""
    return text[: int(package.max_tokens * CHARS_PER_TOKEN)].rstrip().replace(URL, url)
