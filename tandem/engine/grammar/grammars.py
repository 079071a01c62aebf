"""Constraints to masks: each language is compiled once and kept by its digest (ENG-085)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, TypeAlias

from llguidance import LLMatcher, LLParserLimits

from tandem.engine.errors import BadInput, EngineError
from tandem.engine.grammar.borders import borders
from tandem.engine.grammar.calls import call_grammar
from tandem.engine.grammar.constraints import Calls, CallsOrDocument, Choice, Constraint, JsonObject, JsonSchema, Regex
from tandem.engine.grammar.masks import BranchMask, ConstraintMask
from tandem.engine.grammar.matcher import GuidedMatcher
from tandem.engine.grammar.schemas import schema_grammar
from tandem.engine.grammar.vocabulary import GuidedVocabulary, guided_vocabulary
from tandem.engine.text.model import TextModel
from tandem.engine.text.prompt import Thinking
from tandem.engine.verbs import Mask

__all__ = ["Compiled", "Grammars"]

Language: TypeAlias = JsonObject | JsonSchema | Regex | Choice | Calls

MAX_TEXT: Final = 64 * 1024
"""Most characters of a regex, or of the texts of a choice together (decided for API-128)."""
LIMITS: Final = LLParserLimits(
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=200_000,
    step_max_items=50_000,
    max_lexer_states=50_000,
    max_grammar_size=200_000,
    max_items_in_row=10_000,
    verbose_errors=False,
)
"""Fuel and sizes of the library: together they bound the time of a compilation and of one mask."""

EXACT: Final = '%llguidance {"no_forcing": true}\n'
"""Without it a text that every member has next may be written in one spelling alone, against ENG-084."""


class Grammars:
    """The compiled languages of one text model. Any thread may use it; the first use builds the vocabulary."""

    def __init__(self, text: TextModel, *, cached: int = 64) -> None:
        """`cached`: how many languages are kept."""
        self._text = text
        # lru_cache is one atomic step either way: threads that miss together each compile, and any result will do.
        self._vocabulary: Callable[[], GuidedVocabulary] = lru_cache(maxsize=1)(lambda: guided_vocabulary(text))
        self._matcher = lru_cache(maxsize=cached)(self._compile)

    def compile(self, constraint: Constraint) -> Compiled:
        """`BadInput` names the constraint's field, and the keyword where it is one (API-128). For worker threads."""
        if isinstance(constraint, CallsOrDocument):
            return Compiled(self._text, self._language(constraint.calls), self._language(constraint.document))
        return Compiled(self._text, self._language(constraint))

    def _language(self, language: Language) -> GuidedMatcher:
        return self._matcher(_Keyed(_digest(language), language))

    def _compile(self, keyed: _Keyed) -> GuidedMatcher:
        language = keyed.language
        source = EXACT + _grammar(language, self._text)
        vocabulary = self._vocabulary()
        borders(self._text)  # built here, in a worker, for the masks on the engine's thread
        inner = LLMatcher(vocabulary.tokenizer, source, log_level=0, limits=LIMITS)
        if inner.is_error():
            raise BadInput(_param(language), _reason(inner.get_error(), language))
        matcher = GuidedMatcher(vocabulary, inner)
        try:
            _begin(matcher)
        except EngineError:
            raise BadInput(_param(language), TOO_COMPLEX) from None
        return matcher


def _begin(matcher: GuidedMatcher) -> None:
    """Ask for the first masks: what cannot be served fails here, and the library's caches of them are warm."""
    for start in (b"", b"{", b"[", b'"', b'{"'):
        if matcher.allows_bytes(start):
            twin = matcher.copy()
            twin.commit_bytes(start)
            twin.bits(())


