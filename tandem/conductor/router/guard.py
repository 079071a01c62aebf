"""Prose against a weak code class (RTR-015).

"Write a letter to the council about the app" smells of code and is none. Word patterns never pick a class (RTR-004):
here they only let a code class that the model was unsure of lose to the most probable class beside it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from tandem.conductor.documents.router import Guard
from tandem.conductor.router.digest import digest
from tandem.conductor.router.plan import StageResult

__all__ = ["CODE_WORDS", "PROSE_WORDS", "guarded", "is_prose"]

PROSE_WORDS: Final = re.compile(
    r"""\b(?:
        essays? | poems? | (?:short\s|bedtime\s)?stor(?:y|ies) | novels? | articles? | speech(?:es)? | eulogy | diary
      | (?:cover\s|love\s|open\s|thank[\s-]you\s)?letters?\s(?:to|of|for|that) | cover\sletters?
      | \d{2,5}[\s-]words? | (?:one|two|three|four|five|\d+)\sparagraphs? | word\scount
      | aufs[aä]tz(?:e|en)? | (?:liebes|geschäfts|bewerbungs|beschwerde|dankes)?brief(?:e|en)?\s(?:an|für|über)
      | (?:kurz)?geschichten? | erzählung(?:en)? | gedichte?s? | artikel | rede\s(?:zu[mr]?|für|über|auf)
      | \d{2,5}\swörter[n]? | (?:ein|zwei|drei|vier|fünf|\d+)\sabs(?:atz|ätzen?) | anschreiben
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""A piece of prose is asked for."""
CODE_WORDS: Final = re.compile(
    r"""```
      | \b(?:
        code[drs]? | coding | program(?:s|me|m|mieren?|ming)? | programmier\w* | scripts? | skripte? | functions?
      | funktion(?:en)? | class(?:es)?\s\w+\s*[({:] | compil\w* | kompilier\w* | debug\w* | bugs? | refactor\w*
      | stack\s?traces? | tracebacks? | exceptions? | unit\stests? | html5? | css | javascript | typescript | python
      | java | rust | golang | php | sql | bash | react | vue | svelte | regex(?:es|p)? | json | ya?ml | apis?
      | endpoints? | repos?(?:itory)? | commits? | git | npm | pip | docker\w* | svg | canvas | three\.?js | webgl
      | websites? | web\s?pages? | webseiten? | landing\spages? | homepage | buttons? | widgets? | (?:web\s?)?apps?\b
      | \w[\w-]*\.(?:py|js|ts|tsx|jsx|css|html?|json|ya?ml|rs|go|java|kt|c|h|cpp|cs|php|rb|sh|sql|toml|svg)
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Something of code is mentioned."""
MOST_CHARS: Final = 16_384
"""The patterns take a quarter of a microsecond a character, and a message may have millions (RTR-029)."""


def is_prose(text: str) -> bool:
    """The message mentions a piece of prose and nothing of code; of a very long one its head and tail are read."""
    text = digest(text, MOST_CHARS)
    return PROSE_WORDS.search(text) is not None and CODE_WORDS.search(text) is None


def guarded(result: StageResult, rules: Guard, text: str, code_classes: Collection[str]) -> StageResult:
    """The result, or what is left of a weak code class: the best class beside them with its own probability."""
    if rules.mode == "off" or result.label not in code_classes or (result.confidence or 0.0) >= rules.below:
        return result
    others = {name: share for name, share in result.probabilities.items() if name not in code_classes}
    if not others or not is_prose(text):
        return result
    label = max(others, key=others.__getitem__)
    return replace(result, label=label, confidence=others[label], guard=True)