@dataclass(frozen=True, slots=True)
class Compiled:
    """A constraint that is ready. Masks of the same one may be in use at the same time."""

    text: TextModel
    matcher: GuidedMatcher
    document: GuidedMatcher | None = None
    """With it `matcher` holds the calls, and the model picks one of the two."""

    def mask(self, thinking: Thinking) -> Mask:
        """A mask for one choice of a prompt that leaves the thinking block as `thinking` says."""
        if self.document is None:
            return ConstraintMask(self.matcher.copy(), self.text, thinking)
        return BranchMask(self.matcher.copy(), self.document.copy(), self.text, thinking)


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A language that equals another by its digest, in which the field it came in does not count."""

    digest: bytes
    language: Language

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.digest == other.digest


def _digest(language: Language) -> bytes:
    """Keys stay in their order: a document has them in the schema's."""
    content: Any
    match language:
        case JsonObject():
            content = ()
        case JsonSchema():
            content = language.schema
        case Regex():
            content = language.pattern
        case Choice():
            content = language.texts
        case Calls():
            content = (list(language.tools), language.names, language.limit)
    try:
        return sha256(json.dumps((type(language).__name__, content)).encode()).digest()
    except RecursionError:
        raise BadInput(_param(language), "it is nested too deeply") from None


def _grammar(language: Language, text: TextModel) -> str:
    match language:
        case JsonObject():
            return schema_grammar({"type": "object"}, "response_format")
        case JsonSchema():
            return schema_grammar(language.schema, language.param)
        case Regex():
            return _regex(language)
        case Choice():
            return _choice(language)
        case Calls():
            return call_grammar(language.tools, names=language.names, limit=language.limit, markers=text.markers)


def _regex(regex: Regex) -> str:
    """The library's dialect is that of Rust's `regex`, over the whole text; `^` and `$` at its ends say the same."""
    pattern = regex.pattern
    _check_text(pattern, regex.param)
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise BadInput(regex.param, "the regex ends in the middle of an escape")
    # The library's form of it holds the Lark source, with what a regex has to escape there.
    grammar = json.loads(LLMatcher.grammar_from_regex(pattern or "()"))
    source: str = grammar["grammars"][0]["lark_grammar"]
    return source


def _choice(choice: Choice) -> str:
    """One terminal, so that a text may begin another."""
    if not choice.texts:
        raise BadInput(choice.param, "the choice has no texts")
    _check_text("".join(choice.texts), choice.param)
    return f"start: TEXT\nTEXT: {' | '.join(map(json.dumps, choice.texts))}\n"


def _check_text(text: str, param: str) -> None:
    if len(text) > MAX_TEXT:
        raise BadInput(param, f"it is longer than {MAX_TEXT} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(param, "it holds a lone surrogate, which is not valid Unicode") from None


TOO_COMPLEX: Final = "the constraint is too complex"

_REASONS: Final = (
    ("oneOf", "`oneOf` has alternatives that cannot be told apart: use `anyOf`, or a required constant in each"),
    ("circular references", "`$ref` leads back to itself beside other keywords, which cannot be enforced"),
    ("disjoint", "`patternProperties` has patterns that may match the same name, which cannot be enforced"),
    ("min/maxProperties", "`minProperties` or `maxProperties` beside optional properties cannot be enforced"),
    ("nsatisfiable", "no document can satisfy the schema"),
    ("Failed to generate regex for", "`minimum` and `maximum` of a number are too fine or too far from 0"),
    ("regex is empty", "`pattern` with the lengths or the format beside it is too complex"),
    ("stack level", "`allOf` or a `$ref` beside other keywords is nested too deeply"),
    ("too large", "the schema is too large"),
    ("too complex", TOO_COMPLEX),
    ("too many", TOO_COMPLEX),
    ("limit", TOO_COMPLEX),
    ("fuel", TOO_COMPLEX),
)
"""What the library's messages mean for the client, by a part of them; they themselves may quote the whole schema."""


def _reason(error: str, language: Language) -> str:
    if isinstance(language, Regex):
        for part in ("look-around", "lookarounds", "backreferences"):
            if part in error:
                return "the regex has a look-around, a word border, an inner anchor or a back-reference: not regular"
    for part, reason in _REASONS:
        if part in error:
            return reason
    if "regex" in error or "lexeme" in error:
        return "the regex is broken" if isinstance(language, Regex) else "`pattern` is not a regular expression"
    return "it cannot be turned into a grammar"


def _param(language: Language) -> str:
    return "response_format" if isinstance(language, JsonObject) else language.param
